"""How the running turn goes: what its last calls were, what came back, and whether it turns in circles."""

import re
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache

import orjson

from router.contract.request import Conversation, Json, Message, ToolResult
from router.contract.signals import Trajectory
from router.sessions.clients import BOOKKEEPING_TOOLS, Client
from router.sessions.history import is_edit
from router.sessions.words import opening_words

_READ_CALLS = 10
"""The last calls with their results: trouble that is older was overcome, or is still there."""
_READ_MESSAGES = 60
_READ_CHANGES = 24
"""Calls that changed files: a turn that made so many has grown long in any case."""
_COUNTED_MESSAGES = 400
_HEAD, _TAIL = 400, 1_200
_FAILED = re.compile(
    r"Traceback \(most recent call last\)|\bexit(?:ed)?(?: with)?(?: code| status)?:? ?[1-9]\d{0,2}\b|Exit [Cc]ode:? ?[1-9]"
    r"|command not found|\bpanic: |Segmentation fault|npm ERR!|error\[E\d+\]|BUILD FAILED|error TS\d+"
)
_RED = re.compile(
    r"\b[1-9]\d* (?:tests? )?fail(?:ed|ures?|ing)\b|^FAIL\b|^FAILED\b|--- FAIL|Tests:.*\b[1-9]\d* failed", re.MULTILINE
)
_GREEN = re.compile(
    r"\b[1-9]\d* (?:tests? )?pass(?:ed|ing)\b|^ok  \t\S+\s+[\d.]+s|^OK \(\d+|test result: ok|All tests passed", re.MULTILINE
)
_TELLING = ("fail", "FAIL", "xit", "Traceback", "not found", "panic: ", "Segmentation", "ERR!", "error[", "error TS")
_HAPPY = (" pass", "ok  \t", "OK (", "result: ok", "tests pass")
"""Words without which the patterns above cannot match: to look for these takes a hundredth of the time."""
_ALL_WELL = re.compile(r"exit(?:ed)?(?: with)?(?: code| status):? ?0\b", re.IGNORECASE)
"""A stated success: other words in the output then do not count as a failure."""
_READERS = re.compile(r"read|view|list|glob|grep|search|find|fetch|^ls$|open", re.IGNORECASE)
"""Tools that only read: an error in what they show is not a failure of the call."""


def read_trajectory(conversation: Conversation, client: Client) -> Trajectory:
    """Read the running turn: from the person's last words to the end."""
    start = _find_start(conversation, client)
    calls = edits = 0
    changed: list[int] = []
    peeks = conversation.peeks
    for index in range(start, len(peeks)):
        for name in peeks[index].calls:
            if name not in BOOKKEEPING_TOOLS:
                calls += 1
                if is_edit(name):
                    edits += 1
                    changed.append(index)
    if not calls:
        return Trajectory()
    files, written_chars = _measure_changes(conversation, changed)
    first, seen = len(conversation), 0
    while first > max(start, len(conversation) - _READ_MESSAGES) and seen < _READ_CALLS:
        first -= 1
        seen += len(peeks[first].calls)
    last = _read_last([conversation[index] for index in range(first, len(conversation))])
    return last._replace(calls=calls, edits=edits, files=files, written_chars=written_chars)


def _measure_changes(conversation: Conversation, places: list[int]) -> tuple[int, int]:
    """How many files the changes of a turn touched, and how much they wrote. The first of them tell enough."""
    files: set[str] = set()
    written = 0
    for index in dict.fromkeys(places[:_READ_CHANGES]):
        for call in conversation[index].calls:
            if is_edit(call.name):
                arguments = _as_text(call.arguments)
                written += len(arguments)
                files.update(_files_of(arguments))
    return len(files), written


def _find_start(conversation: Conversation, client: Client) -> int:
    """The message behind the person's last words."""
    peeks = conversation.peeks
    for index in range(len(peeks) - 1, max(-1, len(peeks) - 1 - _COUNTED_MESSAGES), -1):
        if peeks[index].role == "user" and opening_words(conversation[index], client):
            return index + 1
    return max(0, len(conversation) - _COUNTED_MESSAGES)


def _read_last(messages: list[Message]) -> Trajectory:
    made: Counter[str] = Counter()
    changed: Counter[str] = Counter()
    names: dict[str, str] = {}
    failures = red_runs = 0
    was_red = is_green = False
    for message in messages:
        for call in message.calls:
            names[call.id] = call.name
            if call.name in BOOKKEEPING_TOOLS:
                continue
            arguments = _as_text(call.arguments)
            if is_edit(call.name) and (file := _file_of(arguments)):
                changed[file] += 1
            made[f"{call.name}\0{arguments}"] += 1
        for result in message.results:
            verdict = _judge(result, names.get(result.call_id, ""))
            if verdict == "red":
                red_runs += 1
                was_red, is_green = True, False
            elif verdict == "green":
                is_green = was_red
                was_red, red_runs = False, 0
            if verdict in ("red", "failed"):
                failures += 1
            elif verdict in ("green", "fine"):
                failures = 0
    return Trajectory(
        failures=failures,
        repeats=max(made.values(), default=0),
        red_runs=red_runs,
        is_green=is_green,
        same_file_edits=max(changed.values(), default=0),
    )


def _judge(result: ToolResult, name: str) -> str:
    """What a result says: red or green tests, a failure, that all is well, or nothing (a look, or a change that was made)."""
    text = result.text if len(result.text) <= _HEAD + _TAIL else f"{result.text[:_HEAD]}\n{result.text[-_TAIL:]}"
    has_words = any(word in text for word in _TELLING)
    if result.is_error:
        return "red" if has_words and _RED.search(text) else "failed"
    if _only_looks(name) or is_edit(name):
        return "nothing"
    if has_words:
        if _RED.search(text):
            return "red"
        if not _ALL_WELL.search(text[:_HEAD]) and _FAILED.search(text):
            return "failed"
    return "green" if any(word in text for word in _HAPPY) and _GREEN.search(text) else "fine"


@lru_cache(maxsize=1024)
def _only_looks(name: str) -> bool:
    return _READERS.search(name) is not None


def _as_text(arguments: Json) -> str:
    return arguments if isinstance(arguments, str) else orjson.dumps(arguments).decode()


_FILE = re.compile(
    r'"(?:file_?path|path|filename|target_file|file)"\s*:\s*"([^"]{1,300})"|\*\*\* (?:Update|Add|Delete) File: ([^\n\\]{1,300})'
)


def _file_of(arguments: str) -> str:
    return next(_files_of(arguments[:4_000]), "")


def _files_of(arguments: str) -> Iterator[str]:
    """Every file that a change names: a patch may name many."""
    for found in _FILE.finditer(arguments[:40_000]):
        yield found.group(1) or found.group(2)
