"""What routers that share a server tell each other from one moment to the next, and the words by which they do.

A fact may be lost, and what is said of the moment is forgotten after a few seconds. Nothing may depend on it but how good an
estimate is, how soon something is known, and what a page shows.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Annotated, Protocol, TypeVar

from msgspec import Meta, Struct

from router.contract.entry import Line

FORGOTTEN_SECONDS = 5.0
"""How long what a router said of the moment counts, if it says nothing more."""

_Seconds = Annotated[float, Meta(ge=0, le=1e7)]
_Rate = Annotated[float, Meta(gt=0, le=1e9)]
_Count = Annotated[int, Meta(ge=0, le=1_000_000)]
_Name = Annotated[str, Meta(max_length=500)]


class SpeedSeen(Struct, frozen=True):
    """How fast a target lately was, and how long ago that was last seen."""

    ttft_seconds: _Rate
    tokens_per_second: _Rate
    prefill_tokens_per_second: _Rate
    age_seconds: _Seconds


class TargetNews(Struct, frozen=True, omit_defaults=True):
    """One target as another router sees it, by its own calls alone."""

    in_flight: _Count = 0
    wait_seconds: _Seconds = 0.0
    """How long a request would wait there for others."""
    closed_seconds: _Seconds = 0.0
    """How much longer the target asked to be left alone."""
    rest_seconds: _Seconds = 0.0
    """How much longer it is left alone after failures; a little while one request finds out about it."""
    failures: _Count = 0
    """In a row."""
    speed: SpeedSeen | None = None


class TargetsTold(Struct, frozen=True, tag="targets"):
    """All targets of which a router has something to say. Those that it no longer names are as usual again."""

    targets: Annotated[Mapping[_Name, TargetNews], Meta(max_length=1_000)]


class KeysChanged(Struct, frozen=True, tag="keys"):
    """The list of revoked keys has changed. The list itself is kept by the server (`RevokedKeys`)."""


class FeedWanted(Struct, frozen=True, tag="feed_wanted"):
    """Somebody looks at the page of the router that says this: the others report their calls for a while."""


class EndedCall(Struct, frozen=True):
    """A finished request of another router, as the page shows it."""

    line: Line
    decided_by: _Name | None = None


class CallsEnded(Struct, frozen=True, tag="calls_ended"):
    """Requests that have ended since the router last reported some, oldest first."""

    calls: Annotated[tuple[EndedCall, ...], Meta(max_length=1_000)]
    lost: _Count = 0
    """How many more there were."""


class CallUnderWay(Struct, frozen=True):
    """A request that is under way at another router, as the page shows it."""

    id: _Name
    at: float
    caller: _Name
    session: _Name | None
    turn_kind: _Name | None
    client: _Name | None
    tier: _Name | None
    target: _Name | None
    because: str | None


class CallsUnderWay(Struct, frozen=True, tag="calls_under_way"):
    """All requests that are under way at a router, the newest last, or as many as can be reported."""

    calls: Annotated[tuple[CallUnderWay, ...], Meta(max_length=1_000)]


LiveFact = TargetsTold | KeysChanged | FeedWanted | CallsEnded | CallsUnderWay
Kind = TypeVar("Kind", TargetsTold, KeysChanged, FeedWanted, CallsEnded, CallsUnderWay)


class Pulse(Protocol):
    """Tells other routers what happens here, and hears what happens there. Telling never waits and never fails."""

    replica: str
    """The name of this router, as the config has it."""

    @property
    def routers(self) -> int:
        """How many routers there are, this one included. Workers of one router count as one."""
        ...

    @property
    def is_up(self) -> bool:
        """Whether the others can be told and heard now."""
        ...

    def tell(self, fact: LiveFact) -> None:
        """Tell all others, if they can be told now."""
        ...

    def hear(self, kind: type[Kind], take: Callable[[str, Kind], None]) -> None:
        """Have a function called with each fact of a kind, and with who told it: a name that is one router's alone.

        It must not raise. Facts that this router tells are not among them.
        """
        ...

    def on_beat(self, call: Callable[[], None]) -> None:
        """Have a function called twice a second while others can be told. It must not raise."""
        ...


class RevokedKeys(Protocol):
    """Keys of callers that were removed from the key file of any router, by the digests of their secrets."""

    def tell(self, revoked: Collection[bytes], restored: Collection[bytes]) -> None:
        """Keys were removed from this router's file, and put into it. What cannot be told now is told later."""
        ...

    def hear(self, take: Callable[[frozenset[bytes]], None]) -> None:
        """Have a function called with all revoked keys, now and whenever they change. It must not raise."""
        ...


def name_of(teller: str) -> str:
    """The name of a router, as its config has it, of one that told something."""
    return teller.rpartition("/")[0]
