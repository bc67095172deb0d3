"""Labelled data as JSON lines of turns.

Fields identify a line about turns: recorded turn (`prompt`), ask (`text`), commit (`words`), second label for a turn in another
file (`id` and `file`).
"""

import gzip
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import TypeVar

import orjson

from router.config.faults import close_to
from router.contract.exchange import Arrival
from router.contract.request import Json, JsonObject
from router.contract.words import DEFAULT_DIALECT, Operation
from router.dialects.fields import as_list, as_object, as_text

ASKS, MEANING, COMMITS = "asks", "meaning", "commits"
"""Kinds of items without a record of the work."""
_UNKNOWN_WORDS = "(earlier message)"
_MAX_EARLIER, _MAX_CALLS = 20, 60
_TOOL_NAMES = ("read_file", "edit_file")
_LABELS = ("quick", "long", "unclear")
_SETTINGS = ("agent", "chat")
_WORK = {"quick": ((1, 1), (2, 1), (0, 0), (3, 1)), "long": ((18, 7), (26, 9), (14, 6), (33, 12))}
"""Calls and edits assumed for an earlier turn of known size."""
Read = TypeVar("Read")


class BadData(Exception):
    """An unreadable data file, with the line."""


@dataclass(frozen=True, slots=True)
class Item:
    """A person's turn, its history and label. Figures skip unclear ones: between quick and long, or ambiguous."""

    source: str
    repo: str
    prompt: str
    is_long: bool
    is_clear: bool
    has_tools: bool = False
    prior_turns: int = 0
    calls: tuple[int, ...] = ()
    edits: tuple[int, ...] = ()
    previous: str = ""
    id: str = ""
    kind: str = ""
    """`asks`, `meaning` or `commits`; empty for a recorded turn, labelled by its work."""

    @property
    def set_name(self) -> str:
        if self.kind == ASKS:
            if self.prior_turns:
                return "asks: later turns"
            return f"asks: first asks {'with' if self.has_tools else 'without'} tools"
        if self.kind == MEANING:
            return "real prompts: later turns" if self.prior_turns else "real prompts: first turns"
        return self.kind or self.source


def load_items(paths: Iterable[Path]) -> list[Item]:
    """All turns, in order. Raises `BadData`."""
    return [item for path in paths for item in load_lines(path, partial(read_item, path))]


def load_lines(path: Path, read: Callable[[JsonObject, int], Read]) -> Iterator[Read]:
    """Read each line, a JSON object, with its number. Raises `BadData`."""
    for number, line in enumerate(_read_lines(path), 1):
        if line.strip():
            try:
                found = orjson.loads(line)
                if not isinstance(found, dict):
                    raise TypeError("a line must be a JSON object")
                yield read(found, number)
            except orjson.JSONDecodeError as error:
                raise BadData(f"{path} line {number}: is not JSON: {error}") from error
            except KeyError as error:
                raise BadData(f'{path} line {number}: "{error.args[0]}" is missing') from error
            except (TypeError, ValueError) as error:
                raise BadData(f"{path} line {number}: {error}") from error


def _read_lines(path: Path) -> list[bytes]:
    try:
        content = path.read_bytes()
        return (gzip.decompress(content) if path.suffix == ".gz" else content).splitlines()
    except OSError as error:
        raise BadData(f"{path}: {error.strerror or error}") from error
    except (EOFError, zlib.error) as error:
        raise BadData(f"{path}: is not a gzip file: {error}") from error


def read_item(path: Path, found: JsonObject, number: int) -> Item:
    if found["label"] not in _LABELS:
        raise ValueError('label must be "quick", "long" or "unclear"')
    if "file" in found and "prompt" not in found:
        return _read_meaning(found, path)
    if "text" in found:
        return _read_ask(found, path, number)
    return _read_commit(found) if "words" in found else _read_turn(found)


def _read_turn(found: JsonObject) -> Item:
    context, prompt, repo = as_object(found.get("context")), found["prompt"], str(found.get("repo", "unknown"))
    if found["label"] == "unclear" or not isinstance(prompt, str):
        raise ValueError('label must be "quick" or "long", and prompt must be text')
    calls = _numbers(context.get("prior_tool_calls"))
    return Item(
        source=str(found.get("source", "unknown")),
        repo=repo,
        prompt=prompt,
        is_long=found["label"] == "long",
        is_clear=found.get("band", "clear") == "clear",
        has_tools=bool(context.get("has_tools")),
        prior_turns=max(_number(context.get("prior_turns")), len(calls)),
        calls=calls,
        edits=_numbers(context.get("prior_edits")),
        previous=as_text(context.get("prev_prompt")),
        id=str(found.get("id", "")),
    )


