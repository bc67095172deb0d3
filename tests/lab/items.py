"""What a fit needs of labelled lines beyond what `tandem eval` reads: groups, weights, and words that only point back."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path

from router.contract.features import Features
from router.contract.request import Json, JsonObject
from router.dialects.fields import as_list, as_object
from router.dialects.requests import read_request
from router.past import labelled
from router.past.labelled import ASKS, MEANING, Item, Remark, arrival_of, label, load_lines, number_of, read_remark
from router.sense.features import read_features
from router.sessions.turns import read_turn

VAGUE = "vague"
"""The kind, and the label, of words that only point back at the last turn."""
_BLOCK_ITEMS, _REMARKS_IN_BLOCK = 50, 12
"""How many asks, and remarks, stay together when data is divided: neighbours are often about one thing, or of one session."""
_MAX_WEIGHT = 100.0


@dataclass(frozen=True, slots=True)
class Row:
    """An item as the weights see it. `group` stays together when data is divided: a repository, or a block of a file."""

    item: Item
    features: Features
    group: str
    weight: float = 1.0
    """What it counts in a fit, against others of its kind."""

    @property
    def kind(self) -> str:
        return self.item.kind

    @property
    def is_session(self) -> bool:
        """Whether it was cut out of somebody's session with an agent, and is judged by the work that followed."""
        return not self.kind and self.item.source.startswith("agent_session")

    @property
    def label(self) -> float:
        """1 for a long task."""
        return float(self.item.is_long)


@dataclass(frozen=True, slots=True)
class Said:
    """A remark, and its group."""

    remark: Remark
    group: str


def load_rows(paths: Iterable[Path]) -> list[Row]:
    """All items with words, measured by the road's own code. Raises `BadData`."""
    return [row for path in paths for row in load_lines(path, partial(_read_row, path)) if row is not None]


def load_said(paths: Iterable[Path]) -> list[Said]:
    """All remarks. Raises `BadData`."""
    return [said for path in paths for said in load_lines(path, partial(_read_said, path)) if said is not None]


def load_items(paths: Iterable[Path]) -> list[Item]:
    """All items. Raises `BadData`."""
    return [item for path in paths for item in load_lines(path, partial(_read_item, path))]


def _read_item(path: Path, found: JsonObject, line: int) -> Item:
    """The item of a line, or of a label with its readings, which belongs to a prompt of the file next to it."""
    if "readings" in found:
        return label(_read_prompts(path.with_name("prompts.jsonl")), found)
    return labelled.read_item(path, found, line)


@lru_cache(maxsize=8)
def _read_prompts(path: Path) -> dict[str, Item]:
    return {item.id: item for item in load_lines(path, _read_prompt)}


def _read_prompt(found: JsonObject, _: int) -> Item:
    """A prompt whose label is in another file, with the turns before it."""
    prior = [as_object(turn) for turn in as_list(found.get("prior"))]
    return Item(
        source=str(found.get("source", "unknown")),
        repo=str(found.get("repo", "unknown")),
        prompt=str(found["text"]),
        is_long=False,
        is_clear=False,
        has_tools=found.get("setting") == "agent",
        prior_turns=max(_count(found.get("prior_turns")), len(prior)),
        calls=tuple(_count(turn.get("calls")) for turn in prior),
        edits=tuple(_count(turn.get("edits")) for turn in prior),
        previous=str(prior[-1].get("text") or "") if prior else "",
        id=str(found["id"]),
    )


def _count(value: Json) -> int:
    return int(value) if isinstance(value, (int, float)) else 0


def _read_row(path: Path, found: JsonObject, line: int) -> Row | None:
    if "says" in found:
        return None
    if found.get("label") == VAGUE:
        item = Item(VAGUE, path.stem, str(found["text"]), False, True, kind=VAGUE)
        return row_of(item, f"{path.stem} {line // _BLOCK_ITEMS}")
    item = _read_item(path, found, line)
    group = f"{path.stem} {number_of(found, line) // _BLOCK_ITEMS}" if item.kind == ASKS else item.repo
    return row_of(item, group, _weight(found.get("weight")) if item.kind == ASKS else 1.0)


def row_of(item: Item, group: str = "", weight: float = 1.0) -> Row | None:
    """An item as the weights see it; None where it has no words."""
    text = item.prompt if item.kind == VAGUE else read_turn(read_request(arrival_of(item))).person_text
    return Row(item, read_features.__wrapped__(text), group, weight) if text else None


def _weight(value: Json) -> float:
    if value is None:
        return 1.0
    if not isinstance(value, (int, float)) or not 0 < value <= _MAX_WEIGHT:
        raise ValueError(f"weight must be a number above 0, up to {_MAX_WEIGHT:g}")
    return float(value)


def _read_said(path: Path, found: JsonObject, line: int) -> Said | None:
    if "says" not in found:
        return None
    return Said(read_remark(found, line), f"{found.get('repo', path.stem)} {line // _REMARKS_IN_BLOCK}")


__all__ = ["ASKS", "MEANING", "VAGUE", "Row", "Said", "load_items", "load_rows", "load_said", "row_of"]
