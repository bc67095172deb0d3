"""Labelled turns from JSON lines, and each as the chat body that a router would have seen at that moment.

Six kinds of line are known by their fields: recorded turns (`prompt`), written asks (`text`), words that only point back at
the last turn (`text` with the label `vague`), a second label for turns of another file (`id`, `file`), a label for prompts of
the file `prompts.jsonl` next to it (`id`, `readings`), and commits (`words`). `load_remarks` reads what people say after a
turn (`says`).
"""

import gzip
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

import orjson

from router.config.faults import close_to
from router.contract.exchange import Arrival
from router.contract.request import Json, JsonObject
from router.contract.signals import Turn
from router.contract.words import DEFAULT_DIALECT, Operation
from router.dialects.requests import read_request
from router.sessions.turns import read_turn

_UNKNOWN_WORDS = "(earlier message)"
_MAX_EARLIER, _MAX_CALLS = 20, 60
_TOOL_NAMES = ("read_file", "edit_file")
_MAX_WEIGHT = 100.0
_LABELS = ("quick", "long", "unclear")
_BLOCK_ITEMS = 50
"""How many written asks stay together when data is divided: neighbours are often about one thing."""
_REMARKS_IN_BLOCK = 12
_SETTINGS = ("agent", "chat")
_PROMPTS = "prompts.jsonl"
_WORK = {"quick": ((1, 1), (2, 1), (0, 0), (3, 1)), "long": ((18, 7), (26, 9), (14, 6), (33, 12))}
"""Calls and edits of a turn before, of which only its size is known."""

ASKS, MEANING, COMMITS, VAGUE = "asks", "meaning", "commits", "vague"
"""Sources that were not recorded as turns with the work that followed."""
_REMARKS = ("bad", "fine")
Read = TypeVar("Read")


class BadData(Exception):
    """A data file that cannot be read, with the line."""


@dataclass(frozen=True, slots=True)
class Item:
    """One turn of a person, what came before it, and what it was.

    `is_clear` is false for turns between the rules for quick and long, and for asks that could be either; scores are taken on
    the clear ones. `group` is what must stay together when data is divided: a repository, or a block of a file.
    """

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
    group: str = ""
    id: str = ""
    weight: float = 1.0
    """What it counts in a fit, against others of its kind."""
    work_calls: int | None = None
    """The calls of the model that the turn took, where that was recorded."""
    kind: str = ""
    """`asks`, `meaning`, `commits` or `vague`; empty for a recorded turn, whose label is the work that followed."""

    @property
    def is_session(self) -> bool:
        """Whether it was cut out of somebody's session with an agent, and is judged by the work that followed."""
        return not self.kind and self.source.startswith("agent_session")

    @property
    def set_name(self) -> str:
        """The name under which its figures are shown."""
        if self.kind == ASKS:
            if self.prior_turns:
                return "asks: later turns"
            return f"asks: first asks {'with' if self.has_tools else 'without'} tools"
        if self.kind == MEANING:
            return "real prompts: later turns" if self.prior_turns else "real prompts: first turns"
        return self.kind or self.source


@dataclass(frozen=True, slots=True)
class Remark:
    """What a person said after a turn, and whether that was a complaint about it."""

    says: str
    asked: str
    is_complaint: bool
    group: str


def load_items(paths: Iterable[Path]) -> list[Item]:
    """All items of all files, in order, without remarks. Raises `BadData`."""
    return [item for path in paths for item in _load(path) if isinstance(item, Item)]


def load_remarks(paths: Iterable[Path]) -> list[Remark]:
    """All remarks of all files, in order. Raises `BadData`."""
    return [remark for path in paths for remark in _load(path) if isinstance(remark, Remark)]


def _load(path: Path) -> Iterator[Item | Remark]:
    return load_lines(
        path,
        lambda found, number: _read_remark(found, path, number) if "says" in found else _read_item(found, path, number),
    )


def load_lines(path: Path, read: Callable[[JsonObject, int], Read]) -> Iterator[Read]:
    """What is read from each line of a file of JSON objects, and from its number. Raises `BadData`."""
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


