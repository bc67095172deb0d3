"""The ledger as a history: the turns of each session from its entries, and how they ended."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from operator import itemgetter
from typing import NamedTuple

from router.contract.decision import ESTIMATE
from router.contract.errors import TandemError
from router.contract.exchange import Arrival
from router.contract.features import unpack_places
from router.contract.opinions import Lean
from router.contract.past import PastEntry
from router.contract.personal import MARKED
from router.contract.request import Json, JsonObject, Moment
from router.contract.stores import EntryReader
from router.contract.words import Dialect, Operation, Outcome, Tier, TurnKind
from router.decide.opinions import PERSONAL
from router.dialects.fields import as_list, as_object, as_text
from router.dialects.requests import read_request
from router.past.cases import Case, Kept, RegretSign, Work
from router.past.history import Size, size_of_work
from router.past.logs.lines import as_count
from router.past.regrets import is_asked_again
from router.past.requests import write_headers
from router.settle.kept import ROW_COLUMNS, explain_opinions_of

_LEFT = (Outcome.ABANDONED, Outcome.INTERRUPTED)
"""The person did not want the rest: they hung up, or said something else in the meantime."""
_WISHES = "override"
"""The policy that speaks for the person."""
_FOR_SESSION = ("session_scope", "in_band_line")
"""The ranks of an override that holds for the rest of a session."""
_OLD_WORDS = {"this session was asked to stay on": "session_scope", "a first line asks for": "in_band_line"}
"""How older entries, which have no ranks, word such an override."""
_MISJUDGED_WEIGHT = 10
"""The weight of a turn that the person marked as misjudged: the clearest sign there is."""
_UP = frozenset({RegretSign.MOVED_UP, RegretSign.ASKED_FOR_DEEP, RegretSign.ASKED_AGAIN})
"""Signs that a turn was more than fast could do."""
_MAX_LOG_ODDS = 20.0
"""More than this no policy may say."""


class _Row(NamedTuple):
    """What is read of a `PastEntry`: columns as they are in the file, then what belongs to them."""

    caller: object
    session: object
    turn_kind: str
    client: object
    at: object
    dialect: object
    outcome: str
    tier: object
    output_tokens: object
    duration_ms: object
    cost_usd: object
    prompt_text: object
    should_be: Tier | None
    places: bytes
    explained: JsonObject
    """What was said in the decision; nothing where it cannot be read, or is of no use here."""
    override: str
    """The rank of the person's override, or an empty string."""


_read_columns = itemgetter(*map(ROW_COLUMNS.index, _Row._fields[:-5]))
_read_kind_and_decision = itemgetter(ROW_COLUMNS.index("turn_kind"), ROW_COLUMNS.index("decision"))


def _read_row(entry: PastEntry) -> _Row:
    row, *rest = entry
    kind, decision = _read_kind_and_decision(row)
    # Most rows are calls of a tool loop, of whose decision only an override is of interest, and few have one.
    may_override = f'"{_WISHES}"' in str(decision)
    explained = (explain_opinions_of(row) or {}) if may_override or kind != TurnKind.TOOL_LOOP else {}
    return _Row._make((*_read_columns(row), *rest, explained, _read_override(explained) if may_override else ""))


@dataclass(slots=True)
class _Turn:
    session: str
    client: str
    at: float
    tier: Tier | None
    kept: Kept
    is_overridden: bool
    """Whether the person asked for its tier, for this one request."""
    arrival: Arrival | None
    words: str
    caller: str = ""
    places: tuple[int, ...] = ()
    calls: int = 0
    seconds: float = 0.0
    usd: float | None = 0.0
    output_tokens: int = 0
    lacks_output: bool = False
    """Whether some answer came without a count of its tokens: then it is not known how much was written."""
    misjudged: Tier | None = None
    is_abandoned: bool = False
    is_cut_short: bool = False
    has_moved_up: bool = False
    """Whether the router itself moved the running turn from fast to deep."""

    def go_on(self, row: _Row) -> None:
        self.count(row)
        self.is_abandoned |= row.outcome in _LEFT
        self.is_cut_short = row.outcome == Outcome.CUT_SHORT
        self.has_moved_up |= row.tier == Tier.DEEP and self.tier is Tier.FAST

    def count(self, row: _Row) -> None:
        self.calls += 1
        self.seconds += max(0.0, row.duration_ms) / 1000 if isinstance(row.duration_ms, (int, float)) else 0.0
        self.usd = self.usd + row.cost_usd if self.usd is not None and isinstance(row.cost_usd, (int, float)) else None
        if isinstance(row.output_tokens, int):
            self.output_tokens += max(0, row.output_tokens)
        else:
            self.lacks_output = True


