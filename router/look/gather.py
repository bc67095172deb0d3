"""What a turn changed, from its request and the answer that ended it → the question for deep. Pure.

Edits are shown as they are in the turn's own calls. Text of any origin is cut, and binary content is left out.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import takewhile
from typing import NamedTuple

import orjson

from router.contract.request import Json, RequestView, ToolCall, ToolResult
from router.contract.signals import Turn
from router.dialects.table import SPECS
from router.look.verdict import FORM
from router.sense.tokens import HIGH, estimate_tokens
from router.sessions.clients import BY_NAME, UNKNOWN_CLIENT, Client
from router.sessions.history import read_history
from router.sessions.trajectory import find_changed, judge, tells_nothing

MAX_TOKENS_IN = 12_000
_ASK, _EDITS, _PRINTED, _SAID = 4_000, 22_000, 6_000, 4_000
"""Characters of each part; all shrink alike where that is too many tokens."""
_LEAST_OF_AN_EDIT = 400
_MAX_STRINGS = 200
_NAMES_FILE = re.compile(r"file_?path|path|filename|target_file|file|command|type", re.IGNORECASE)
"""Fields of an edit that are short, and shown in one line."""
_OLD, _NEW, _END = (re.compile(rf"{sign}{{5,9}}{word}>?\s*") for sign, word in (("<", " SEARCH"), ("=", ""), (">", " REPLACE")))
"""Lines around the old and the new text of an edit that an answer holds."""
_FENCE = "```"
_PATH = re.compile(r"[\w.@+-][\w./@+-]*\.\w{1,12}")
_LONGEST_ANSWER = 200_000


class Edit(NamedTuple):
    files: tuple[str, ...]
    text: str


class Done(NamedTuple):
    """A turn's work as deep gets to see it."""

    edits: tuple[Edit, ...]
    printed: tuple[str, ...]
    """Output of commands after the first edit, oldest first."""
    is_green: bool
    """The last test run after the last edit passed."""

    @property
    def files(self) -> list[str]:
        return [file for edit in self.edits for file in edit.files]


def gather(view: RequestView, turn: Turn, said: str) -> Done:
    """The edits of the running turn that did not fail. `said` is the answer that ended it."""
    client = BY_NAME.get(turn.client, UNKNOWN_CLIENT)
    edits: list[Edit] = []
    printed: list[str] = []
    is_green = False
    for call, result in _pair(view, client):
        files = find_changed(call)
        if files is not None and (result is None or not result.is_error):
            edits.append(Edit(files, show_call(call)))
            is_green = False
        if result is None or not edits or tells_nothing(call.name):
            continue
        printed.append(result.text)
        if (verdict := judge(result)) in ("red", "green"):
            is_green = verdict == "green"
    if not client.calls_tools and (written := find_written(said[:_LONGEST_ANSWER])):
        edits += written
        is_green = False
    return Done(tuple(edits), tuple(printed), is_green)


def _pair(view: RequestView, client: Client) -> Iterator[tuple[ToolCall, ToolResult | None]]:
    """Calls since the person's newest words, each with its result. A compacted history has only those after the summary."""
    conversation = view.conversation
    words_at = read_history(conversation, client, SPECS[view.dialect].silent).words_at
    messages = conversation[words_at[-1] if words_at else 0 :]
    results = {result.call_id: result for message in messages for result in message.results}
    for message in messages:
        for call in message.calls:
            yield call, results.get(call.id)


def find_written(said: str) -> list[Edit]:
    """Edits that an answer holds as text, for clients that apply them without a tool: blocks, diffs, or else whole files."""
    blocks: list[Edit] = []
    whole: list[Edit] = []
    path, lines = "", iter(said.splitlines())
    for line in lines:
        opened = next(lines, "") if line.startswith(_FENCE) else line
        if _OLD.fullmatch(opened):
            old, new = (list(takewhile(partial(_is_before, end), lines)) for end in (_NEW, _END))
            blocks.append(Edit((path,), "\n".join(("replace:", *old, "by:", *new))))
        elif line.startswith(_FENCE):
            inside = [opened, *takewhile(lambda each: not each.startswith(_FENCE), lines)]
            if line.strip("` ") == "diff":
                blocks.append(Edit(tuple(_paths_in(inside)), "\n".join(inside)))
            elif _PATH.fullmatch(path):
                whole.append(Edit((path,), "\n".join(inside)))
        elif line.strip():
            path = line.strip().strip("`*# ").removesuffix(":")
    return blocks or whole