def _read_item(found: JsonObject, path: Path, number: int) -> Item:
    if found["label"] == VAGUE and "text" in found:
        return _read_vague(found, path, number)
    if found["label"] not in _LABELS:
        raise ValueError('label must be "quick", "long" or "unclear"')
    if "readings" in found:
        return _read_meaning({**found, "file": _PROMPTS}, path)
    if "text" in found:
        return _read_ask(found, path, number)
    if "words" in found:
        return _read_commit(found)
    if "file" in found and "prompt" not in found:
        return _read_meaning(found, path)
    return _read_turn(found)


def _read_turn(found: JsonObject) -> Item:
    context = found.get("context")
    context = context if isinstance(context, dict) else {}
    prompt, repo = found["prompt"], str(found.get("repo", "unknown"))
    if found["label"] == "unclear" or not isinstance(prompt, str):
        raise ValueError('label must be "quick" or "long", and prompt must be text')
    calls = _numbers(context.get("prior_tool_calls"))
    evidence = found.get("evidence")
    made = evidence.get("tool_calls") if isinstance(evidence, dict) else None
    previous = context.get("prev_prompt")
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
        previous=previous if isinstance(previous, str) else "",
        group=repo,
        id=str(found.get("id", "")),
        work_calls=_number(made) + 1 if isinstance(made, int) else None,
    )


def _read_ask(found: JsonObject, path: Path, line: int) -> Item:
    text, name, previous = _text(found, "text"), str(found.get("id", "")), found.get("previous")
    number = int("".join(filter(str.isdecimal, name)) or line)
    setting = found.get("setting")
    if setting not in (None, *_SETTINGS):
        hint = close_to(str(setting), _SETTINGS).strip()
        raise ValueError(f'setting must be "agent" or "chat", not "{str(setting)[:40]}"{": " + hint if hint else ""}')
    has_tools = setting == "agent"
    work: tuple[int, int] | None = None
    if previous:
        size = str(found.get("previous_size", "quick"))
        if size not in _WORK:
            raise ValueError('previous_size must be "quick" or "long"')
        work = _WORK[size][number % len(_WORK[size])] if has_tools else (0, 0)
    return Item(
        source=ASKS,
        repo=path.stem,
        prompt=text,
        is_long=found["label"] == "long",
        is_clear=found["label"] != "unclear",
        has_tools=has_tools,
        prior_turns=int(work is not None),
        calls=(work[0],) if work else (),
        edits=(work[1],) if work else (),
        previous=str(previous) if previous else "",
        group=f"{path.stem} {number // _BLOCK_ITEMS}",
        id=name,
        weight=_weight(found.get("weight")),
        kind=ASKS,
    )


def _read_meaning(found: JsonObject, path: Path) -> Item:
    """A turn of another file next to this one, labelled by what its words mean."""
    if (path.parent / str(found["file"])).resolve() == path.resolve():
        raise ValueError("file must name another file")
    turn = _index(path.parent / str(found["file"])).get(str(found["id"]))
    if turn is None:
        raise ValueError(f"{found['file']} has no item {found['id']}")
    return replace(turn, is_long=found["label"] == "long", is_clear=found["label"] != "unclear", kind=MEANING)


@lru_cache(maxsize=8)
def _index(path: Path) -> dict[str, Item]:
    if path.name == _PROMPTS:
        return {item.id: item for item in map(_read_prompt, map(orjson.loads, _read_lines(path)))}
    return {item.id: item for item in load_items([path])}


def _read_prompt(found: JsonObject) -> Item:
    """A prompt whose label is in another file, with the turns before it."""
    told = found.get("prior")
    prior = [turn for turn in told if isinstance(turn, dict)] if isinstance(told, list) else []
    repo = str(found.get("repo", "unknown"))
    return Item(
        source=str(found.get("source", "unknown")),
        repo=repo,
        prompt=str(found["text"]),
        is_long=False,
        is_clear=False,
        has_tools=found.get("setting") == _SETTINGS[0],
        prior_turns=max(_number(found.get("prior_turns")), len(prior)),
        calls=tuple(_number(turn.get("calls")) for turn in prior),
        edits=tuple(_number(turn.get("edits")) for turn in prior),
        previous=str(prior[-1].get("text") or "") if prior else "",
        group=repo,
        id=str(found["id"]),
    )


