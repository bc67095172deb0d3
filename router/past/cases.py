"""Turns to decide again: a logged one as a request, a ledger's as what was kept."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from router.contract.combine import PLAN, PLANNING
from router.contract.decision import ESTIMATE
from router.contract.errors import TandemError
from router.contract.exchange import Arrival
from router.contract.opinions import Lean, Opinion
from router.contract.request import Moment
from router.contract.words import BEGINS, Dialect, Operation, Outcome, Tier, TurnKind
from router.decide.opinions import ASIDE
from router.dialects.requests import read_request
from router.past import rows
from router.past.history import CHARS_PER_TOKEN, PastSession, PastTurn, Size, size_of_turn, size_of_work
from router.past.requests import write_headers, write_request
from router.past.rows import Call, read_call
from router.past.turns import Turn, by_session, is_of_a_turn, read_turns
from router.stores.sqlite.past import SqliteEntryReader


class RegretSign(StrEnum):
    """A sign that the other tier was wanted."""

    ASKED_AGAIN = "asked_again"
    INTERRUPTED = "interrupted"
    SWITCHED_MODEL = "switched_model"
    MOVED_UP = "moved_up"
    """The router moved the running turn from fast to deep."""
    ASKED_FOR_DEEP = "asked_for_deep"
    OVERRODE = "overrode"


_UP = frozenset({RegretSign.MOVED_UP, RegretSign.ASKED_FOR_DEEP, RegretSign.ASKED_AGAIN})
"""Signs that a turn was too much for fast."""
_FOR_SESSION = "session_scope"
_MISJUDGED_WEIGHT = 10
"""Weight of a turn marked as misjudged, the clearest sign there is."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A decision in the ledger, without text: its counted opinions and the prompt's length."""

    opinions: tuple[Opinion, ...]
    prompt_tokens: int
    decided_by: str
    kind: TurnKind
    weights: str = ""


@dataclass(frozen=True, slots=True)
class Work:
    """What a turn took, according to a log or the ledger."""

    calls: int
    output_tokens: float
    seconds: float | None = None
    """In a log: from the ask to the last sign of work, with tools and approvals. In the ledger: calls alone."""
    usd: float | None = None


@dataclass(frozen=True, slots=True)
class Case:
    """One turn to decide again: an arrival if its text is known, else its kept decision."""

    session: str
    client: str
    at: float | None
    size: Size | None = None
    regrets: tuple[RegretSign, ...] = ()
    work: Work | None = None
    weight: int = 1
    words: str = ""
    was: Tier | None = None
    arrival: Arrival | None = None
    kept: Kept | None = None
    caller: str = ""
    request: str = ""
    """The id of its first request, if it is in the ledger."""
    edits: int = 0
    """Calls that changed a file."""
    is_planning: bool | None = None
    """Whether the client was in plan mode; None if that is not recorded."""

    @property
    def has_worked(self) -> bool:
        return bool(self.edits) or (self.work is not None and self.work.calls > 1)

    @property
    def is_marked(self) -> bool:
        """Whether the person marked it with `tandem wrong`."""
        return self.weight > 1

    @property
    def is_clear(self) -> bool:
        """Whether it is known to be quick or long."""
        return self.size in (Size.QUICK, Size.LONG)


def cases_of(sessions: Iterable[PastSession]) -> Iterator[Case]:
    for session in sessions:
        began = next((turn.at for turn in session.turns if turn.at is not None), None)
        for index, turn in enumerate(session.turns):
            if not turn.is_repeated:
                yield Case(
                    session=f"{session.client}:{session.id}",
                    client=session.client,
                    at=began if turn.at is None else turn.at,
                    size=size_of_turn(turn),
                    regrets=_regrets_of(turn),
                    work=Work(len(turn.calls) + 1, turn.answer_chars / CHARS_PER_TOKEN, turn.seconds),
                    words=turn.words,
                    arrival=write_request(session, index),
                    edits=turn.edits,
                    is_planning=turn.is_planning,
                )


def _regrets_of(turn: PastTurn) -> tuple[RegretSign, ...]:
    signs = (
        (turn.was_asked_again, RegretSign.ASKED_AGAIN),
        (turn.was_interrupted, RegretSign.INTERRUPTED),
        (turn.has_switched_model, RegretSign.SWITCHED_MODEL),
    )
    return tuple(regret for is_there, regret in signs if is_there)


@dataclass(slots=True)
class LedgerTally:
    entries: int = 0
    unreadable: int = 0
    sessions: set[str] = field(default_factory=set)


def read_ledger(ledger: SqliteEntryReader, tally: LedgerTally, since: float = 0.0) -> list[Case]:
    """Every turn of a ledger, by start. Raises `StoreUnusable`."""
    turns = read_turns(
        _read_history(ledger, tally, since), keeps=lambda call: call.kept is not None and bool(call.kept.override)
    )
    return sorted(cases_of_turns(turns), key=lambda case: case.at or 0.0)


def cases_of_turns(turns: Iterable[Turn]) -> Iterator[Case]:
    for session in by_session(turns):
        yield from _as_cases(session)


