"""What is decided again: one turn of a log as a request, or one entry of the ledger as what was kept of it."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from router.contract.exchange import Arrival
from router.contract.opinions import Opinion
from router.contract.words import Tier, TurnKind
from router.past.history import CHARS_PER_TOKEN, PastSession, PastTurn, Size, size_of_turn
from router.past.requests import write_request

_SAME_SECONDS = 30.0
"""Between a client's note of an ask and the arrival of its request."""


class RegretSign(StrEnum):
    """A sign that the person wished for something else."""

    ASKED_AGAIN = "asked_again"
    INTERRUPTED = "interrupted"
    SWITCHED_MODEL = "switched_model"
    MOVED_UP = "moved_up"
    """The router itself took the running turn from fast to deep."""
    ASKED_FOR_DEEP = "asked_for_deep"
    """After a turn on fast the person asked for deep."""
    OVERRODE = "overrode"
    MARKED = "marked"
    """The person said with `tandem wrong` that it should have gone to the other tier."""


_SAY_THE_SIZE = frozenset({RegretSign.OVERRODE, RegretSign.MOVED_UP, RegretSign.ASKED_FOR_DEEP})
"""What a ledger knows of a turn that says more about it than the work in a log."""


@dataclass(frozen=True, slots=True)
class Kept:
    """What the ledger keeps of a decision without its text: the opinions as they counted, and the prompt's length."""

    opinions: tuple[Opinion, ...]
    prompt_tokens: int
    decided_by: str
    kind: TurnKind
    weights: str = ""
    """The weights by which the words were read then."""


@dataclass(frozen=True, slots=True)
class Work:
    """What a turn took, as far as a log or the ledger says."""

    calls: int
    output_tokens: float
    seconds: float | None = None
    """Of a log: from the ask to the last sign of work, tools and approvals included. Of the ledger: of its calls alone."""
    usd: float | None = None


@dataclass(frozen=True, slots=True)
class Case:
    """One turn to decide again. It has an arrival where its text is known, else what was kept of its decision."""

    session: str
    client: str
    at: float | None
    size: Size | None = None
    regrets: tuple[RegretSign, ...] = ()
    work: Work | None = None
    weight: int = 1
    words: str = ""
    was: Tier | None = None
    """The tier that served it, where a ledger says so."""
    arrival: Arrival | None = None
    kept: Kept | None = None
    caller: str = ""
    """Whose turn it was, where a ledger says so."""
    places: tuple[int, ...] = ()
    """Where its words are in the table of weights, where a ledger kept that and no text."""

    @property
    def is_marked(self) -> bool:
        """Whether the person said with `tandem wrong` what it was."""
        return self.weight > 1


@dataclass(frozen=True, slots=True)
class Sample:
    """A turn whose size is known: what the evidence said, and where its tier would change."""

    session: str
    at: float
    evidence: float
    threshold: float | None
    tier: Tier
    size: Size
    weight: int = 1
    """How many turns it counts for: one that was marked as misjudged counts for more."""
    words: str = ""
    places: tuple[int, ...] = ()
    """Where its words are in the table of weights, where that was kept instead."""
    caller: str = ""
    is_ruled: bool = False
    """Whether a rule of the config decides it: then its score says nothing."""

    @property
    def is_marked(self) -> bool:
        return self.weight > 1

    @property
    def is_long(self) -> bool:
        return self.size is Size.LONG


def join(told: Iterable[Case], recorded: Sequence[Case]) -> Iterator[Case]:
    """The turns of logs and of a ledger, each once: a log knows the words and edits, the ledger what was wished.

    A client's session id is the same in both. Their clocks are one machine's, so the nearest turn in time is the same turn.
    """
    waiting: dict[str, list[Case]] = {}
    for case in recorded:
        waiting.setdefault(case.session, []).append(case)
    for case in told:
        at, others = case.at, waiting.get(case.session, [])
        near = [other for other in others if at is not None and other.at is not None and abs(other.at - at) <= _SAME_SECONDS]
        if not near or at is None:
            yield case
            continue
        other = min(near, key=lambda other: abs((other.at or 0.0) - at))
        others.remove(other)
        is_override = other.is_marked or not _SAY_THE_SIZE.isdisjoint(other.regrets)
        regrets = tuple(dict.fromkeys((*case.regrets, *other.regrets)))
        size = other.size if is_override else case.size
        yield replace(case, was=other.was, regrets=regrets, size=size, weight=other.weight, caller=other.caller)
    for others in waiting.values():
        yield from others


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
                )


def _regrets_of(turn: PastTurn) -> tuple[RegretSign, ...]:
    signs = (
        (turn.was_asked_again, RegretSign.ASKED_AGAIN),
        (turn.was_interrupted, RegretSign.INTERRUPTED),
        (turn.has_switched_model, RegretSign.SWITCHED_MODEL),
    )
    return tuple(regret for is_there, regret in signs if is_there)