def _is_before(end: re.Pattern[str], line: str) -> bool:
    return end.fullmatch(line) is None


def _paths_in(diff: Iterable[str]) -> Iterator[str]:
    for line in diff:
        if line.startswith("+++ "):
            yield line[4:].partition("\t")[0].strip().removeprefix("b/")


def show_call(call: ToolCall) -> str:
    """A call's fields as text: of an editor old and new strings or a patch, of a shell its command."""
    arguments: Json = call.arguments
    if isinstance(arguments, str) and arguments[:1] in "{[":
        with suppress(orjson.JSONDecodeError):  # free text, or cut by the model
            arguments = orjson.loads(arguments)
    lines = [call.name]
    for number, (name, text) in enumerate(_strings_in(arguments)):
        if number == _MAX_STRINGS:
            lines.append("…")
            break
        shown = _without_binary(text)
        is_short = "\n" not in shown and (not name or _NAMES_FILE.fullmatch(name))
        lines.append(f"{name}: {shown}" if name and is_short else f"{name}:\n{shown}" if name else shown)
    return "\n".join(lines)


def _strings_in(value: Json, name: str = "", depth: int = 6) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield name, value
    elif isinstance(value, dict) and depth:
        for key, inner in value.items():
            yield from _strings_in(inner, key, depth - 1)
    elif isinstance(value, list) and depth:
        if value and all(isinstance(item, str) for item in value):  # a command and its arguments
            yield name, " ".join(map(str, value))
            return
        for inner in value:
            yield from _strings_in(inner, name, depth - 1)


def _without_binary(text: str) -> str:
    head = text[:4_000]
    odd = sum(not sign.isprintable() and sign not in "\t\r\n\f" for sign in head)
    return f"({len(text)} characters of binary content)" if odd > len(head) // 50 + 1 or "\0" in head else text


def write_question(prompt: str, turn: Turn, done: Done, said: str) -> str:
    """The whole question, of at most `MAX_TOKENS_IN` tokens by the upper end of the estimate."""
    share = 1.0
    while True:
        question = _write(prompt, turn, done, said, share)
        tokens = int(estimate_tokens(question.encode("utf-8", "replace")) * HIGH) + 1
        if tokens <= MAX_TOKENS_IN or share < 0.01:
            return question
        share *= min(0.95, 0.98 * MAX_TOKENS_IN / tokens)


def _write(prompt: str, turn: Turn, done: Done, said: str, share: float) -> str:
    ask, edits, printed, words = (int(part * share) for part in (_ASK, _EDITS, _PRINTED, _SAID))
    is_compacted = turn.goes_on_after == "compaction"
    parts = [
        prompt.strip(),
        FORM,
        _section("request", cut(turn.ask_text or turn.person_text or "(not in the conversation any more)", ask)),
        "The conversation was compacted: edits before that are not shown." if is_compacted else "",
        _section("edits", _cut_all([edit.text for edit in done.edits], edits)),
        _section("printed by commands after the first edit", _cut_all(done.printed, printed)) if done.printed else "",
        _section("last words", cut(said, words)),
        "Your JSON object:",
    ]
    return "\n\n".join(filter(None, parts))


def _section(name: str, text: str) -> str:
    return f"---------- {name} ----------\n{text}\n---------- end of {name} ----------"


def _cut_all(texts: Sequence[str], max_chars: int) -> str:
    """The newest texts, each with an equal share of the room; what short ones leave goes to the others."""
    most = max(1, max_chars // _LEAST_OF_AN_EDIT)
    shown, left = texts[-most:], max_chars
    room: dict[int, int] = {}
    for place, index in enumerate(sorted(range(len(shown)), key=lambda index: len(shown[index]))):
        room[index] = min(len(shown[index]), left // (len(shown) - place))
        left -= room[index]
    omitted = [f"({len(texts) - len(shown)} earlier ones are left out)"] if len(shown) < len(texts) else []
    return "\n\n".join([*omitted, *(cut(text, room[index]) for index, text in enumerate(shown))])


def cut(text: str, max_chars: int) -> str:
    """The beginning and the end of a long text."""
    if len(text) <= max_chars:
        return text
    head = max_chars // 2
    return f"{text[:head]}\n… ({len(text) - 2 * head} characters left out)\n{text[len(text) - head :]}"
