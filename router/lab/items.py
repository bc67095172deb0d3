"""Labelled turns from JSON lines, and each as the chat body that a router would have seen at that moment."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import orjson

from router.contract.request import Json, JsonObject
from router.contract.signals import Turn
from router.contract.words import Dialect, Operation
from router.dialects.requests import Arrival, read_request
from router.sessions.turns import read_turn

_UNKNOWN_WORDS = "(earlier message)"
_MOST_EARLIER, _MOST_CALLS = 20, 60
_TOOL_NAMES = ("read_file", "edit_file")


class BadData(Exception):
    """A data file that cannot be read, with the line."""


@dataclass(frozen=True, slots=True)
class Item:
    """One turn of a person, what stood before it, and what became of it.

    `is_clear` is false for turns between the rules for quick and long; scores are taken on the clear ones.
    """

    source: str
    repo: str
    prompt: str
    is_long: bool
    is_clear: bool
    has_tools: bool
    prior_turns: int
    calls: tuple[int, ...]
    edits: tuple[int, ...]
    previous: str

    @property
    def is_session(self) -> bool:
        """Whether it was cut out of somebody's session with an agent, so that its history is real."""
        return self.source.startswith("agent_session")


def load_items(paths: Iterable[Path]) -> list[Item]:
    """All items of all files, in order. Raises `BadData`."""
    return [item for path in paths for item in _load(path)]


def _load(path: Path) -> Iterator[Item]:
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise BadData(f"{path}: {error.strerror}") from error
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                yield _read_item(orjson.loads(line))
            except orjson.JSONDecodeError as error:
                raise BadData(f"{path} line {number}: is not JSON: {error}") from error
            except KeyError as error:
                raise BadData(f'{path} line {number}: "{error.args[0]}" is missing') from error
            except (TypeError, ValueError) as error:
                raise BadData(f"{path} line {number}: {error}") from error


def _read_item(found: Json) -> Item:
    if not isinstance(found, dict):
        raise TypeError("a line must hold an object")
    context = found.get("context")
    context = context if isinstance(context, dict) else {}
    label, prompt = found["label"], found["prompt"]
    if label not in ("quick", "long") or not isinstance(prompt, str):
        raise ValueError('label must be "quick" or "long", and prompt a text')
    calls = _numbers(context.get("prior_tool_calls"))
    previous = context.get("prev_prompt")
    return Item(
        source=str(found.get("source", "unknown")),
        repo=str(found.get("repo", "unknown")),
        prompt=prompt,
        is_long=label == "long",
        is_clear=found.get("band", "clear") == "clear",
        has_tools=bool(context.get("has_tools")),
        prior_turns=max(_number(context.get("prior_turns")), len(calls)),
        calls=calls,
        edits=_numbers(context.get("prior_edits")),
        previous=previous if isinstance(previous, str) else "",
    )


def _number(value: Json) -> int:
    return int(value) if isinstance(value, (int, float)) else 0


def _numbers(value: Json) -> tuple[int, ...]:
    return tuple(_number(entry) for entry in value) if isinstance(value, list) else ()


def chat_body(item: Item, prefix: str = "") -> JsonObject:
    """The item as a chat request: as many earlier turns as it had, with their calls in number and kind."""
    messages: list[Json] = []
    earlier = min(item.prior_turns, _MOST_EARLIER)
    for back in range(earlier, 0, -1):
        words = item.previous if back == 1 and item.previous else _UNKNOWN_WORDS
        messages.append({"role": "user", "content": words})
        made = min(item.calls[-back], _MOST_CALLS) if back <= len(item.calls) else 0
        changed = min(item.edits[-back], made) if back <= len(item.edits) else 0
        if made:
            ids = [f"call_{back}_{number}" for number in range(made)]
            messages.append({"role": "assistant", "content": None, "tool_calls": [_call(name, ids, changed) for name in ids]})
            messages += [{"role": "tool", "tool_call_id": name, "content": "done"} for name in ids]
        messages.append({"role": "assistant", "content": "Done."})
    messages.append({"role": "user", "content": prefix + item.prompt})
    body: JsonObject = {"model": "auto", "messages": messages}
    if item.has_tools:
        body["tools"] = [{"type": "function", "function": {"name": name, "parameters": {}}} for name in _TOOL_NAMES]
    return body


def _call(name: str, ids: list[str], changed: int) -> Json:
    tool = _TOOL_NAMES[ids.index(name) < changed]
    return {"id": name, "type": "function", "function": {"name": tool, "arguments": "{}"}}


def arrival_of(item: Item, prefix: str = "") -> Arrival:
    """The item as a request that has just come in."""
    return Arrival("req_lab", Dialect.CHAT, Operation.CREATE, {}, orjson.dumps(chat_body(item, prefix)))


def turn_of(item: Item, prefix: str = "") -> Turn:
    """The turn that the road reads out of the item's body."""
    return read_turn(read_request(arrival_of(item, prefix)))
