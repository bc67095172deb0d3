"""The ledger as a history: the turns of each session out of its entries, with what became of them."""

import contextlib
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import orjson

from router.contract.errors import TandemError
from router.contract.opinions import Lean
from router.contract.request import Json, JsonObject
from router.contract.words import Dialect, Operation, Outcome, Tier, TurnKind
from router.decide.choose import PERSONAL
from router.dialects.requests import Arrival, read_request
from router.lab.cases import Case, Kept, Regret
from router.lab.past import Size, size_of_work
from router.lab.regrets import is_asked_again
from router.sessions.turns import read_turn

_KINDS = (TurnKind.ASK, TurnKind.FOLLOW_UP, TurnKind.TOOL_LOOP)
_OUTCOMES = (Outcome.SERVED, Outcome.ABANDONED, Outcome.CUT_SHORT)
"""Those in which a model worked. A refused or failed request is sent again, and would count twice."""
_WISHES = "override"
"""The policy that speaks for the person."""
_QUERY = """
    SELECT caller, session, turn_kind, client, at, dialect, outcome, tier, decision, prompt_text FROM entries
    WHERE session IS NOT NULL AND decision IS NOT NULL AND turn_kind IN (?, ?, ?) AND outcome IN (?, ?, ?) ORDER BY sequence
"""


class LedgerUnreadable(Exception):
    """The file is no ledger, or not there."""


@dataclass(slots=True)
class _Turn:
    """A turn as its entries come by."""

    session: str
    client: str
    at: float
    tier: Tier | None
    kept: Kept
    is_forced: bool
    arrival: Arrival | None
    words: str
    calls: int = 0
    is_abandoned: bool = False
    has_moved_up: bool = False
    """Whether the router itself moved the running turn from fast to deep."""


@dataclass(slots=True)
class LedgerTally:
    """What the ledger could tell."""

    entries: int = 0
    with_text: int = 0
    unreadable: int = 0
    sessions: set[str] = field(default_factory=set)


def count_asks(path: Path) -> int:
    """How many entries begin a turn. Raises `LedgerUnreadable`."""
    with _open(path) as database:
        count = database.execute("SELECT count(*) FROM entries WHERE turn_kind IN (?, ?)", _KINDS[:2]).fetchone()
        return int(count[0])


def read_ledger(path: Path, tally: LedgerTally) -> Iterator[Case]:
    """Every turn, in the order in which they began. Only the last turn of each session is held back, for its next ask."""
    running: dict[tuple[str, str], list[_Turn]] = {}
    with _open(path) as database:
        for caller, session, kind, *rest in database.execute(_QUERY, (*_KINDS, *_OUTCOMES)):
            tally.entries += 1
            tally.sessions.add(session)
            turns = running.setdefault((caller, session), [])
            if kind == TurnKind.TOOL_LOOP and turns:
                turns[-1].calls += 1
                turns[-1].is_abandoned |= rest[3] == Outcome.ABANDONED
                turns[-1].has_moved_up |= rest[4] == Tier.DEEP and turns[-1].tier is Tier.FAST
                continue
            turn = _read_turn(session, kind, rest, tally)
            if turn is not None:
                turns.append(turn)
    cases = [case for turns in running.values() for case in _as_cases(turns)]
    yield from sorted(cases, key=lambda case: case.at or 0.0)


@contextlib.contextmanager
def _open(path: Path) -> Iterator[sqlite3.Connection]:
    """Read only: a file that is not there must not be made by someone who merely looks."""
    try:
        with contextlib.closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, timeout=5.0)) as database:
            yield database
    except sqlite3.Error as error:
        raise LedgerUnreadable(f"{path} is no ledger that can be read: {error}") from error


