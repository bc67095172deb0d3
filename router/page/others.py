"""Shows other routers' calls on this page, and ours on theirs.

A router whose page is open announces it; others then report ended and running calls for a few seconds. Earlier calls are in the
ledger of the router that served them.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import msgspec

from router.contract.exchange import Exchange
from router.contract.messages import (
    FORGOTTEN_SECONDS,
    CallsEnded,
    CallsUnderWay,
    CallUnderWay,
    EndedCall,
    FeedWanted,
    Messages,
    router_of,
)
from router.page.begun import has_begun, show_begun
from router.telemetry.ring import Kept, Ring, read_kept

_MAX_CALLS = 200
"""Ended and running calls per report, twice a second."""
_LONG_AGO = float("-inf")


class Shared(NamedTuple):
    replica: str
    routers: int
    is_up: bool


class OtherRouters:
    """Receives others' calls, and reports our own."""

    def __init__(
        self,
        messages: Messages,
        ring: Ring,
        running: Iterable[Exchange],
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._messages, self._ring, self._running, self._clock = messages, ring, running, clock
        self._wanted_here = self._wanted_there = _LONG_AGO
        self._told_number = 0
        """The newest row reported, or unwanted."""
        self._told_calls: tuple[CallUnderWay, ...] = ()
        self._heard: dict[str, tuple[float, tuple[CallUnderWay, ...]]] = {}
        messages.on_tick(self._report)
        messages.subscribe(FeedWanted, self._take_wish)
        messages.subscribe(CallsEnded, self._take_ended)
        messages.subscribe(CallsUnderWay, self._take_under_way)

    def want(self) -> None:
        """A reader is here. The first does not wait for the next beat."""
        now, last = self._clock(), self._wanted_here
        self._wanted_here = now
        if now - last > FORGOTTEN_SECONDS:
            self._messages.publish(FeedWanted())

    def describe(self) -> Shared:
        return Shared(self._messages.replica, self._messages.routers, self._messages.is_up)

    def under_way(self) -> Iterator[tuple[str, CallUnderWay]]:
        """Calls under way elsewhere, with the name of the router if another."""
        now = self._clock()
        for teller in [teller for teller, (at, _) in self._heard.items() if now - at > FORGOTTEN_SECONDS]:
            del self._heard[teller]
        for teller, (_, calls) in self._heard.items():
            for call in calls:
                yield self._elsewhere(teller), call

    def _elsewhere(self, teller: str) -> str:
        """Another router's name; empty for one of this name, which shares the ledger."""
        return name if (name := router_of(teller)) != self._messages.replica else ""

    def _take_wish(self, teller: str, _: FeedWanted) -> None:
        self._wanted_there = self._clock()

    def _take_ended(self, teller: str, fact: CallsEnded) -> None:
        if not self._is_read():
            return
        self._ring.pass_over(fact.lost)
        for call in fact.calls:
            decision = msgspec.json.encode(Kept(call.decided_by)).decode()
            self._ring.put(call.line, decision, self._elsewhere(teller))

    def _take_under_way(self, teller: str, fact: CallsUnderWay) -> None:
        if self._is_read():
            self._heard[teller] = self._clock(), fact.calls

    def _is_read(self) -> bool:
        return self._clock() - self._wanted_here <= FORGOTTEN_SECONDS

    def _report(self) -> None:
        """Announce readers here, and report calls if there are readers elsewhere."""
        now = self._clock()
        if self._is_read():
            self._messages.publish(FeedWanted())
        is_wanted = now - self._wanted_there <= FORGOTTEN_SECONDS
        self._report_ended(self._ring, is_wanted=is_wanted)
        if is_wanted:
            self._report_under_way()
        else:
            self._told_calls = ()

    def _report_ended(self, ring: Ring, *, is_wanted: bool) -> None:
        newest = ring.rows[-1][0] if ring.rows else 0
        if is_wanted and newest > self._told_number:
            own = [held for number, held in reversed(ring.rows) if number > self._told_number and len(held) == 2]
            calls = tuple(EndedCall(line, read_kept(decision).decided_by) for line, decision, *_ in reversed(own[:_MAX_CALLS]))
            if calls:
                self._messages.publish(CallsEnded(calls, len(own) - len(calls)))
        self._told_number = newest

    def _report_under_way(self) -> None:
        calls = tuple(_describe(exchange, self._clock) for exchange in self._running if has_begun(exchange))[-_MAX_CALLS:]
        if calls or self._told_calls:
            self._messages.publish(CallsUnderWay(calls))
        self._told_calls = calls


def _describe(exchange: Exchange, clock: Callable[[], float]) -> CallUnderWay:
    return msgspec.convert(show_begun(exchange, clock), CallUnderWay)
