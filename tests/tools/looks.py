"""Turns that deep looks over: requests after an edit in each dialect, and the config of two scripted tiers."""

import json

from tests.tools.speech import Script, Speech, speak
from tests.tools.upstream import answer_json, silent

SAID = "I renamed it."
OBJECTION = {"fine": False, "objections": [{"file": "src/app.py", "line": 3, "breaks": "total is None", "sure": "likely"}]}
BLOCK = "deep looked this over:\n1) `src/app.py`, line 3: “total is None” (likely)\nSay *fix it* and deep does."
_EDIT = {"file_path": "src/app.py", "old_string": "retrun", "new_string": "return"}


def edited(dialect: str, ask: str = "fix the typo in this line: retrun x", *, streams: bool = True) -> dict:
    """A request after one edit of a turn."""
    arguments, body = json.dumps(_EDIT), {"model": "auto", "stream": streams}
    said = {"role": "user", "content": ask}
    match dialect:
        case "chat":
            call = {"id": "c1", "type": "function", "function": {"name": "Edit", "arguments": arguments}}
            edit = {"role": "assistant", "content": None, "tool_calls": [call]}
            body["messages"] = [said, edit, {"role": "tool", "tool_call_id": "c1", "content": "ok"}]
        case "responses":
            call = {"type": "function_call", "call_id": "c1", "name": "Edit", "arguments": arguments}
            body["input"] = [said, call, {"type": "function_call_output", "call_id": "c1", "output": "ok"}]
        case "messages":
            call = {"type": "tool_use", "id": "c1", "name": "Edit", "input": _EDIT}
            result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "ok"}]}
            body |= {"max_tokens": 2_000, "messages": [said, {"role": "assistant", "content": [call]}, result]}
    return body


def then(dialect: str, body: dict, answer: str, words: str) -> dict:
    """The next turn: the conversation with an answer and further words."""
    field = "input" if dialect == "responses" else "messages"
    more = [{"role": "assistant", "content": answer}, {"role": "user", "content": words}]
    return {**body, field: [*body[field], *more]}


def deep_says(dialect: str) -> dict[str, Script]:
    """What deep answers, by what a look makes of it."""
    return {
        "fine": speak(dialect, Speech('{"fine": true}')),
        "objections": speak(dialect, Speech(json.dumps(OBJECTION))),
        "late": silent,
        "odd": speak(dialect, Speech("I would rather talk.")),
        "failed": answer_json({"error": {"type": "permission_error", "message": "not for you"}}, status=403),
    }


def two_tiers(dialect: str, fast: str, deep: str, combine: str = "{look: {when: always, max_seconds: 0.3}}") -> str:
    def target(name: str, base_url: str) -> str:
        adapter, url = ("anthropic_http", base_url.removesuffix("/v1")) if dialect == "messages" else ("openai_http", base_url)
        accepts = "accepts: [text, tools, images, files, json_schema, reasoning]"
        return f'{{name: {name}, adapter: {adapter}, dialect: {dialect}, base_url: "{url}", model: m, window_tokens: 400000, {accepts}}}'

    return f"""
ledger: {{path: test.db}}
models: {{auto: auto, fast: fast, deep: deep, "*": auto}}
tiers:
  fast: {{targets: [{target("spark", fast)}]}}
  deep: {{targets: [{target("sage", deep)}]}}
combine: {combine}
"""