def _read_turn(session: str, kind: str, rest: list[object], tally: LedgerTally) -> _Turn | None:
    client, at, dialect, outcome, tier, decision, prompt_text = rest
    try:
        explained = orjson.loads(str(decision))
        kept = _read_kept(explained, TurnKind(kind))
    except (orjson.JSONDecodeError, ValueError, TypeError, AttributeError):
        tally.unreadable += 1
        return None
    arrival, words = _read_text(prompt_text, str(dialect))
    tally.with_text += arrival is not None
    evidence = explained.get("evidence") or []
    return _Turn(
        session=session,
        client=str(client or "unknown"),
        at=float(str(at)),
        tier=Tier(str(tier)) if tier else None,
        kept=kept,
        is_forced=any(_is_wish(_object(item)) for item in evidence),
        arrival=arrival,
        words=words,
        is_abandoned=outcome == Outcome.ABANDONED,
    )


def _is_wish(evidence: Mapping[str, Json]) -> bool:
    """Whether the person asked for a tier. Other policies insist too: that a turn stays where it began is nobody's wish."""
    return evidence.get("kind") == "insist" and evidence.get("policy") == _WISHES


def _read_kept(explained: JsonObject, kind: TurnKind) -> Kept:
    leans = []
    evidence = explained.get("evidence")
    for item in evidence if isinstance(evidence, list) else []:
        entry = _object(item)
        odds = entry.get("log_odds")
        if entry.get("kind") == "lean" and isinstance(odds, (int, float)) and entry.get("policy") != PERSONAL:
            leans.append(Lean(float(odds), str(entry.get("because", ""))))
    tokens = explained.get("prompt_tokens")
    return Kept(
        opinions=tuple(leans),
        prompt_tokens=int(tokens) if isinstance(tokens, (int, float)) else 0,
        decided_by=str(explained.get("decided_by", "")),
        kind=kind,
    )


def _read_text(prompt_text: object, dialect: str) -> tuple[Arrival | None, str]:
    """The request itself, where `ledger.keep_text` kept the whole of it."""
    if not isinstance(prompt_text, str):
        return None, ""
    arrival = Arrival("req_replay", Dialect(dialect), Operation.CREATE, {}, prompt_text.encode("utf-8", "replace"))
    try:
        return arrival, read_turn(read_request(arrival)).person_text or ""
    except TandemError:
        return None, ""


def _as_cases(turns: list[_Turn]) -> Iterator[Case]:
    # Who asks for a tier in every turn has a habit; who does so now and then was not content with the choice.
    corrects = any(turn.is_forced for turn in turns) and not all(turn.is_forced for turn in turns)
    for index, turn in enumerate(turns):
        following = turns[index + 1] if index + 1 < len(turns) else None
        regrets = tuple(_find_regrets(turn, following, corrects=corrects))
        yield Case(
            session=turn.session,
            client=turn.client,
            at=turn.at,
            size=_size(turn, regrets),
            regrets=regrets,
            words=turn.words,
            was=turn.tier,
            arrival=turn.arrival,
            kept=turn.kept,
        )


def _find_regrets(turn: _Turn, following: _Turn | None, *, corrects: bool) -> Iterator[Regret]:
    if turn.is_forced and corrects:
        yield Regret.OVERRODE
    if turn.is_abandoned:
        yield Regret.INTERRUPTED
    if turn.has_moved_up:
        yield Regret.ESCALATED
    if following is None:
        return
    if turn.words and following.words and is_asked_again(turn.words, following.words):
        yield Regret.ASKED_AGAIN
    is_sent_up = following.is_forced and corrects and turn.tier is Tier.FAST and following.tier is Tier.DEEP
    if is_sent_up and not turn.has_moved_up:
        yield Regret.ESCALATED


def _size(turn: _Turn, regrets: tuple[Regret, ...]) -> Size | None:
    """By the person's own word where there is one, else by the calls that followed. Edits are not in the ledger."""
    if Regret.OVERRODE in regrets:
        return Size.LONG if turn.tier is Tier.DEEP else Size.QUICK
    size = size_of_work(turn.calls, 0)
    if size is Size.LONG or Regret.ESCALATED in regrets or Regret.ASKED_AGAIN in regrets:
        return Size.LONG
    return None if Regret.INTERRUPTED in regrets else size


def _object(value: Json) -> Mapping[str, Json]:
    return value if isinstance(value, dict) else {}
