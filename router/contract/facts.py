"""Facts about a request, in the order in which they happen. Times are monotonic.

`Read, QuestionEnded?, Decided, (Queued, Dequeued, AttemptOpened, LimitsTold, PlanTold, FirstByte, FirstToken,
ResponseCompleted, AttemptEnded, StateRefused)*, Settled, Recorded`. A refused request stops early. One that the router answers
has `AnsweredHere` or `Replayed` after `Read`; a passed one `PassedOn, AttemptOpened, AttemptEnded`; one that waited for a quota
in vain `Queued, Dequeued` without an attempt; a target that could only misunderstand it a lone `AttemptEnded`. An answer in one
piece completes before its first byte is sent. `Settled` always comes, and `Recorded` a little later.
"""

import math

from msgspec import Struct

from router.contract.decision import Decision
from router.contract.entry import Attempt, Entry
from router.contract.errors import TandemError
from router.contract.opinions import Opinions
from router.contract.plan_use import PlanWindow
from router.contract.request import JsonObject, RequestView
from router.contract.session import SessionSnapshot
from router.contract.signals import Turn
from router.contract.target import LimitWindow, Target
from router.contract.usage import Usage
from router.contract.words import Outcome


class Fact(Struct, frozen=True):
    """Something that happened to a request."""


class Read(Fact, frozen=True):
    view: RequestView


class Decided(Fact, frozen=True):
    view: RequestView
    session: SessionSnapshot
    decision: Decision
    opinions: Opinions = Opinions()
    """The policies' opinions as collected: another decision can be made from them."""
    worth_waiting_seconds: float = math.inf
    """The wait for the chosen target beyond which another is better."""


class AnsweredHere(Fact, frozen=True):
    """The router answers by itself, for instance to a tier line alone."""

    turn: Turn


class Replayed(Fact, frozen=True):
    """The answer to an earlier request with this `Idempotency-Key` is sent again. `because` names that request."""

    because: str


class PassedOn(Fact, frozen=True):
    """The route is not decided: the request goes to the target that the config names."""

    because: str


class Queued(Fact, frozen=True):
    """The request waits: the target's quota is used up, or its last slot is kept for a session's turn."""

    at: float
    target: Target
    position: int
    length: int
    """Of the queue, this request included."""
    expected_seconds: float


class Dequeued(Fact, frozen=True):
    """The wait is over: the request has its turn, or gave up."""

    at: float
    target: Target
    seconds: float
    has_turn: bool


class AttemptOpened(Fact, frozen=True):
    at: float
    target: Target
    failed: str
    """Earlier attempts, in words."""
    dropped: tuple[str, ...]
    """Fields that this target refuses, or that its dialect cannot express."""


class LimitsTold(Fact, frozen=True):
    """Rate limits in an answer's head. Most targets never tell."""

    target: Target
    windows: tuple[LimitWindow, ...]


class PlanTold(Fact, frozen=True):
    """The windows of the caller's plan, as an answer of its target reports them."""

    target: Target
    windows: tuple[PlanWindow, ...]


class FirstByte(Fact, frozen=True):
    """The first bytes are sent to the caller: no other target can be tried from now on."""

    target: Target


class FirstToken(Fact, frozen=True):
    at: float
    target: Target


class ResponseCompleted(Fact, frozen=True):
    """A Responses answer that can be continued is complete. Noted before its last bytes leave."""

    target: Target
    response: JsonObject


class StateRefused(Fact, frozen=True):
    """The target refused these pieces of hidden state, and served without them."""

    target: Target
    keys: tuple[str, ...]


class AttemptEnded(Fact, frozen=True):
    at: float
    target: Target
    attempt: Attempt
    error: TandemError | None
    usage: Usage | None
    tokens_per_second: float | None
    """Writing speed as the caller saw it. The target's own is in the attempt's `pace`."""


class QuestionEnded(AttemptEnded, frozen=True):
    """A question of our own to a target. `error` is None if it was only late."""

    opened_at: float


class Ending(Struct, frozen=True):
    outcome: Outcome
    status: int
    error: TandemError | None = None


class Settled(Fact, frozen=True):
    """The request is over. `answer` is what was sent, if the config keeps texts."""

    at: float
    ending: Ending
    answer: bytes | None = None


class Recorded(Fact, frozen=True):
    entry: Entry
