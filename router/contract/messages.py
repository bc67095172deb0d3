"""Messages between routers that share a server. Each may be lost, and counts for a few seconds only.

Nothing may depend on them but how good an estimate is, how soon something is known, and what a page shows. Routers of two
releases read each other's messages: unknown fields are ignored, and a field that is added needs a default
(`tests/router/contract/test_messages.py` reads recorded ones).
"""

from collections.abc import Callable, Collection, Mapping
from typing import Annotated, Protocol, TypeVar

from msgspec import Meta, Struct

from router.contract.entry import Line

FORGOTTEN_SECONDS = 5.0
"""How long a report counts that is not repeated."""

_Seconds = Annotated[float, Meta(ge=0, le=1e7)]
_Rate = Annotated[float, Meta(gt=0, le=1e9)]
_Count = Annotated[int, Meta(ge=0, le=1_000_000)]
_Name = Annotated[str, Meta(max_length=500)]


class SpeedSeen(Struct, frozen=True):
    """How fast a target lately was, and how long ago that was measured."""

    ttft_seconds: _Rate
    tokens_per_second: _Rate
    prefill_tokens_per_second: _Rate
    age_seconds: _Seconds


class TargetReport(Struct, frozen=True, omit_defaults=True):
    """One target as another router sees it by its own calls."""

    in_flight: _Count = 0
    wait_seconds: _Seconds = 0.0
    """How long a request would wait there for others."""
    closed_seconds: _Seconds = 0.0
    """How much longer the target asked to be left alone."""
    rest_seconds: _Seconds = 0.0
    """How much longer it is left alone after failures; a little while one request probes it."""
    failures: _Count = 0
    """In a row."""
    speed: SpeedSeen | None = None


class TargetReports(Struct, frozen=True, tag="targets"):
    """All targets that a router has something to report of. The others are as usual again."""

    targets: Annotated[Mapping[_Name, TargetReport], Meta(max_length=1_000)]


class KeysChanged(Struct, frozen=True, tag="keys"):
    """The list of revoked keys has changed. The list itself is kept by the server (`RevokedKeys`)."""


class FeedWanted(Struct, frozen=True, tag="feed_wanted"):
    """Somebody looks at the sender's page: the others report their calls for a while."""


class EndedCall(Struct, frozen=True):
    """A finished request of another router, as the page shows it."""

    line: Line
    decided_by: _Name | None = None


class CallsEnded(Struct, frozen=True, tag="calls_ended"):
    """Requests that have ended since the router's last message of this kind, oldest first."""

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
    """The requests that are under way at a router, the newest last, or as many of them as fit."""

    calls: Annotated[tuple[CallUnderWay, ...], Meta(max_length=1_000)]


Message = TargetReports | KeysChanged | FeedWanted | CallsEnded | CallsUnderWay
Kind = TypeVar("Kind", TargetReports, KeysChanged, FeedWanted, CallsEnded, CallsUnderWay)


class Messages(Protocol):
    """Sends messages to all other routers, and receives theirs. Sending never waits and never fails."""

    replica: str
    """The name of this router, as the config has it."""

    @property
    def routers(self) -> int:
        """How many routers there are, this one included. Workers of one router count as one."""
        ...

    @property
    def is_up(self) -> bool:
        """Whether messages can be sent and received now."""
        ...

    def publish(self, message: Message) -> None:
        """Send a message to all others, if that is possible now."""
        ...

    def subscribe(self, kind: type[Kind], take: Callable[[str, Kind], None]) -> None:
        """Call a function with each message of a kind and its sender, whose name is unique. It must not raise.

        A router does not receive its own messages.
        """
        ...

    def on_tick(self, call: Callable[[], None]) -> None:
        """Call a function twice a second while messages can be sent. It must not raise."""
        ...


class RevokedKeys(Protocol):
    """Keys of callers that were removed from the key file of any router, by the digests of their secrets."""

    def report(self, revoked: Collection[bytes], restored: Collection[bytes]) -> None:
        """Keys were removed from this router's file, and put into it. What cannot be sent now is sent later."""
        ...

    def subscribe(self, take: Callable[[frozenset[bytes]], None]) -> None:
        """Call a function with all revoked keys, now and whenever they change. It must not raise."""
        ...


def router_of(sender: str) -> str:
    """The name of a router, as its config has it, from a sender's."""
    return sender.rpartition("/")[0]
