"""How the running turn goes: what its last calls were, what came back, and whether it turns in circles.

It is read call by call, as a history goes on (`history.py`): nothing here keeps a message, or looks at one twice.
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
from router.contract.rescue import measure_unevenness
from router.contract.signals import Trajectory
from router.sessions.shell_edits import find_shell_edit, is_shell

READ_CALLS = 10
"""The last calls with their results: trouble that is older was overcome, or is still there."""
_READ_MESSAGES = 60
_READ_CHANGES = 24
"""Calls that changed files: a turn that made this many has grown long in any case."""
_AT_ONCE = 32
"""Calls of one message, or results, that are looked at, and calls that are still known when their results come: a result of an
older one is judged by its text alone."""
_MAX_FILES = 200
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
_REDDENING = ("fail", "FAIL")
_TELLING = ("xit", "Traceback", "not found", "panic: ", "Segmentation", "ERR!", "error[", "BUILD", "error TS")
_HAPPY = (" pass", "ok  \t", "OK (", "result: ok", "tests pass")
"""Words without which the patterns above cannot match: to look for these takes a hundredth of the time."""
_BAD = frozenset({"red", "failed"})
_ALL_WELL = re.compile(r"exit(?:ed)?(?: with)?(?: code| status):? ?0\b", re.IGNORECASE)
"""A stated success: other words in the output then do not count as a failure."""
_EDITORS = frozenset({"str_replace_based_edit_tool", "str_replace_editor"})
"""Tools that read files too: what they do is said by their `command`."""
_VIEW = re.compile(r'"command"\s*:\s*"view"')
_TYPING = frozenset({"write_stdin"})
"""Tools that type into a running command, whatever their names say."""
_EDIT_MARKS = ("edit", "write", "patch", "str_replace", "create_file", "replace_in_file", "insert", "delete_file", "rename")
"""A tool whose name contains one of these changes files."""
BOOKKEEPING_TOOLS = frozenset(
    "TodoWrite TodoRead todo_write todo_read todowrite todoread update_plan update_todo_list think memory".split()
)
"""Tools that only keep a list or notes: no work, and "write" in a name of these changes no file."""
_READERS = re.compile(r"read|view|list|glob|grep|search|find|fetch|^ls$|open", re.IGNORECASE)
"""Tools that only read: an error in what they show is not a failure of the call."""


class Step(Struct, frozen=True):
    """What one message brought: marks of the calls in it and of the files that they changed, and what its results say."""

    index: int
    called: int = 0
    made: tuple[int, ...] = ()
    changed: tuple[int, ...] = ()
    verdicts: tuple[str, ...] = ()


class Work(Struct, frozen=True):
    """The work of a turn so far."""

    calls: int = 0
    edits: int = 0
    files: frozenset[int] = frozenset()
    """Marks of their names: of what somebody else wrote, nothing of any length is kept."""
    written_chars: int = 0
    is_quiet: dict[int, bool] = {}
    """Whether a call's result says nothing of how the work goes, by the mark of its id. Of the last calls."""
    steps: tuple[Step, ...] = ()
    """The last ones: as many as hold `READ_CALLS` calls."""
    called: int = 0
    """The calls in them."""
    said: int = 0
    """Characters that the agent wrote since its last call."""
    said_chars: int = 0
    """Characters that it wrote before all its calls."""
    said_squares: int = 0
    """The sum of their squares, call by call."""


class _Change(NamedTuple):
    """What one call writes: the files that it names, and how many characters."""

    files: tuple[str, ...]
    chars: int


NO_WORK = Work()
_name, _id = attrgetter("name"), attrgetter("id")
_files, _chars = attrgetter("files"), attrgetter("chars")
_made, _changed, _verdicts = attrgetter("made"), attrgetter("changed"), attrgetter("verdicts")


def add_calls(work: Work, index: int, calls: tuple[ToolCall, ...], said: int = 0) -> Work:
    """The work with the calls of one message, before which the agent wrote `said` characters."""
    said += work.said
    last = calls[-_AT_ONCE:]
    changes = _find_changes(calls, is_full=work.edits >= _READ_CHANGES)
    files, written_chars = work.files, work.written_chars
    if changes:
        named = islice(chain.from_iterable(map(_files, changes)), _MAX_FILES - len(files))
        files = files.union(map(hash, named))
        written_chars += sum(map(_chars, changes))
    is_quiet = work.is_quiet | dict(zip(map(hash, map(_id, last)), map(_is_quiet, map(_name, last)), strict=True))
    changed = tuple([hash(change.files[0]) for change in changes[-_AT_ONCE:] if change.files and change.files[0]])
    called, steps = _add_step(work, Step(index, len(calls), _mark_calls(last), changed))
    return Work(
        work.calls + sum(map(_counts, map(_name, calls))),
        work.edits + len(changes),
        files,
        written_chars,
        is_quiet if len(is_quiet) <= _AT_ONCE else dict(list(is_quiet.items())[-_AT_ONCE:]),
        steps,
        called,
        said_chars=work.said_chars + said,
        said_squares=work.said_squares + said * said,
    )


def add_said(work: Work, texts: tuple[str, ...]) -> Work:
    """The work with what the agent wrote in a message of its own: it counts for the call that follows."""
    return replace(work, said=work.said + sum(map(len, texts)))


