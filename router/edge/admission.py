"""Admission, one sequence for every way in: what a request must pass before it takes a slot, and how it is then served."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Protocol

from router.contract.caller import LOCAL, Caller
from router.contract.errors import InternalFault, NotFound, Unavailable, UpgradeRequired, WrongMethod
from router.contract.exchange import Arrival, Exchange
from router.contract.limits import Limits
from router.contract.request import JsonObject
from router.contract.sinks import AnswerSink
from router.contract.stores import EntryStore, ResponseStore
from router.contract.target import Target
from router.contract.words import Dialect, PassedRoute, Tier
from router.dialects.refusals import refuse_to
from router.dialects.table import SPECS
from router.dispatch.live.statistics import LiveStatistics
from router.edge.callers import identify
from router.edge.http.head import Head
from router.edge.routes import Route, check_body_headers, check_origin, dialect_of_path, headers_too_large, too_large
from router.loop.tasks import spawn, spawn_started
from router.loop.together import Gathering
from router.sense.models import ModelNames
from router.telemetry import events

_PASSED_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")


class Dispatcher(Protocol):
    """Who calls targets."""

    def connect_ahead(self) -> None:
        """Have connections ready, in the background."""
        ...


class Plan(Protocol):
    """What the edge reads of the plan that counts now."""

    @property
    def limits(self) -> Limits: ...
    @property
    def models(self) -> ModelNames: ...
    @property
    def targets(self) -> Mapping[str, Target]: ...
    @property
    def window_of_auto(self) -> Tier: ...
    @property
    def dispatcher(self) -> Dispatcher: ...
    @property
    def takes_callers_keys(self) -> bool: ...
    @property
    def pass_through(self) -> Mapping[PassedRoute, str]: ...


class State(Protocol):
    """What the edge reads of the state that outlives a plan."""

    @property
    def live(self) -> LiveStatistics: ...
    @property
    def entries(self) -> EntryStore: ...
    @property
    def responses(self) -> ResponseStore: ...
    @property
    def gathering(self) -> Gathering: ...


class Road(Protocol):
    """The house, as the edge sees it. `plan` is looked up for each request, so that a new one counts at once."""

    @property
    def plan(self) -> Plan: ...
    @property
    def state(self) -> State: ...
    @property
    def clock(self) -> Callable[[], float]: ...

    def begin(self, arrival: Arrival) -> Exchange:
        """Make an admitted request an exchange, which owns it from now on."""
        ...

    async def serve(self, exchange: Exchange, sink: AnswerSink) -> None:
        """Take the exchange to its last fact."""
        ...

    async def explain(self, arrival: Arrival) -> JsonObject:
        """Decide without calling a target."""
        ...


class Admission:
    """Checks requests, counts those in flight, and starts each as an exchange of its own."""

    __slots__ = ("_road", "in_flight", "sockets")

    def __init__(self, road: Road) -> None:
        self._road = road
        self.in_flight = 0
        self.sockets = 0

    @property
    def limits(self) -> Limits:
        """The limits of the plan that counts now."""
        return self._road.plan.limits

    def admit(self, head: Head) -> Caller:
        """Let a request in, and say who sends it. If it `takes_slot`, it holds one from here on.

        Raises a `TandemError` for the first thing that is wrong. A new guard (a key, a rate, a drain) is a line here.
        """
        plan = self._road.plan
        limits = plan.limits
        if head.count > limits.max_headers or head.size > limits.max_header_bytes:
            raise headers_too_large(head.count, limits)
        if not head.is_checked:
            check_head(head)
        caller = self.identify(head.headers, dialect_of_path(head.path)) if plan.takes_callers_keys else LOCAL
        if head.takes_slot:
            if head.length > limits.max_body_bytes:
                raise too_large(limits)
            self.take_slot()
        return caller

    def identify(self, headers: Mapping[str, str], dialect: Dialect) -> Caller:
        """Who sends a request with these headers."""
        return identify(headers, dialect, by_key=self._road.plan.takes_callers_keys)

    def take_slot(self) -> None:
        """Hold one of the slots, until it is released. Raises `Unavailable` when all are held."""
        if self.in_flight >= self._road.plan.limits.max_in_flight:
            raise Unavailable(f"{self.in_flight} requests are running, which is the limit", retry_after_seconds=1)
        self.in_flight += 1

    def check_passed(self, route: PassedRoute, head: Head) -> None:
        """Refuse a request for a route that is not decided, by its head alone. Raises a `TandemError`."""
        if route not in self._road.plan.pass_through:
            hint = f"Set pass_through: {{{route}: TARGET}} in the router's config to relay such requests"
            raise NotFound(f"{head.path[:100]}: no target is named for {route}. {hint}")
        if head.method not in _PASSED_METHODS:
            allowed = ", ".join(_PASSED_METHODS)
            raise WrongMethod(f"{head.method[:10]} is not allowed here. Use {allowed}", allowed=allowed)
        if head.length > self.limits.max_body_bytes:
            raise too_large(self.limits)

    @property
    def responses(self) -> ResponseStore:
        """The responses that are stored for all."""
        return self._road.state.responses

    def release(self) -> None:
        """Give a slot back."""
        self.in_flight -= 1

    def admit_socket(self, head: Head) -> None:
        """Let a WebSocket in. It counts as open until it is released. Raises a `TandemError`.

        Its first request will come soon, for either tier: their connections are opened meanwhile.
        """
        limits = self._road.plan.limits
        if head.count > limits.max_headers or head.size > limits.max_header_bytes:
            raise headers_too_large(head.count, limits)
        check_origin(head.headers, head.hosts, head.origins)
        if self.sockets >= limits.max_sockets:
            raise UpgradeRequired(f"{self.sockets} WebSockets are open, which is the limit. Send the request over HTTP")
        self.sockets += 1
        self._road.plan.dispatcher.connect_ahead()

    def release_socket(self) -> None:
        """A WebSocket is closed."""
        self.sockets -= 1

    def start(
        self, arrival: Arrival, sink: AnswerSink, loop: asyncio.AbstractEventLoop | None = None
    ) -> "tuple[Exchange, asyncio.Task[None] | None]":
        """Begin an exchange and the task that serves it, which is None when it is over already. For `loop` see `spawn`."""
        exchange = self._road.begin(arrival)
        # Alone, a request waits for no turn of the loop. Among others it does, to take each step together with those that come
        # when it does (see `Gathering`).
        start = spawn_started
        if self.in_flight > 1:
            start = spawn
            self._road.state.gathering.admit(exchange)
        task = start(self._serve(exchange, sink), name=arrival.id, loop=loop)
        if task is not None:
            exchange.run_by(task)
        return exchange, task

    async def _serve(self, exchange: Exchange, sink: AnswerSink) -> None:
        """Run the road. A bug of ours becomes a 500 without details, or a cut once an answer has begun."""
        try:
            await self._road.serve(exchange, sink)
        except Exception as error:  # noqa: BLE001  the edge: a defect must not leave the caller without an answer
            arrival = exchange.arrival
            report_fault(error, arrival.id)
            fault = InternalFault("Tandem had an internal error")
            if sink.has_started:
                sink.fail(fault)
            else:
                refuse_to(sink, fault, arrival.dialect, arrival.id)


def check_head(head: Head) -> None:
    """Refuse a request by what its head says. None of this depends on the plan, so a head need not be checked twice."""
    headers, route = head.headers, head.route
    check_origin(headers, head.hosts, head.origins)
    if route is not None:
        check_method(head.method, headers, route)
    if head.takes_slot:
        check_body_headers(headers, head.lengths)
    head.is_checked = True


def check_method(method: str, headers: Mapping[str, str], route: Route) -> None:
    """Create calls are posted. A client whose WebSocket cannot be had must learn it at once: it goes on over HTTP."""
    if method == "POST":
        return
    if SPECS[route.dialect].has_socket and headers.get("upgrade", "").lower() == "websocket":
        raise UpgradeRequired("this is no handshake of a WebSocket over HTTP/1.1. Send the request over HTTP")
    raise WrongMethod(f"{method[:10]} is not allowed here. Use POST", allowed="POST")


def report_fault(error: Exception, request_id: str) -> None:
    """Log a defect by its kind and its place in our code, never by its values."""
    events.fault_caught(request_id=request_id, kind=type(error).__name__, where=events.place_of(error))
