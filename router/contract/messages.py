"""Messages between routers that share a server. Each may be lost, and counts for a few seconds only.

They may only affect the quality of estimates, how soon something is known, and what a page shows. Two releases read each
other's messages: unknown fields are ignored, and new fields need a default (`tests/router/contract/test_messages.py` reads
recorded ones).
"""

from collections.abc import Callable, Collection, Mapping
from typing import Annotated, Protocol, TypeVar

from msgspec import Meta, Struct

from router.contract.entry import Line

FORGOTTEN_SECONDS = 5.0
"""How long an unrepeated report counts."""
MAX_CLOSED_SECONDS = 60.0
"""How long other routers' word keeps a target closed, however often it is repeated. Then this router asks the target itself."""

_Seconds = Annotated[float, Meta(ge=0, le=1e7)]
_Rate = Annotated[float, Meta(gt=0, le=1e9)]
_Count = Annotated[int, Meta(ge=0, le=1_000_000)]
_Name = Annotated[str, Meta(max_length=500)]


class SpeedSeen(Struct, frozen=True):
    ttft_seconds: _Rate
    tokens_per_second: _Rate
    prefill_tokens_per_second: _Rate
    age_seconds: _Seconds


class TargetReport(Struct, frozen=True, omit_defaults=True):
    """One target as another router sees it by its own calls."""

    in_flight: _Count = 0
    wait_seconds: _Seconds = 0.0
    """A new request's wait for others."""
    closed_seconds: _Seconds = 0.0
    """How much longer the target asked to be left alone."""
    rest_seconds: _Seconds = 0.0
    """How much longer it rests after failures; short while one request probes it."""
    failures: _Count = 0
    """In a row."""
    speed: SpeedSeen | None = None


class TargetReports(Struct, frozen=True, tag="targets"):
    """All targets a router has to report on. The others are as usual again."""

    targets: Annotated[Mapping[_Name, TargetReport], Meta(max_length=1_000)]


class KeysChanged(Struct, frozen=True, tag="keys"):
    """The list of revoked keys, kept by the server (`RevokedKeys`), has changed."""


class FeedWanted(Struct, frozen=True, tag="feed_wanted"):
    """A person is viewing the sender's page: the others report their calls for a while."""


class EndedCall(Struct, frozen=True):
    """For the page."""

    line: Line
    decided_by: _Name | None = None


class CallsEnded(Struct, frozen=True, tag="calls_ended"):
    """Requests that ended since the router's last such message, oldest first."""

    calls: Annotated[tuple[EndedCall, ...], Meta(max_length=1_000)]
    lost: _Count = 0


class CallUnderWay(Struct, frozen=True):
    """For the page."""

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
    """A router's running requests, newest last, as many as fit."""

    calls: Annotated[tuple[CallUnderWay, ...], Meta(max_length=1_000)]


Message = TargetReports | KeysChanged | FeedWanted | CallsEnded | CallsUnderWay
Kind = TypeVar("Kind", TargetReports, KeysChanged, FeedWanted, CallsEnded, CallsUnderWay)


class Messages(Protocol):
    """Exchanges messages with all other routers. Sending never waits and never fails."""

    replica: str

    @property
    def routers(self) -> int:
        """Including this one."""
        ...

    @property
    def is_up(self) -> bool: ...

    def publish(self, message: Message) -> None:
        """Dropped while the server is away."""
        ...

    def subscribe(self, kind: type[Kind], take: Callable[[str, Kind], None]) -> None:
        """Call a function with each message of a kind and its sender's unique name. It must not raise.

        A router does not receive its own messages.
        """
        ...

    def on_tick(self, call: Callable[[], None]) -> None:
        """Call a function twice a second while messages can be sent. It must not raise."""
        ...


class RevokedKeys(Protocol):
    """Digests of callers' keys that were removed from any router's key file."""

    def report(self, revoked: Collection[bytes], restored: Collection[bytes]) -> None:
        """Report keys removed from and added to this router's file, later if the server is away."""
        ...

    def subscribe(self, take: Callable[[frozenset[bytes]], None]) -> None:
        """Call a function with all revoked keys, now and on each change. It must not raise."""
        ...


def router_of(sender: str) -> str:
    return sender.rpartition("/")[0]