@dataclass(slots=True)
class LedgerTally:
    entries: int = 0
    unreadable: int = 0
    sessions: set[str] = field(default_factory=set)


def read_ledger(ledger: EntryReader, tally: LedgerTally) -> list[Case]:
    """Every turn, in the order in which they began. Raises `StoreUnusable`."""
    running: dict[tuple[str, str], list[_Turn | None]] = {}
    for row in map(_read_row, ledger.read_history()):
        tally.entries += 1
        tally.sessions.add(str(row.session))
        _note(row, running.setdefault((str(row.caller), str(row.session)), []), tally)
    cases = [case for turns in running.values() for case in _as_cases(turns)]
    return sorted(cases, key=lambda case: case.at or 0.0)


def _note(row: _Row, turns: list[_Turn | None], tally: LedgerTally) -> None:
    """Take an entry into its session. None means a turn that cannot be read: its calls belong to no other turn."""
    last = turns[-1] if turns else None
    if last is not None and last.tier == row.tier and row.override == "session_scope":
        last.is_overridden = False  # what was asked for there holds here too: it was asked for the session
    if row.turn_kind == TurnKind.TOOL_LOOP:
        if last is not None:
            last.go_on(row)
        return  # without a beginning it is no turn: its ask was refused, or is too old to be here
    try:
        turns.append(_read_turn(row))
    except ValueError:
        turns.append(None)
        tally.unreadable += 1


def _read_turn(row: _Row) -> _Turn:
    """Raises `ValueError` where an entry was not written by Tandem."""
    explained, override = row.explained, row.override
    if not explained:
        raise ValueError("no decision")
    at = float(str(row.at))
    if not math.isfinite(at):
        raise ValueError("no time")
    arrival = _read_text(row, Dialect(str(row.dialect)), Moment(at))
    kept = _read_kept(explained, TurnKind(row.turn_kind))
    turn = _Turn(
        session=str(row.session),
        client=str(row.client or "unknown"),
        at=at,
        tier=Tier(str(row.tier)) if row.tier else None,
        kept=kept,
        is_overridden=bool(override) and override not in _FOR_SESSION,
        # What insisted or ruled out then is not in the text alone: such a turn stays what it was.
        arrival=arrival if kept.decided_by == ESTIMATE else None,
        words=as_text(explained.get("person_text")),
        caller=str(row.caller),
        places=unpack_places(row.places),
        misjudged=row.should_be,
        is_abandoned=row.outcome in _LEFT,
        is_cut_short=row.outcome == Outcome.CUT_SHORT,
    )
    turn.count(row)
    return turn


def _read_override(explained: JsonObject) -> str:
    """The rank of the person's override, or an empty string. Other policies insist too, but are not the person."""
    evidence = map(as_object, as_list(explained.get("evidence")))
    overrides = (item for item in evidence if item.get("kind") == "insist" and item.get("policy") == _WISHES)
    override = next(overrides, {})
    words = as_text(override.get("because"))
    told = (rank for start, rank in _OLD_WORDS.items() if words.startswith(start))
    return as_text(override.get("rank")) or next(told, "header" if words else "")


