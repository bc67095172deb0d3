"""How the running turn goes: its last calls, their results, and whether it repeats itself.

Read call by call as a history grows (`history.py`): no message is kept or read twice.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import chain, islice
from operator import attrgetter
from typing import NamedTuple

import orjson
from msgspec import Struct
from msgspec.structs import replace

from router.contract.digits import as_written
from router.contract.request import Json, ToolCall, ToolResult
from router.contract.signals import Trajectory
from router.sessions.shell_edits import find_shell_edit, is_shell

READ_CALLS = 10
"""Calls judged with their results: older trouble was overcome or still shows."""
_READ_MESSAGES = 60
_AT_ONCE = 32
"""Calls or results read per message, and calls remembered until their results come."""
_MAX_FILES = 200
_READ_CHARS = 40_000
"""Of a call's arguments, for the names of files."""
_HEAD, _TAIL = 400, 1_200
_RED = {
    "fail": re.compile(r"\b[1-9]\d* (?:tests? )?fail(?:ed|ures?|ing)\b|Tests:.*\b[1-9]\d* failed"),
    "FAIL": re.compile(r"^FAIL\b|^FAILED\b|--- FAIL", re.MULTILINE),
}
"""Patterns by a word without which they cannot match: finding the word costs a hundredth."""
_FAILED = {
    "xit": re.compile(r"\bexit(?:ed)?(?: with)?(?: code| status)?:? ?[1-9]\d{0,2}\b|Exit [Cc]ode:? ?[1-9]"),
    "Traceback": re.compile(r"Traceback \(most recent call last\)"),
    "command not found": re.compile("command not found"),
    "panic: ": re.compile(r"\bpanic: "),
    "Segm": re.compile("Segmentation fault"),
    "ERR!": re.compile("npm ERR!"),
    "error[E": re.compile(r"error\[E\d+\]"),
    "BUILD FAILED": re.compile("BUILD FAILED"),
    "error TS": re.compile(r"error TS\d+"),
}
_GREEN = {
    " pass": re.compile(r"\b[1-9]\d* (?:tests? )?pass(?:ed|ing)\b|All tests passed"),
    "OK (": re.compile(r"^OK \(\d+", re.MULTILINE),
    "result: ok": re.compile("test result: ok"),
}
_GREEN_IN_GO = re.compile(r"^ok  \t\S+\s+[\d.]+s", re.MULTILINE)
"""Separate, since it may match over two lines."""
_BAD = frozenset({"red", "failed"})
_ALL_WELL = re.compile(r"exit(?:ed)?(?: with)?(?: code| status):? ?0\b", re.IGNORECASE)
"""A stated success: other words in the output are then no failure."""
_EDITORS = frozenset({"str_replace_based_edit_tool", "str_replace_editor"})
"""Tools that also read files, by their `command`."""
_VIEW = re.compile(r'"command"\s*:\s*"view"')
_TYPING = frozenset({"write_stdin"})
"""Tools that type into a running command, despite their names."""
_EDIT_MARKS = ("edit", "write", "patch", "str_replace", "create_file", "replace_in_file", "insert", "delete_file", "rename")
BOOKKEEPING_TOOLS = frozenset(
    "TodoWrite TodoRead todo_write todo_read todowrite todoread update_plan update_todo_list think memory".split()
)
"""Tools that keep lists or notes, which is not work."""
_READERS = re.compile(r"read|view|list|glob|grep|search|find|fetch|^ls$|open", re.IGNORECASE)
"""Tools that only read: an error in their output is not a failed call."""


class Step(Struct, frozen=True):
    """One message's calls as hashes, and verdicts on its results."""

    index: int
    called: int = 0
    made: tuple[int, ...] = ()
    verdicts: tuple[str, ...] = ()


class Work(Struct):
    """Never changed once kept: `go_on` makes a copy."""

    calls: int = 0
    edits: int = 0
    is_quiet: dict[int, bool] = {}
    """Whether a recent call's result says nothing about progress, by the hash of its id."""
    steps: list[Step] = []
    """Enough for `READ_CALLS` calls."""


class _Tool(NamedTuple):
    counts: bool
    """False for bookkeeping."""
    edits: bool
    """Or may: an editor also reads."""
    runs_commands: bool
    is_quiet: bool
    """Results say nothing about progress."""


_called, _made, _verdicts = attrgetter("called"), attrgetter("made"), attrgetter("verdicts")


def go_on(work: Work) -> Work:
    return replace(work, is_quiet=work.is_quiet.copy(), steps=work.steps.copy())


def add_calls(work: Work, index: int, calls: tuple[ToolCall, ...], *, is_old: bool = False) -> None:
    """Old calls are only counted."""
    for call in calls:
        tool = _know(call.name)
        work.calls += tool.counts
        work.edits += _changes_files(tool, call)
    last, is_quiet = calls[-_AT_ONCE:], work.is_quiet
    for call in last:
        is_quiet[hash(call.id)] = _know(call.name).is_quiet
    while len(is_quiet) > _AT_ONCE:
        del is_quiet[next(iter(is_quiet))]
    if not is_old:
        work.steps.append(Step(index, len(calls), _mark_calls(last)))


def add_results(work: Work, index: int, results: tuple[ToolResult, ...]) -> None:
    is_quiet = work.is_quiet.get
    told = [result for result in results[-_AT_ONCE:] if result.is_error or not is_quiet(hash(result.call_id))]
    if told:
        work.steps.append(Step(index, verdicts=tuple(map(judge, told))))