def _read_vague(found: JsonObject, path: Path, number: int) -> Item:
    group = f"{path.stem} {number // _BLOCK_ITEMS}"
    return Item(VAGUE, path.stem, _text(found, "text"), False, True, group=group, kind=VAGUE)


def _read_remark(found: JsonObject, path: Path, number: int) -> Remark:
    says, label = found["says"], found["label"]
    if not isinstance(says, str) or label not in _REMARKS:
        raise ValueError('says must be text, and label must be "bad" or "fine"')
    repo = str(found.get("repo", path.stem))
    # Most of what was recorded is one team's: lines next to each other are of one session.
    return Remark(says, str(found.get("asked", "")), label == _REMARKS[0], f"{repo} {number // _REMARKS_IN_BLOCK}")


def _read_commit(found: JsonObject) -> Item:
    words, repo = _text(found, "words"), str(found.get("repo", "unknown"))
    is_clear = found.get("band", "clear") == "clear" and found["label"] != "unclear"
    name = str(found.get("id", ""))
    return Item(COMMITS, repo, words, found["label"] == "long", is_clear, group=repo, id=name, kind=COMMITS)


def _text(found: JsonObject, name: str) -> str:
    if not isinstance(text := found[name], str):
        raise TypeError(f"{name} must be a string")
    return text


def _weight(value: Json) -> float:
    if value is None:
        return 1.0
    if not isinstance(value, (int, float)) or not 0 < value <= _MAX_WEIGHT:
        raise ValueError(f"weight must be a number above 0, up to {_MAX_WEIGHT:g}")
    return float(value)


def _number(value: Json) -> int:
    return int(value) if isinstance(value, (int, float)) else 0


def _numbers(value: Json) -> tuple[int, ...]:
    return tuple(_number(entry) for entry in value) if isinstance(value, list) else ()


def chat_body(item: Item) -> JsonObject:
    """The item as a chat request: as many earlier turns as it had, with their calls in number and kind."""
    messages: list[Json] = []
    earlier = min(item.prior_turns, _MAX_EARLIER)
    for back in range(earlier, 0, -1):
        words = item.previous if back == 1 and item.previous else _UNKNOWN_WORDS
        messages.append({"role": "user", "content": words})
        made = min(item.calls[-back], _MAX_CALLS) if back <= len(item.calls) else 0
        changed = min(item.edits[-back], made) if back <= len(item.edits) else 0
        if made:
            ids = [f"call_{back}_{number}" for number in range(made)]
            messages.append({"role": "assistant", "content": None, "tool_calls": [_call(name, ids, changed) for name in ids]})
            messages += [{"role": "tool", "tool_call_id": name, "content": "done"} for name in ids]
        messages.append({"role": "assistant", "content": "Done."})
    messages.append({"role": "user", "content": item.prompt})
    body: JsonObject = {"model": "auto", "messages": messages}
    if item.has_tools:
        body["tools"] = [{"type": "function", "function": {"name": name, "parameters": {}}} for name in _TOOL_NAMES]
    return body


def _call(name: str, ids: list[str], changed: int) -> Json:
    tool = _TOOL_NAMES[ids.index(name) < changed]
    return {"id": name, "type": "function", "function": {"name": tool, "arguments": "{}"}}


def arrival_of(item: Item) -> Arrival:
    """The item as a request that has just come in."""
    return Arrival("req_lab", DEFAULT_DIALECT, Operation.CREATE, {}, orjson.dumps(chat_body(item)))


def turn_of(item: Item) -> Turn:
    """The turn that the road reads out of the item's body."""
    return read_turn(read_request(arrival_of(item)))