def _read_history(ledger: SqliteEntryReader, tally: LedgerTally, since: float) -> Iterator[Call]:
    for row in ledger.read_history(since):
        if row.decision is None or not is_of_a_turn(row.line):
            continue
        call = read_call(row)
        tally.entries += 1
        tally.sessions.add(call.line.session or "")
        tally.unreadable += call.kept is None and call.line.turn_kind in BEGINS
        yield call


def _as_cases(turns: Sequence[Turn]) -> Iterator[Case]:
    overridden = [_is_overridden(turn, after) for turn, after in zip(turns, (*turns[1:], None), strict=True)]
    # Overriding every turn is a habit; an occasional override corrects the choice.
    corrects = any(overridden) and not all(overridden)
    marks = [is_one and corrects for is_one in overridden]
    for index, turn in enumerate(turns):
        after = turns[index + 1] if index + 1 < len(turns) else None
        regrets = tuple(_find_regrets(turn, after, overrode=marks[index], overrides_next=any(marks[index + 1 : index + 2])))
        yield _as_case(turn, regrets)


def _as_case(turn: Turn, regrets: tuple[RegretSign, ...]) -> Case:
    ask, line, kept = turn.ask, turn.ask.line, turn.ask.kept
    assert kept is not None
    return Case(
        session=turn.session,
        client=turn.client or "unknown",
        at=turn.at,
        size=_size(turn, regrets),
        weight=_MISJUDGED_WEIGHT if ask.should_be is not None else 1,
        regrets=regrets,
        work=Work(turn.calls, turn.output_tokens or 0, turn.seconds, None if turn.lacks_cost else turn.cost_usd),
        words=ask.words,
        was=Tier(line.tier) if line.tier is not None else None,
        # What insisted or ruled out is not in the text alone: such a turn keeps its decision.
        arrival=_read_text(ask) if kept.decided_by == ESTIMATE else None,
        kept=_keep(kept, TurnKind(turn.kind)),
        caller=turn.caller,
        request=line.id,
        edits=turn.edits,
        is_planning=PLANNING in (line.combined or "") if PLAN in kept.combining else None,
    )


def _keep(kept: rows.Kept, kind: TurnKind) -> Kept:
    """Leans that are not about the turn are left out."""
    leans = (lean for policy, lean in kept.leans if policy not in ASIDE)
    opinions = tuple(Lean(lean.log_odds, lean.because) for lean in leans)
    return Kept(opinions, max(0, kept.prompt_tokens), kept.decided_by, kind, kept.weights)


def _is_overridden(turn: Turn, after: Turn | None) -> bool:
    override = turn.ask.kept.override if turn.ask.kept is not None else ""
    if not override or override == _FOR_SESSION:
        return False
    later = (*turn.ended[1:], *((after.ask,) if after is not None else ()))
    return not any(
        call.line.tier == turn.ask.line.tier and call.kept is not None and call.kept.override == _FOR_SESSION for call in later
    )


def _read_text(ask: Call) -> Arrival | None:
    """The request, if `ledger.keep_text` kept it whole, with the headers that identify its client."""
    line, text = ask.line, ask.prompt_text
    if not isinstance(text, str):
        return None
    headers = write_headers(line.client or "", line.session or "")
    raw = text.encode("utf-8", "replace")
    arrival = Arrival("req_replay", Dialect(line.dialect), Operation.CREATE, headers, raw, moment=Moment(line.at))
    try:
        read_request(arrival)
    except TandemError:
        return None
    return arrival


def _find_regrets(turn: Turn, after: Turn | None, *, overrode: bool, overrides_next: bool) -> Iterator[RegretSign]:
    if overrode:
        yield RegretSign.OVERRODE
    if turn.is_left:
        yield RegretSign.INTERRUPTED
    if turn.was_moved_up:
        yield RegretSign.MOVED_UP
    if after is None:
        return
    if _is_followed_by_a_redo(turn, after):
        yield RegretSign.ASKED_AGAIN
    is_sent_up = overrides_next and turn.ask.line.tier == Tier.FAST and after.ask.line.tier == Tier.DEEP
    if is_sent_up and not turn.was_moved_up:
        yield RegretSign.ASKED_FOR_DEEP


def _is_followed_by_a_redo(turn: Turn, after: Turn) -> bool:
    return after.ask.kept is not None and after.ask.kept.asked_again


def _size_meant(should_be: Tier) -> Size:
    return Size.LONG if should_be is Tier.DEEP else Size.QUICK


def _size(turn: Turn, regrets: tuple[RegretSign, ...]) -> Size | None:
    """By the person's word, else by edits and output. Broken or uncounted work shows no size."""
    if turn.ask.should_be is not None:
        return _size_meant(turn.ask.should_be)
    if RegretSign.OVERRODE in regrets:
        return Size.LONG if turn.ask.line.tier == Tier.DEEP else Size.QUICK
    size = size_of_work(turn.edits, turn.output_tokens or 0)
    if size is Size.LONG or not _UP.isdisjoint(regrets):
        return Size.LONG
    return size if not turn.lacks_output and not turn.is_left and turn.outcome != Outcome.CUT_SHORT else None
