"""A turn → one row of the table, as wide as the terminal. A reason that is a sentence goes on below its column."""

import re
from typing import NamedTuple

from router.cli.figures import clock, count, day_and_clock, duration, money
from router.cli.text import Style, clean, fit, fold, pad, width_of
from router.contract.words import Outcome, TurnKind
from router.past.turns import Turn
from router.telemetry.colour import DIM, RED, TIER_COLOURS

_WIDE = 120
"""Room for every column."""
_LEAST_WHY, _LEAST_FOLDED = 26, 12
_BRIEF = (
    (re.compile(r"^(?:a |an )?(?:long task|quick edit|quick question|quick turn): "), ""),
    (re.compile(r"may be long \(([\d.]+ %); [^)]*\)"), r"may be long (\1)"),
    (re.compile(r"^unclear; (?=follows)"), ""),
    (re.compile(r'^the model name ("[^"]*") .*'), r"model \1"),
    (re.compile(r"^moved up (?:at )?(?=call|after)"), ""),
    (re.compile(r"^compaction stays with its session on \w+"), "compaction"),
)
"""Shortened reasons for a narrow terminal, without what the tier column says."""
_LISTS = re.compile(r"^(?:an? )?(?:long task|quick edit|quick question|quick turn): [^;]*$")
"""Reasons that list what was read in the words: the first few say enough, so they may be cut."""
_MOST_LINES = 8
"""Of one row: a host's own words may be long."""
_DROPPED = ("first", "calls", "tokens", "cost", "turn", "took", "time", "caller")
"""Columns that a narrow terminal drops, in order, until the reason has room."""
_OF_REFUSALS = ("time", "caller", "client", "turn", "tier")


class Column(NamedTuple):
    """A column with its widths on a wide and a narrow terminal."""

    name: str
    title: str
    wide: int
    narrow: int
    is_right: bool = False


_COLUMNS = (
    Column("time", "time", 5, 5),
    Column("client", "client", 13, 13),
    Column("turn", "turn", 4, 4, is_right=True),
    Column("tier", "tier", 6, 5),
    Column("calls", "calls", 5, 5, is_right=True),
    Column("first", "first", 5, 5, is_right=True),
    Column("took", "took", 5, 5, is_right=True),
    Column("tokens", "in → out", 11, 9, is_right=True),
    Column("cost", "cost", 7, 6, is_right=True),
)
_DATED = Column("time", "time", 11, 11)
_CALLER = Column("caller", "caller", 12, 8)


