"""What happens to a request, as frozen facts in the order in which they happen. Times come from the monotonic clock.

`Read, QuestionEnded?, Decided, (Queued, Dequeued, AttemptOpened, LimitsTold, FirstByte, FirstToken, ResponseCompleted,
AttemptEnded, StateRefused)*, Settled, Recorded`. A request that is refused on its way skips what it never came to; one that
the router answers has `AnsweredHere` or `Replayed` after `Read`; one that is only relayed has `PassedOn, AttemptOpened,
AttemptEnded`; one that waited for a quota in vain has `Queued, Dequeued` without an attempt; a target that could only
misunderstand it has an `AttemptEnded` alone. An answer in one piece is complete before its first byte has gone. `Settled` comes
always, and `Recorded` a little later.
"""

import math

from msgspec import Struct

from router.contract.decision import Decision
from router.contract.entry import Attempt, Entry
from router.contract.errors import TandemError
from router.contract.opinions import Opinions
from router.contract.request import JsonObject, RequestView
from router.contract.session import SessionSnapshot
from router.contract.signals import Turn
from router.contract.target import LimitWindow, Target
from router.contract.usage import Usage
from router.contract.words import Outcome


class Fact(Struct, frozen=True):
    """Something that happened to a request."""


class Read(Fact, frozen=True):
    """The body was read."""

    view: RequestView


class Decided(Fact, frozen=True):
    """A tier was chosen."""

    view: RequestView
    session: SessionSnapshot
    decision: Decision
    opinions: Opinions = Opinions()
    """What the policies said, as it was collected: from this another decision can be made without asking them again."""
    asked_at: float | None = None
    """When a target was called for a second opinion, if one was."""
    worth_waiting_seconds: float = math.inf
    """How long a wait for the chosen target may become until another is the better choice."""
    missed: str = ""
    """The target that the request would have gone to if no quota were used up; empty where it goes there."""


class AnsweredHere(Fact, frozen=True):
    """No tier is to be chosen: the router answers by itself, as it does for a tier line alone."""

    turn: Turn


class Replayed(Fact, frozen=True):
    """An earlier request with the same `Idempotency-Key` was served: its answer goes out again. `because` says which."""

    because: str


class PassedOn(Fact, frozen=True):
    """The request is for a route that is not decided: it goes to the target that the config names. `because` says so."""

    because: str


class Queued(Fact, frozen=True):
    """A target has no room, by its quota or because its last slot is left to a session's turn: the request waits."""

    at: float
    target: Target
    position: int
    length: int
    """Of the queue, with this one."""
    expected_seconds: float


class Dequeued(Fact, frozen=True):
    """The wait is over: it has its turn, or gave up waiting here."""

    at: float
    target: Target
    seconds: float
    has_turn: bool


class AttemptOpened(Fact, frozen=True):
    """A target is about to be called."""

    at: float
    target: Target
    failed: str
    """The attempts before this one, in words."""
    dropped: tuple[str, ...]
    """What the request loses on its way to this target: fields that it refuses, or that its dialect has no word for."""


class LimitsTold(Fact, frozen=True):
    """An answer's head said how much is left of its target's rate limits. Most targets never say."""

    target: Target
    windows: tuple[LimitWindow, ...]


class FirstByte(Fact, frozen=True):
    """The first bytes of an answer have gone to the caller: from now on no other target can be tried."""

    target: Target


class FirstToken(Fact, frozen=True):
    """The first token of a stream has gone to the caller."""

    at: float
    target: Target


class ResponseCompleted(Fact, frozen=True):
    """A Responses answer that its caller may continue from is complete. Noted before its last bytes leave."""

    target: Target
    response: JsonObject


class StateRefused(Fact, frozen=True):
    """A target refused these pieces of hidden state, and served the request without them."""

    target: Target
    keys: tuple[str, ...]


class AttemptEnded(Fact, frozen=True):
    """A call is over, one way or another."""

    at: float
    target: Target
    attempt: Attempt
    error: TandemError | None
    usage: Usage | None
    tokens_per_second: float | None
    """How fast the answer was written, as its caller saw it. What it says of the target itself is in the attempt's `pace`."""


class QuestionEnded(AttemptEnded, frozen=True):
    """A target was asked for a second opinion on the turn, before the decision. `error` is None where it was only late."""

    opened_at: float


class Ending(Struct, frozen=True):
    """How a request ended, and the status that its caller saw."""

    outcome: Outcome
    status: int
    error: TandemError | None = None


class Settled(Fact, frozen=True):
    """The request is over. `answer` is what the caller was sent, if the config has texts kept; else None."""

    at: float
    ending: Ending
    answer: bytes | None = None


class Recorded(Fact, frozen=True):
    """The request's entry is written."""

    entry: Entry
