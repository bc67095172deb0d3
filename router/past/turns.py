"""Calls → turns: one turn for each thing a person typed, however many calls it takes.

Pure, and the only place that does so, for live calls and for the ledger's rows. A person's turn begins with an ask
or a follow-up and takes the tool calls after it. A subagent is one turn; each request that a client makes for itself (a title,
a compaction) is one too.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from msgspec import Struct

from router.contract.entry import PLAN, Line
from router.contract.past import name_hop
from router.contract.request import Json, JsonObject
from router.contract.words import BEGINS, NOBODY_SERVED, PERSONS_KINDS, Outcome, Tier, TurnKind
from router.past.rows import Call

LEFT = (Outcome.ABANDONED, Outcome.INTERRUPTED)
"""The person did not want the rest: they hung up, or sent a new message."""
WORKED = (Outcome.SERVED, Outcome.CUT_SHORT, *LEFT)
"""Outcomes in which a model worked. A refused or failed request is sent again, and would count twice."""
_REFUSAL = 400
"""From this status on, the caller got no answer."""
_LOOKS, _MOVED = "looks like a ", "moved up"


class Begun(Struct, frozen=True):
    """A call whose tier is decided."""

    id: str
    at: float
    """Arrival, in seconds since 1970."""
    kind: str
    tier: str
    because: str
    caller: str = ""
    session: str = ""
    client: str = ""
    number: int = 0
    """Number of the turn in its session, by its history; 0 if unknown."""
    job: str = ""


@dataclass(slots=True)
class Turn:
    """A line of `tandem log`, and the unit of all statistics."""

    at: float
    client: str = ""
    session: str = ""
    number: int | None = None
    """Number in the session; None if not typed by a person."""
    kind: str = ""
    tier: str | None = None
    has_moved_up: bool = False
    calls: int = 0
    first_seconds: float | None = None
    """Until the first token of the first call."""
    seconds: float = 0.0
    """Time of finished calls, without the tools between them."""
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    uses_plan: bool = False
    uses_tokens: bool = False
    """Whether a plan paid for tokens of it, and whether any were paid by the token."""
    list_usd: float | None = None
    """What plans paid for, at list price."""
    lacks_cost: bool = False
    lacks_output: bool = False
    is_answered: bool = False
    why: str = ""
    combined: str = ""
    """What both tiers did for it, in words."""
    trouble: str = ""
    status: int = 200
    """Of the last call."""
    outcome: str = ""
    last_at: float = 0.0
    """Last event of the turn."""
    running: set[str] = field(default_factory=set)
    """Ids of its calls under way."""
    is_closed: bool = False
    caller: str = ""
    """Empty if unknown."""
    job: str = ""
    ended: list[Call] = field(default_factory=list)
    """Its calls, if from a ledger. The first of a person's turn is the ask."""
    was_moved_up: bool = False
    """Whether the router moved it from fast to deep while it ran."""
    is_left: bool = False
    edits: int = 0
    """Calls that changed a file, before its last call."""

    def close(self) -> None:
        """Let no further call belong to it."""
        self.is_closed = True

    @property
    def is_persons(self) -> bool:
        return self.number is not None

    @property
    def has_failed(self) -> bool:
        """Whether no target served its last call."""
        return self.outcome == Outcome.FAILED

    @property
    def billing(self) -> str | None:
        """`plan` where plans paid for all its tokens."""
        return PLAN if self.uses_plan and not self.uses_tokens else None

    @property
    def ask(self) -> Call:
        return self.ended[0]

    @property
    def mark(self) -> Tier | None:
        """The tier that would have been right, where the person marked it."""
        return self.ended[0].should_be if self.ended else None

    @property
    def can_be_marked(self) -> bool:
        """Whether Tandem chose its tier, and a model worked on that tier alone."""
        is_chosen = self.kind in BEGINS and all(is_of_a_turn(call.line) for call in self.ended)
        return is_chosen and {self.tier} == {tier for call in self.ended for tier in (call.decided, call.line.tier)}

    def as_json(self) -> JsonObject:
        """A turn, as `tandem log --json`, the feed and `/tandem/turns` show it."""
        return {
            "id": self.ask.line.id if self.ended else None,
            "at": self.at,
            "caller": self.caller,
            "client": self.client or None,
            "session": self.session or None,
            "job": self.job or None,
            "turn": self.number,
            "kind": self.kind or None,
            "tier": self.tier,
            "target": self.ended[-1].line.target if self.ended else None,
            "moved_up": self.has_moved_up,
            "hops": self._hops(),
            "calls": self.calls,
            "first_seconds": self.first_seconds,
            "seconds": round(self.seconds, 3),
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "cost_usd": self.cost_usd,
            "cost_is_partial": self.lacks_cost,
            "billing": self.billing,
            "list_usd": self.list_usd,
            "outcome": self.outcome,
            "status": self.status,
            "combined": self.combined or None,
            "trouble": self.trouble or None,
            "why": self.why or None,
            "mark": self.mark,
            "can_be_marked": self.can_be_marked,
        }

    def _hops(self) -> list[Json]:
        """Its calls that another tier served than the call before."""
        found: list[Json] = []
        for number, (before, call) in enumerate(pairwise(call.line for call in self.ended), start=2):
            if (hop := name_hop(before.tier, call.tier)) is not None:
                found.append({"id": call.id, "call": number, "hop": hop, "because": call.because})
        return found


