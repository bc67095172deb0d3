"""Requests as clients really send them: no body comes twice. Each call of a loop repeats the one before it and adds to it."""

import itertools
import json
from collections.abc import Iterator
from random import Random

from tests.bench.load import request_of

SYSTEM = "You are a coding agent. " + "Follow the rules of the repository. " * 200
SHELL = {"type": "object", "properties": {"command": {"type": "array", "items": {"type": "string"}}}, "required": ["command"]}
TOOLS = ("shell", "apply_patch", "update_plan", "view_image", "search", "list_folder", "run_tests", "fetch")
ABOUT = "What it does, and when to use it. " * 12
OUTPUT = "    row = read(source, index + 1)  # keeps what was there\n" * 18
FIRST_CALLS = 20
SYLLABLES = "ba ko mi ter lu san do ve ri nal po gu".split()
_names = itertools.count(1)


def fresh_words(seed: int = 0) -> Iterator[bytes]:
    """Chat requests of sixty words that were never sent before."""
    draw = Random(seed)
    for number in _names:
        words = " ".join("".join(draw.choices(SYLLABLES, k=3)) for _ in range(60))
        yield request_of(_write({"messages": [{"role": "user", "content": f"Please look at {number}: {words}"}]}))


def chat_loop(calls: int, name: str) -> bytes:
    """A chat request of a tool loop after so many calls of a shell."""
    messages: list[dict] = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": _ask(name)}]
    for number in range(calls):
        made = {"name": "shell", "arguments": _arguments(number)}
        messages.append(
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": f"c_{name}_{number}", "type": "function", "function": made}],
            }
        )
        messages.append({"role": "tool", "tool_call_id": f"c_{name}_{number}", "content": _result(name, number)})
    tools = [{"type": "function", "function": {"name": tool, "description": ABOUT, "parameters": SHELL}} for tool in TOOLS]
    return request_of(_write({"messages": messages, "tools": tools}))


def responses_loop(calls: int, name: str) -> bytes:
    """The same over the Responses API, with reasoning between the calls, as Codex sends it."""
    items: list[dict] = [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": _ask(name)}]}]
    for number in range(calls):
        call = {"call_id": f"c_{name}_{number}"}
        sealed = {"summary": [], "encrypted_content": "gAAAA" + "x" * 600}
        items.append({"type": "reasoning", "id": f"rs_{name}_{number}", **sealed})
        items.append({"type": "function_call", **call, "name": "shell", "arguments": _arguments(number)})
        items.append({"type": "function_call_output", **call, "output": _result(name, number)})
    tools = [{"type": "function", "name": tool, "description": ABOUT, "parameters": SHELL} for tool in TOOLS]
    body = {"instructions": SYSTEM, "input": items, "stream": True, "store": False, "prompt_cache_key": name, "tools": tools}
    return request_of(_write(body), "responses")


LOOPS = {"chat": chat_loop, "responses": responses_loop}


def going_on(dialect: str) -> Iterator[bytes]:
    """One loop, a call longer each time. The first request is the one that was never seen."""
    name = f"on-{next(_names)}"
    return (LOOPS[dialect](calls, name) for calls in itertools.count(FIRST_CALLS))


def first_seen(dialect: str) -> Iterator[bytes]:
    """Loops that are met in the middle, each once: after a restart, a compaction or a fork."""
    return (LOOPS[dialect](FIRST_CALLS, f"new-{number}") for number in _names)


def _write(body: dict) -> bytes:
    return json.dumps({"model": "auto", **body}, separators=(",", ":")).encode()


def _ask(name: str) -> str:
    return f"Make the importer keep the order of the rows. {name}"


def _arguments(number: int) -> str:
    return json.dumps({"command": ["bash", "-lc", f"sed -n 1,80p src/part_{number % 7}.py"]})


def _result(name: str, number: int) -> str:
    return f"Exit code: 0\nWall time: 0.1 seconds\nOutput:\nstep {number} of {name}\n{OUTPUT}"