def add_results(work: Work, index: int, results: tuple[ToolResult, ...]) -> Work:
    """The work with what came back from calls."""
    is_quiet = work.is_quiet.get
    told = [result for result in results[-_AT_ONCE:] if result.is_error or not is_quiet(hash(result.call_id))]
    if not told:
        return work
    called, steps = _add_step(work, Step(index, verdicts=tuple(map(_judge, told))))
    return replace(work, steps=steps, called=called)


def _find_changes(calls: tuple[ToolCall, ...], *, is_full: bool) -> list[_Change]:
    """The calls that change files, by a tool's name or by a command; of a turn that made many, without what they changed."""
    changes: list[_Change] = []
    for call in calls:
        name = call.name
        if _counts_as_edit(name):
            if name in _EDITORS and _views(call.arguments):
                continue
            text = "" if is_full else _as_text(call.arguments)
            changes.append(_Change(tuple(islice(_files_of(text), _MAX_FILES)), len(text)))
        elif is_shell(name) and (found := find_shell_edit(call.arguments)) is not None:
            changes.append(_Change((), 0) if is_full else _Change(found, len(_as_text(call.arguments))))
    return changes


def _views(arguments: Json) -> bool:
    """Whether a call of an editor only reads."""
    if isinstance(arguments, dict):
        return arguments.get("command") == "view"
    return isinstance(arguments, str) and _VIEW.search(arguments) is not None


def _mark_calls(calls: tuple[ToolCall, ...]) -> tuple[int, ...]:
    return tuple([hash((call.name, _as_text(call.arguments))) for call in calls if _counts(call.name)])


def _add_step(work: Work, new: Step) -> tuple[int, tuple[Step, ...]]:
    """The last steps with a new one, and how many calls are in them: no step more than is looked at."""
    steps, called = (*work.steps, new), work.called + new.called
    first, oldest = 0, new.index - _READ_MESSAGES
    while called - (step := steps[first]).called >= READ_CALLS or step.index < oldest:
        called -= step.called
        first += 1
    return called, steps[first:] if first else steps


def read_trajectory(work: Work, count: int) -> Trajectory:
    """How the work of a running turn goes, in a conversation of this length."""
    if not work.calls:
        return Trajectory()
    steps = work.steps
    if steps and steps[0].index < count - _READ_MESSAGES:
        steps = tuple([step for step in steps if step.index >= count - _READ_MESSAGES])
    made, changed = list(chain.from_iterable(map(_made, steps))), list(chain.from_iterable(map(_changed, steps)))
    failures, red_runs, is_green = _sum_up(list(chain.from_iterable(map(_verdicts, steps))))
    return Trajectory(
        calls=work.calls,
        edits=work.edits,
        failures=failures,
        repeats=_most_alike(made),
        red_runs=red_runs,
        is_green=is_green,
        same_file_edits=_most_alike(changed),
        files=len(work.files),
        written_chars=work.written_chars,
        unevenness=measure_unevenness(work.calls, work.said_chars, work.said_squares),
    )


def _most_alike(marks: list[int]) -> int:
    """How often the one is there that is there most."""
    return max(map(marks.count, marks), default=0)  # there are few, and a table of them would cost more


def _sum_up(verdicts: list[str]) -> tuple[int, int, bool]:
    """Calls that failed since one last went well, red runs since the last green one, and whether red turned green."""
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


def _judge(result: ToolResult) -> str:
    """What a result says: red or green tests, a failure, or that all is well."""
    text = result.text if len(result.text) <= _HEAD + _TAIL else f"{result.text[:_HEAD]}\n{result.text[-_TAIL:]}"
    # A shell's result always says "exit": only words that `_RED` itself needs are worth running it for.
    if any(word in text for word in _REDDENING) and _RED.search(text):
        return "red"
    if result.is_error:
        return "failed"
    if any(word in text for word in _TELLING) and not _ALL_WELL.search(text[:_HEAD]) and _FAILED.search(text):
        return "failed"
    return "green" if any(word in text for word in _HAPPY) and _GREEN.search(text) else "fine"


@lru_cache(maxsize=1024)
def _counts(name: str) -> bool:
    """Whether a call of this name is work, and no bookkeeping."""
    return name not in BOOKKEEPING_TOOLS


@lru_cache(maxsize=1024)
def _counts_as_edit(name: str) -> bool:
    return _counts(name) and is_edit(name)


@lru_cache(maxsize=1024)
def _is_quiet(name: str) -> bool:
    """Whether the results of a tool say nothing of how the work goes: it only reads, or changes a file."""
    return _READERS.search(name) is not None or is_edit(name)


@lru_cache(maxsize=1024)
def is_edit(name: str) -> bool:
    """Whether a tool of this name changes files."""
    lower = name.lower()
    return lower not in _TYPING and any(mark in lower for mark in _EDIT_MARKS)


def _as_text(arguments: Json) -> str:
    """Arguments as one text; empty where they are nested too deeply to be written, which a target may take all the same."""
    if isinstance(arguments, str):
        return arguments
    try:
        return orjson.dumps(arguments, default=as_written).decode()
    except orjson.JSONEncodeError:
        return ""


_FILE = re.compile(
    r'"(?:file_?path|path|filename|target_file|file)"\s*:\s*"([^"]{1,300})"|\*\*\* (?:Update|Add|Delete) File: ([^\n\\]{1,300})'
)


def _files_of(arguments: str) -> Iterator[str]:
    """Every file that a change names: a patch may name many."""
    for found in _FILE.finditer(arguments[:40_000]):
        yield found.group(1) or found.group(2)
