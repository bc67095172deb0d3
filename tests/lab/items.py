"""What a fit needs of labelled lines beyond what is scored: groups, weights, and words that only point back."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path

from router.contract.features import Features
from router.contract.request import Json, JsonObject
from router.dialects.fields import as_list, as_object
from router.dialects.requests import read_request
from router.sense.features import read_features
from router.sessions.turns import read_turn
from tests.lab import labelled
from tests.lab.labelled import ASKS, MEANING, Item, arrival_of, label, load_lines, number_of
from tests.lab.wraps import head_code, wrap

VAGUE, DECLINED = "vague", "declined"
"""Kinds, and labels, of words that only point back at the last turn, and of those that turn an offer down."""
_BLOCK_ITEMS = 50
"""How many asks stay together when data is divided: neighbours are often about one thing."""
_MAX_WEIGHT = 100.0
_COMMON = 250
"""Rows in which a word must occur to be read in a public issue. With 5, 90 % of the issues of fitted projects went to deep and
51 % of the others; with 100 it was 68 and 50 %, with 400 41 and 40 %."""
_NAME_PARTS = re.compile(r"[/_.\W]+")
_WRAPPED = 0.35
"""What an ask counts once more in another form."""
_SIZES = {"quick": False, "long": True, "unclear": None}
_ACCEPTING = frozenset("approve_big approve_small plan_approval select extend partial".split())
"""Kinds of replies that take up an offer; the others decline, thank, ask or turn elsewhere."""


@dataclass(frozen=True, slots=True)
class Row:
    """An item as the weights see it. `group` stays together when data is divided: a repository, or a block of a file."""

    item: Item
    features: Features
    group: str
    weight: float = 1.0
    """What it counts in a fit, against others of its kind."""
    lang: str = ""

    @property
    def kind(self) -> str:
        return self.item.kind

    @property
    def is_session(self) -> bool:
        """Whether it was cut out of somebody's session with an agent, and is judged by the work that followed."""
        return not self.kind and self.item.source.startswith("agent_session")

    @property
    def is_project(self) -> bool:
        """Whether it is a public project's issue."""
        return self.item.source == "swebench_verified"

    @property
    def label(self) -> float:
        """1 for a long task."""
        return float(self.item.is_long)


@dataclass(frozen=True, slots=True)
class Reply:
    """What a person said after a turn, with what came before it: an answer to an offer, or a remark."""

    text: str
    before: str
    """The ask that began the turn."""
    said: str
    """The assistant's last message."""
    is_long: bool | None
    """None where it cannot be told."""
    accepts: bool | None = None
    """Whether it takes up what was offered; None for a remark."""
    lang: str = ""

    @property
    def group(self) -> str:
        return f"reply {self.before}"

    def read(self) -> Features:
        return read_features.__wrapped__(self.text)


def load_rows(paths: Iterable[Path]) -> list[Row]:
    """All items with words, measured by the road's own code. Raises `BadData`."""
    return [row for path in paths for row in load_lines(path, partial(_read_row, path)) if row is not None]


def load_replies(paths: Iterable[Path]) -> list[Reply]:
    """All replies to offers, and all remarks of known size. Raises `BadData`."""
    return [reply for path in paths for reply in load_lines(path, _read_reply) if reply is not None]


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
    if found.keys() & {"reply", "remark"}:
        return None
    if (kind := str(found.get("label"))) in (VAGUE, DECLINED):
        item = Item(kind, path.stem, str(found["text"]), False, True, kind=kind)
        return row_of(item, f"{path.stem} {line // _BLOCK_ITEMS}")
    item = _read_item(path, found, line)
    group = f"{path.stem} {number_of(found, line) // _BLOCK_ITEMS}" if item.kind == ASKS else item.repo
    return row_of(item, group, _weight(found.get("weight")) if item.kind == ASKS else 1.0, str(found.get("lang", "en")))


def row_of(item: Item, group: str = "", weight: float = 1.0, lang: str = "") -> Row | None:
    """An item as the weights see it; None where it has no words."""
    text = item.prompt if item.kind in (VAGUE, DECLINED) else read_turn(read_request(arrival_of(item))).person_text
    return Row(item, read_features.__wrapped__(text), group, weight, lang) if text else None


def widen(rows: Iterable[Row]) -> Iterator[Row]:
    """Asks in other forms, and functions under other first lines, each in the group of its row."""
    for row in rows:
        if row.kind == ASKS and row.item.is_clear and (text := wrap(row.item.prompt, row.lang)):
            yield replace(row, features=read_features.__wrapped__(text), weight=row.weight * _WRAPPED)
        elif row.item.source == "humaneval":
            for text in head_code(row.item.prompt):
                yield replace(row, features=read_features.__wrapped__(text), weight=_WRAPPED)


def mask_names(rows: Iterable[Row]) -> list[Row]:
    """Rows without the names of their projects; of public issues only words that many others use: nobody is learnt by heart."""
    rows = [*rows]
    used = Counter(place for row in rows if row.kind in (ASKS, MEANING) for place in row.features.pieces)
    common = {place for place, count in used.items() if count >= _COMMON}
    masked = []
    for row in rows:
        if row.kind in (ASKS, VAGUE, DECLINED):
            masked.append(row)
            continue
        names = {place for part in _NAME_PARTS.split(row.item.repo) for place in read_features(part).pieces}
        kept = [place for place in row.features.pieces if place not in names and (place in common or not row.is_project)]
        masked.append(replace(row, features=row.features._replace(pieces=tuple(kept))))
    return masked


def _weight(value: Json) -> float:
    if value is None:
        return 1.0
    if not isinstance(value, (int, float)) or not 0 < value <= _MAX_WEIGHT:
        raise ValueError(f"weight must be a number above 0, up to {_MAX_WEIGHT:g}")
    return float(value)


def _read_reply(found: JsonObject, _: int) -> Reply | None:
    if "remark" in found:
        return Reply(str(found["remark"]), str(found["before"]), "", _SIZES[str(found["size"])], lang=str(found["lang"]))
    if "reply" not in found:
        return None
    is_long, accepts = _SIZES[str(found["label"])], found["kind"] in _ACCEPTING
    return Reply(str(found["reply"]), str(found["before"]), str(found["assistant"]), is_long, accepts, str(found["lang"]))


__all__ = [
    "ASKS",
    "DECLINED",
    "MEANING",
    "VAGUE",
    "Reply",
    "Row",
    "load_items",
    "load_replies",
    "load_rows",
    "mask_names",
    "row_of",
    "widen",
]