def _read_kept(explained: JsonObject, kind: TurnKind) -> Kept:
    evidence = map(as_object, as_list(explained.get("evidence")))
    leans = [item for item in evidence if item.get("kind") == "lean" and not _is_fitted(item)]
    return Kept(
        opinions=tuple(Lean(_read_odds(item), str(item.get("because", ""))) for item in leans),
        prompt_tokens=as_count(explained.get("prompt_tokens")),
        decided_by=str(explained.get("decided_by", "")),
        kind=kind,
        weights=as_text(explained.get("weights")),
    )


def _is_fitted(lean: JsonObject) -> bool:
    """Whether a lean is what `tandem tune` fitted before: it is fitted again, and must not count twice."""
    return lean.get("policy") == PERSONAL or as_text(lean.get("because")).startswith(MARKED)


def _read_odds(evidence: Mapping[str, Json]) -> float:
    odds = evidence.get("log_odds")
    if not isinstance(odds, (int, float)) or not abs(odds) <= _MAX_LOG_ODDS:
        raise ValueError("no log-odds")
    return float(odds)


def _read_text(row: _Row, dialect: Dialect, moment: Moment) -> Arrival | None:
    """The request itself, where `ledger.keep_text` kept the whole of it, with the headers by which its client is known."""
    if not isinstance(row.prompt_text, str):
        return None
    headers = write_headers(str(row.client), str(row.session))
    raw = row.prompt_text.encode("utf-8", "replace")
    arrival = Arrival("req_replay", dialect, Operation.CREATE, headers, raw, moment=moment)
    try:
        read_request(arrival)
    except TandemError:
        return None
    return arrival


def _as_cases(turns: Sequence[_Turn | None]) -> Iterator[Case]:
    known = [turn for turn in turns if turn is not None]
    # Who asks for a tier in every turn has a habit; who does so now and then was not content with the choice.
    corrects = any(turn.is_overridden for turn in known) and not all(turn.is_overridden for turn in known)
    for turn, following in zip_longest(turns, turns[1:]):
        if turn is None:
            continue
        regrets = tuple(_find_regrets(turn, following, corrects=corrects))
        yield Case(
            session=turn.session,
            client=turn.client,
            at=turn.at,
            size=_size(turn, regrets),
            weight=_MISJUDGED_WEIGHT if turn.misjudged is not None else 1,
            regrets=regrets,
            work=Work(turn.calls, turn.output_tokens, turn.seconds, turn.usd),
            words=turn.words,
            was=turn.tier,
            arrival=turn.arrival,
            kept=turn.kept,
            caller=turn.caller,
            places=turn.places,
        )


def _find_regrets(turn: _Turn, following: _Turn | None, *, corrects: bool) -> Iterator[RegretSign]:
    if turn.is_overridden and corrects:
        yield RegretSign.OVERRODE
    if turn.is_abandoned:
        yield RegretSign.INTERRUPTED
    if turn.has_moved_up:
        yield RegretSign.MOVED_UP
    if following is None:
        return
    if turn.words and following.words and is_asked_again(turn.words, following.words):
        yield RegretSign.ASKED_AGAIN
    is_sent_up = following.is_overridden and corrects and turn.tier is Tier.FAST and following.tier is Tier.DEEP
    if is_sent_up and not turn.has_moved_up:
        yield RegretSign.ASKED_FOR_DEEP


def _size(turn: _Turn, regrets: tuple[RegretSign, ...]) -> Size | None:
    """By the person's own word where there is one, else by what was written. Edits are not in the ledger.

    Where the work broke off, or nobody counted what was written, little says nothing.
    """
    if turn.misjudged is not None:
        return Size.LONG if turn.misjudged is Tier.DEEP else Size.QUICK
    if RegretSign.OVERRODE in regrets:
        return Size.LONG if turn.tier is Tier.DEEP else Size.QUICK
    size = size_of_work(0, turn.output_tokens)
    if size is Size.LONG or not _UP.isdisjoint(regrets):
        return Size.LONG
    return size if not turn.lacks_output and not turn.is_abandoned and not turn.is_cut_short else None