def forget_old(work: Work) -> None:
    steps = work.steps
    if steps:
        called, first, oldest = sum(map(_called, steps)), 0, steps[-1].index - _READ_MESSAGES
        while called - (step := steps[first]).called >= READ_CALLS or step.index < oldest:
            called -= step.called
            first += 1
        del steps[:first]


def _changes_files(tool: _Tool, call: ToolCall) -> bool:
    if tool.edits:
        return call.name not in _EDITORS or not _views(call.arguments)
    return tool.runs_commands and find_shell_edit(call.arguments) is not None


def find_changed(call: ToolCall) -> tuple[str, ...] | None:
    """Files that a call changes, an empty name for an unknown one; None if it changes none."""
    tool = _know(call.name)
    if tool.edits:
        if call.name in _EDITORS and _views(call.arguments):
            return None
        return tuple(islice(_files_of(_as_text(call.arguments)), _MAX_FILES)) or ("",)
    return find_shell_edit(call.arguments) if tool.runs_commands else None


def tells_nothing(name: str) -> bool:
    """Whether a tool's results say nothing about progress: it edits, reads or searches."""
    return _know(name).is_quiet


def _views(arguments: Json) -> bool:
    if isinstance(arguments, dict):
        return arguments.get("command") == "view"
    return isinstance(arguments, str) and _VIEW.search(arguments) is not None


def _mark_calls(calls: tuple[ToolCall, ...]) -> tuple[int, ...]:
    return tuple([hash((call.name, _as_text(call.arguments))) for call in calls if _know(call.name).counts])


def read_trajectory(work: Work, count: int) -> Trajectory:
    if not work.calls:
        return Trajectory()
    steps = work.steps
    if steps and steps[0].index < count - _READ_MESSAGES:
        steps = [step for step in steps if step.index >= count - _READ_MESSAGES]
    made = list(chain.from_iterable(map(_made, steps)))
    failures, red_runs, is_green = _sum_up(list(chain.from_iterable(map(_verdicts, steps))))
    return Trajectory(
        calls=work.calls,
        edits=work.edits,
        failures=failures,
        repeats=_most_alike(made),
        red_runs=red_runs,
        is_green=is_green,
    )


def _most_alike(marks: list[int]) -> int:
    if len(set(marks)) == len(marks):
        return min(len(marks), 1)
    return max(map(marks.count, marks))  # there are few: a table would cost more


def _sum_up(verdicts: list[str]) -> tuple[int, int, bool]:
    """Failures since the last success, red runs since the last green one, and whether red turned green."""
    if _BAD.isdisjoint(verdicts):
        return 0, 0, False
    failures = red_runs = 0
    was_red = is_green = False
    for verdict in verdicts:
        if verdict == "red":
            red_runs += 1
            was_red, is_green = True, False
        elif verdict == "green":
            is_green = was_red
            was_red, red_runs = False, 0
        failures = failures + 1 if verdict in _BAD else 0
    return failures, red_runs, is_green


def judge(result: ToolResult) -> str:
    """`red` or `green` for tests, else `failed` or `fine`."""
    text = result.text if len(result.text) <= _HEAD + _TAIL else f"{result.text[:_HEAD]}\n{result.text[-_TAIL:]}"
    if _shows(_RED, text):
        return "red"
    if result.is_error or _shows_failure(text):
        return "failed"
    return "green" if _shows(_GREEN, text) or ("ok  \t" in text and _GREEN_IN_GO.search(text)) else "fine"


def _shows_failure(text: str) -> bool:
    head = text[:_HEAD]
    if "xit" in head and _ALL_WELL.search(head):  # tried first, since most shell results have it
        return False
    return _shows(_FAILED, text) and not _ALL_WELL.search(head)


def _shows(signs: dict[str, re.Pattern[str]], text: str) -> bool:
    """Tries each pattern only on lines with its word."""
    for word in filter(text.__contains__, signs):
        end = 0
        while (at := text.find(word, end)) >= 0:
            begin, end = text.rfind("\n", 0, at) + 1, text.find("\n", at)
            end = end if end >= 0 else len(text)
            if signs[word].search(text, begin, end):
                return True
    return False


@lru_cache(maxsize=1024)
def _know(name: str) -> _Tool:
    counts, edits = name not in BOOKKEEPING_TOOLS, is_edit(name)
    return _Tool(counts, counts and edits, is_shell(name), edits or _READERS.search(name) is not None)


@lru_cache(maxsize=1024)
def is_edit(name: str) -> bool:
    lower = name.lower()
    return lower not in _TYPING and any(mark in lower for mark in _EDIT_MARKS)


def _as_text(arguments: Json) -> str:
    """Empty if nested too deeply to encode, which a target may still accept."""
    if isinstance(arguments, str):
        return arguments
    try:
        return orjson.dumps(arguments, default=as_written).decode()
    except orjson.JSONEncodeError:
        return ""


_FILE = re.compile(
    r'"(?:file_?[pP]ath|path|filename|target_file|file)"\s*:\s*"([^"]{1,300})"'
    r"|\*\*\* (?:Update|Add|Delete) File: ([^\n\\]{1,300})"
)


def _files_of(arguments: str) -> Iterator[str]:
    """A patch may name many."""
    for found in _FILE.finditer(arguments[:_READ_CHARS]):
        yield found.group(1) or found.group(2)