class Turns:
    def __init__(self) -> None:
        self._last: dict[tuple[str, str], Turn] = {}
        self._of_call: dict[str, Turn] = {}
        self._counts: dict[tuple[str, str], int] = {}

    def count_from(self, caller: str, session: str, turns: int) -> None:
        """Set a session's number of turns before the first one shown."""
        self._counts[caller, session] = turns

    def begin(self, call: Begun) -> Turn:
        """A call goes to a tier. Returns its turn, perhaps new."""
        turn = self._find(call)
        turn.calls += 1
        turn.last_at = call.at
        turn.running.add(call.id)
        moves_up = turn.tier == Tier.FAST and call.tier == Tier.DEEP and call.kind == TurnKind.TOOL_LOOP
        turn.has_moved_up |= moves_up
        if turn.calls == 1 or call.kind in BEGINS:  # a further ask was sent again, after one that nobody served
            turn.why = _shorten(call.because)
        elif moves_up:
            turn.why = call.because if call.because.startswith(_MOVED) else f"{_MOVED} at call {turn.calls}: {call.because}"
        turn.tier, turn.job = call.tier, call.job
        self._of_call[call.id] = turn
        return turn

    def stop_all_but(self, running: Collection[str]) -> None:
        """Only these calls are under way; the ends of others may be missed, or still come."""
        for turn in self._of_call.values():
            turn.running.intersection_update(running)

    def end(self, line: Line, message: str = "") -> Turn | None:
        """End a request. Returns its turn; None if no model was called, as for a token count."""
        turn = self._of_call.pop(line.id, None)
        if turn is None:
            if line.outcome == Outcome.SERVED and line.tier is None:
                return None
            turn = Turn(
                line.at, line.client or "", line.session or "", kind=line.turn_kind or "", is_closed=True, caller=line.caller
            )
        turn.running.discard(line.id)
        turn.last_at = line.at + line.duration_ms / 1000
        is_first = not turn.seconds  # the next call of a quick client may have begun
        turn.seconds += line.duration_ms / 1000
        if is_first and line.ttft_ms is not None:
            turn.first_seconds = line.ttft_ms / 1000
        if not turn.running:  # a quick client may begin the next call before this one is recorded
            turn.tier = line.tier or turn.tier
        turn.job = line.job or ""
        turn.input_tokens = _add(turn.input_tokens, line.input_tokens)
        turn.output_tokens = _add(turn.output_tokens, line.output_tokens)
        turn.cost_usd = _add(turn.cost_usd, line.cost_usd)
        has_used, has_failed = line.output_tokens is not None, line.outcome in NOBODY_SERVED
        turn.list_usd = _add(turn.list_usd, line.list_usd)
        turn.uses_plan |= line.billing is not None
        turn.uses_tokens |= has_used and line.billing != PLAN
        turn.combined = line.combined or turn.combined
        turn.lacks_cost |= lacks_cost(line)
        turn.lacks_output |= not has_used
        turn.is_answered |= has_used and not (has_failed and line.status >= _REFUSAL)
        turn.status, turn.outcome = line.status, line.outcome
        turn.trouble = "" if line.outcome == Outcome.SERVED else say_trouble(line, message)
        if line.attempts > 1 and is_first and line.because:
            turn.why = _shorten(line.because)  # with earlier failures
        return turn

    def replay(self, call: Call, message: str = "") -> Turn | None:
        """A finished request, from the ledger or a router, whose beginning may have been seen."""
        line, tier = call.line, call.decided or call.line.tier
        if tier is not None and line.because is not None and line.id not in self._of_call:
            names = (line.caller, line.session or "", line.client or "")
            self.begin(Begun(line.id, line.at, line.turn_kind or "", tier, line.because, *names))
        turn = self.end(line, message)
        if turn is not None:
            turn.ended.append(call)
            turn.is_left |= line.outcome in LEFT
            turn.edits = max(turn.edits, call.kept.edits if call.kept is not None else 0)
            turn.was_moved_up |= call.decided == Tier.DEEP and turn.ask.decided != Tier.DEEP and not call.is_asked_for
        return turn

    def replay_all(self, calls: Iterable[Call]) -> list[Turn]:
        """Turns of these requests, by start."""
        turns = (turn for call in calls if (turn := self.replay(call)) is not None)
        return [*{id(turn): turn for turn in turns}.values()]

    def _find(self, call: Begun) -> Turn:
        key, kind = (call.caller, call.session), call.kind
        if kind == TurnKind.SUBAGENT:
            key = (call.caller, f"{call.session}\0{kind}")
        elif kind not in (*BEGINS, TurnKind.TOOL_LOOP):
            return Turn(call.at, call.client, call.session, kind=kind, is_closed=True, caller=call.caller)
        last = self._last.get(key)
        goes_on = last is not None and (kind not in BEGINS or _is_tried_again(last))
        if goes_on and last is not None:
            return last
        turn = Turn(call.at, call.client, call.session, kind=kind, caller=call.caller)
        if kind != TurnKind.SUBAGENT:
            turn.number = self._number(key, call)
        if last is not None:
            last.close()
        self._last[key] = turn
        return turn

    def _number(self, key: tuple[str, str], call: Begun) -> int:
        known = self._counts.get(key)
        self._counts[key] = number = (max(0, call.number - 1) if known is None else known) + 1
        return number

    def forget_before(self, at: float) -> None:
        """Forget sessions silent since then. A continued one is counted by its history."""
        old = [key for key, turn in self._last.items() if turn.last_at < at and not turn.running]
        for key in old:
            self._last.pop(key).close()
            self._counts.pop(key, None)