class Layout:
    """The columns that fit a width."""

    def __init__(self, columns: int, style: Style, *, is_dated: bool = False, names_callers: bool = False) -> None:
        self.columns, self.style = columns, style
        self._is_dated = is_dated
        self._is_wide = columns >= _WIDE
        self._gap = "  " if self._is_wide else " "
        shown = [_DATED, *_COLUMNS[1:]] if is_dated else list(_COLUMNS)
        if names_callers:
            shown.insert(1, _CALLER)
        for name in _DROPPED:
            if self._room(shown) >= min(_LEAST_WHY, columns // 2):
                break
            shown = [column for column in shown if column.name != name]
        self._shown = shown
        self._why = self._room(shown)

    @property
    def names(self) -> tuple[str, ...]:
        """Shown columns before the reason."""
        return tuple(column.name for column in self._shown)

    def _room(self, shown: list[Column]) -> int:
        return self.columns - sum(self._width(column) + len(self._gap) for column in shown)

    def _width(self, column: Column) -> int:
        return column.wide if self._is_wide else column.narrow

    def head(self) -> str:
        titles = {column.name: column.title.replace("→", self.style.arrow) for column in self._shown}
        if not self._is_wide:
            titles = {name: title.replace(f" {self.style.arrow} ", self.style.arrow) for name, title in titles.items()}
        cells = [pad(titles[c.name], self._width(c), is_right=c.is_right) for c in self._shown]
        return self.style.paint(self._gap.join([*cells, "why"]).rstrip(), DIM)

    def lines(self, turn: Turn) -> list[str]:
        """A row, with as many lines as its reason needs."""
        shown, room = self._shown, self._why
        if turn.tier is None and not self._is_wide:  # not served, so there are no figures: the reason gets their room
            shown = [column for column in shown if column.name in _OF_REFUSALS]
            room = self._room(shown)
        why = self._why_text(turn)
        is_list = not turn.trouble and not turn.job and _LISTS.match(turn.why)
        if is_list or room < _LEAST_FOLDED:
            return [self._row(turn, shown, fit(why, room, self.style))]
        first, *more = fold(why, room)
        if len(more) >= _MOST_LINES:
            more = [*more[: _MOST_LINES - 2], self.style.cut]
        return [self._row(turn, shown, first), *(f"{' ' * (self.columns - room)}{line}" for line in more)]

    def _row(self, turn: Turn, shown: list[Column], why: str) -> str:
        style, texts = self.style, self._cells(turn)
        is_dim = not turn.is_persons and turn.tier is not None
        cells = []
        for column in shown:
            width = self._width(column)
            cell = pad(fit(texts[column.name], width, style), width, is_right=column.is_right)
            cells.append(style.paint(cell, _colour(turn)) if column.name == "tier" and not is_dim else cell)
        line = self._gap.join([*cells, why]).rstrip()
        return style.paint(line, DIM) if is_dim else line

    def _cells(self, turn: Turn) -> dict[str, str]:
        texts = {
            "time": day_and_clock(turn.at) if self._is_dated else clock(turn.at),
            "caller": clean(turn.caller, self.style) or "-",
            "client": short_name(turn, self.style),
            "turn": "sub" if turn.kind == TurnKind.SUBAGENT else str(turn.number or "-"),
            "tier": self._tier(turn),
            "calls": str(turn.calls or ""),
            **dict.fromkeys(("first", "took", "tokens", "cost"), ""),
        }
        if turn.tier is None:
            return texts
        times = {"first": duration(turn.first_seconds), "took": duration(turn.seconds)}
        return texts | times | {"tokens": self._tokens(turn), "cost": self._cost(turn)}

    def _tier(self, turn: Turn) -> str:
        if turn.tier is None:
            return str(turn.status)
        name = turn.tier.upper() if turn.is_persons else turn.tier
        return f"{name}{' ' if self._is_wide else ''}{self.style.up}" if turn.has_moved_up else name

    def _tokens(self, turn: Turn) -> str:
        if turn.input_tokens is None and turn.output_tokens is None:
            return "-"
        gap = " " if self._is_wide else ""
        return f"{count(turn.input_tokens)}{gap}{self.style.arrow}{gap}{count(turn.output_tokens)}"

    def _cost(self, turn: Turn) -> str:
        return turn.billing or money(turn.cost_usd, is_part=turn.lacks_cost, is_short=True)

    def _why_text(self, turn: Turn) -> str:
        reason = turn.why if self._is_wide else _shorten(turn.why)
        marked = f"marked {turn.mark}" if turn.mark is not None else ""
        combined = turn.combined if turn.combined not in turn.why else ""
        return clean("; ".join(part for part in (turn.trouble, marked, combined, reason) if part), self.style)


def _shorten(why: str) -> str:
    for pattern, brief in _BRIEF:
        why = pattern.sub(brief, why)
    return why


def short_name(turn: Turn, style: Style) -> str:
    """The client, and the end of its session's name: many ids begin alike, with the time. Of a job, the end of its id."""
    if turn.job:
        return f"job {clean(turn.job, style)[-4:]}"
    client = clean(turn.client, style).removesuffix("-code") or "-"
    tail = "".join([letter for letter in clean(turn.session, style) if letter.isalnum()])[-4:]
    name = fit(client, 8, style)
    return f"{name} {tail}" if tail and width_of(tail) <= 4 else name


def _colour(turn: Turn) -> str:
    if turn.outcome not in ("", Outcome.SERVED):
        return RED
    return TIER_COLOURS.get(turn.tier or "", "")