def _read_ask(found: JsonObject, path: Path, line: int) -> Item:
    previous, setting = found.get("previous"), found.get("setting")
    if setting not in (None, *_SETTINGS):
        hint = close_to(str(setting), _SETTINGS).strip()
        raise ValueError(f'setting must be "agent" or "chat", not "{str(setting)[:40]}"{": " + hint if hint else ""}')
    work: tuple[tuple[int, int], ...] = ()
    if previous:
        size = str(found.get("previous_size", "quick"))
        if size not in _WORK:
            raise ValueError('previous_size must be "quick" or "long"')
        work = (_WORK[size][number_of(found, line) % len(_WORK[size])],) if setting == "agent" else ((0, 0),)
    return Item(
        source=ASKS,
        repo=path.stem,
        prompt=_text(found, "text"),
        is_long=found["label"] == "long",
        is_clear=found["label"] != "unclear",
        has_tools=setting == "agent",
        prior_turns=len(work),
        calls=tuple(calls for calls, _ in work),
        edits=tuple(edits for _, edits in work),
        previous=str(previous) if previous else "",
        id=str(found.get("id", "")),
        kind=ASKS,
    )


def number_of(found: JsonObject, line: int) -> int:
    """The number in a line's id, else the line number."""
    return int("".join(filter(str.isdecimal, str(found.get("id", "")))) or line)


def _read_meaning(found: JsonObject, path: Path) -> Item:
    if (path.parent / str(found["file"])).resolve() == path.resolve():
        raise ValueError("file must name another file")
    return label(_index(path.parent / str(found["file"])), found)


def label(turns: Mapping[str, Item], found: JsonObject) -> Item:
    """The turn that a line names, with that line's label."""
    turn = turns.get(str(found["id"]))
    if turn is None:
        raise ValueError(f"{found.get('file', 'the file')} has no item {found['id']}")
    return replace(turn, is_long=found["label"] == "long", is_clear=found["label"] != "unclear", kind=MEANING)


@lru_cache(maxsize=8)
def _index(path: Path) -> dict[str, Item]:
    return {item.id: item for item in load_items([path])}


def _read_commit(found: JsonObject) -> Item:
    is_clear = found.get("band", "clear") == "clear" and found["label"] != "unclear"
    repo, name = str(found.get("repo", "unknown")), str(found.get("id", ""))
    return Item(COMMITS, repo, _text(found, "words"), found["label"] == "long", is_clear, id=name, kind=COMMITS)


def _text(found: JsonObject, name: str) -> str:
    if not isinstance(text := found[name], str):
        raise TypeError(f"{name} must be a string")
    return text


def _number(value: Json) -> int:
    return int(value) if isinstance(value, (int, float)) else 0


def _numbers(value: Json) -> tuple[int, ...]:
    return tuple(map(_number, as_list(value)))


def arrival_of(item: Item) -> Arrival:
    """The item as a chat request, with its number of earlier turns and their calls."""
    return Arrival("req_lab", DEFAULT_DIALECT, Operation.CREATE, {}, orjson.dumps(chat_body(item)))


def chat_body(item: Item) -> JsonObject:
    messages: list[Json] = []
    for back in range(min(item.prior_turns, _MAX_EARLIER), 0, -1):
        words = item.previous if back == 1 and item.previous else _UNKNOWN_WORDS
        messages.append({"role": "user", "content": words})
        made = min(item.calls[-back], _MAX_CALLS) if back <= len(item.calls) else 0
        changed = min(item.edits[-back], made) if back <= len(item.edits) else 0
        if made:
            calls = [_call(f"call_{back}_{number}", is_edit=number < changed) for number in range(made)]
            messages.append({"role": "assistant", "content": None, "tool_calls": calls})
            messages += [{"role": "tool", "tool_call_id": f"call_{back}_{number}", "content": "done"} for number in range(made)]
        messages.append({"role": "assistant", "content": "Done."})
    messages.append({"role": "user", "content": item.prompt})
    body: JsonObject = {"model": "auto", "messages": messages}
    if item.has_tools:
        body["tools"] = [{"type": "function", "function": {"name": name, "parameters": {}}} for name in _TOOL_NAMES]
    return body


def _call(name: str, *, is_edit: bool) -> Json:
    return {"id": name, "type": "function", "function": {"name": _TOOL_NAMES[is_edit], "arguments": "{}"}}