def _is_tried_again(last: Turn) -> bool:
    return last.outcome in NOBODY_SERVED and not last.is_answered and not last.running


def _shorten(because: str) -> str:
    return because.removeprefix(_LOOKS)


def _add(known: int | float | None, more: int | float | None):  # type: ignore[no-untyped-def]  # of either kind
    return more if known is None else known if more is None else known + more


def say_trouble(line: Line, message: str = "") -> str:
    """What went wrong with a request, in a few words."""
    if line.error == "model_not_found" and line.tier is None:
        return f'model "{line.model[:60]}" is not in models:'
    if line.outcome == Outcome.REFUSED:
        return message or (line.error or "refused").replace("_", " ")
    words = Outcome(line.outcome).said
    return f"{words}: {line.error}" if line.error else words


def lacks_cost(line: Line) -> bool:
    """Whether a call used tokens at unknown cost. SQL sums the ledger in the same way."""
    return line.cost_usd is None and (line.outcome == Outcome.SERVED or line.output_tokens is not None)


def is_of_a_turn(line: Line, outcomes: Collection[str] = WORKED) -> bool:
    """Whether a model worked on it in a person's turn."""
    return line.session is not None and line.turn_kind in PERSONS_KINDS and line.outcome in outcomes


def read_turns(
    calls: Iterable[Call], outcomes: Collection[str] = WORKED, keeps: Callable[[Call], bool] = lambda _: True
) -> list[Turn]:
    """Turns of persons in which a model worked, by start.

    A row that Tandem did not write belongs to no turn, nor do calls whose ask is such a row or too old. `keeps` selects calls
    to keep besides the ask, to save memory.
    """
    turns, found = Turns(), dict[int, Turn]()
    for call in calls:
        if not is_of_a_turn(call.line, outcomes) or (call.kept is None and call.line.turn_kind not in BEGINS):
            continue
        if (turn := turns.replay(call)) is not None:
            found[id(turn)] = turn
            if len(turn.ended) > 1 and not keeps(call):
                turn.ended.pop()
    return [turn for turn in found.values() if turn.kind in BEGINS and turn.ask.kept is not None]


def by_session(turns: Iterable[Turn]) -> list[list[Turn]]:
    sessions: dict[tuple[str, str], list[Turn]] = {}
    for turn in turns:
        sessions.setdefault((turn.caller, turn.session), []).append(turn)
    return [*sessions.values()]


def with_following(turns: Iterable[Turn]) -> Iterator[tuple[Turn, Turn | None]]:
    for session in by_session(turns):
        yield from zip(session, (*session[1:], None), strict=True)
