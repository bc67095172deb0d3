"""Admission, one sequence for every way in: what a request must pass before it takes a slot, and how it is then served."""

import asyncio
import time
from collections.abc import Callable, Mapping
from enum import Enum

from router.contract.caller import LOCAL, Caller
from router.contract.errors import (
    Forbidden,
    InternalFault,
    NotFound,
    TandemError,
    Unauthorized,
    Unavailable,
    UpgradeRequired,
    WrongMethod,
)
from router.contract.exchange import Arrival, Exchange
from router.contract.keys import CREDENTIALS, Key, read_token, split_key
from router.contract.limits import Limits
from router.contract.sinks import AnswerSink
from router.contract.stores import ResponseStore
from router.contract.words import PassedRoute
from router.dialects.refusals import refuse_to
from router.dialects.table import SPECS
from router.edge.callers import identify, know_by
from router.edge.logins import PAGE_HEADER, Logins
from router.edge.routes import Head, Route, check_body_headers, check_origin, headers_too_large, is_link, too_large
from router.edge.wrong_keys import WrongKeys
from router.house import House
from router.loop.tasks import spawn
from router.telemetry import events

_SHEDDING_SECONDS = 5
"""When to come back while memory is short: it is looked at twice a second, and given back every five."""
_FOR_LOGINS = "/tandem/"
"""What a login is good for. Everything else needs the key itself."""
_PASSED_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")


class Slot(Enum):
    """What an admitted request holds until it is released."""

    REQUEST = "request"
    """One of the requests that may be in flight: for a request whose body is read."""
    SOCKET = "socket"
    """One of the WebSockets that may be open."""


REQUEST, SOCKET = Slot.REQUEST, Slot.SOCKET


class Admission:
    """Checks requests, counts those in flight, and starts each as an exchange of its own."""

    __slots__ = (
        "_gathering",
        "_house",
        "_start",
        "_wrong_keys",
        "in_flight",
        "logins",
        "sockets",
        "speedups",
        "take_slot",
    )

    take_slot: Callable[[Limits], None]
    """Hold one of the slots, until it is released. Raises `Unavailable` when there is none."""

    def __init__(self, house: House) -> None:
        self.take_slot = self._take_slot
        self._house, self.speedups = house, house.state.speedups
        self._gathering = self.speedups.gathering
        self._start = self.speedups.start
        self._wrong_keys, self.logins = WrongKeys(), Logins()
        self.in_flight = 0
        self.sockets = 0

    @property
    def limits(self) -> Limits:
        return self._house.plan.limits

    @property
    def responses(self) -> ResponseStore:
        return self._house.state.responses

    def admit(self, head: Head, takes: Slot | None = REQUEST) -> Caller:
        """Let a request in, and return who sends it. What it takes is held until it is released.

        Raises a `TandemError` for the first thing that is wrong. A new guard (a rate, a drain) is a line here.
        """
        plan = self._house.plan
        limits = plan.limits
        if head.count > limits.max_headers or head.size > limits.max_header_bytes:
            raise headers_too_large(head.count, limits)
        if not head.is_checked:
            check_head(head, takes, any_host=plan.keys is not None)
        # Where no keys are taken there is one caller, and no request pays for the question.
        caller = LOCAL
        if plan.tells_callers_apart:
            caller = identify(plan, head, head.headers)
            if plan.turn_away is not None and takes is REQUEST and head.route is not None:
                plan.turn_away(caller)
        if takes is REQUEST:
            if head.length > limits.max_body_bytes:
                raise too_large(limits)
            self.take_slot(limits)
        elif takes is SOCKET:
            self._take_socket(limits)
        return caller

    def recognise(self, head: Head) -> None:
        """See whose browser asks for a page, by its login, before the request is admitted. A key that comes along counts more.

        Raises `Forbidden` for a write that only another site's form would send in this way.
        """
        keys, cookies = self._house.plan.keys, head.headers.get("cookie")
        if keys is None or cookies is None or not head.path.startswith(_FOR_LOGINS) or read_token(head.headers):
            return
        key = self.logins.find(cookies, keys, time.time())
        if key is None:
            return
        if head.method not in ("GET", "HEAD") and head.headers.get(PAGE_HEADER) != "1":
            raise Forbidden(f"with a login, {head.method[:10]} needs the header {PAGE_HEADER}: 1")
        head.token, head.headers = "", {name: value for name, value in head.headers.items() if name not in CREDENTIALS}
        know_by(key, keys, head)

    def find_key(self, token: str, peer: object) -> Key:
        """The key that somebody logs in with. Raises what any request with a wrong key is answered.

        Raises `NotFound` where no key is needed.
        """
        keys = self._house.plan.keys
        if keys is None:
            raise NotFound("this router needs no key, so there is no login")
        try:
            return keys.find(token, time.time())
        except Unauthorized:
            raise self._refuse_key(token, peer) from None

    def identify(self, head: Head, headers: dict[str, str]) -> Caller:
        """Who sends a later request on a connection that began with this head. Raises `Unauthorized`.

        Where keys are needed, the request has the key of its connection: one that it brings itself is taken out of its headers.
        """
        plan = self._house.plan
        if plan.keys is not None:
            for name in CREDENTIALS:
                headers.pop(name, None)
        try:
            return identify(plan, head, headers)
        except Unauthorized:
            self._report_wrong_key(head.token)
            raise

    def refuse(self, error: TandemError, head: Head | None, peer: object) -> TandemError:
        """What to answer to a request that was not admitted: too many wrong keys from one address are told to wait.

        `peer` is where the connection comes from, as transports and ASGI servers describe it.
        """
        if not isinstance(error, Unauthorized) or head is None:
            return error
        return self._refuse_key(head.token, peer)

    def _refuse_key(self, token: str | None, peer: object) -> TandemError:
        address = str(peer[0]) if isinstance(peer, tuple | list) and peer else ""
        refusal = self._wrong_keys.refuse(address, time.monotonic(), has_key=bool(token))
        if token and isinstance(refusal, Unauthorized):  # a flood is not worth a line for each of its keys
            self._report_wrong_key(token)
        return refusal

    def _report_wrong_key(self, token: str | None) -> None:
        """Log the id of a key that was refused, if it has the form of a key, and why. The rest of it is a secret."""
        found, keys = split_key(token or ""), self._house.plan.keys
        if found is None or token is None or keys is None:
            events.key_refused(key=None, reason="not a key of Tandem")
        else:
            events.key_refused(key=found[0], reason=keys.explain(token))

    def _take_slot(self, limits: Limits) -> None:
        if self.in_flight >= limits.max_in_flight:
            raise Unavailable(f"{self.in_flight} requests are running, which is the limit", retry_after_seconds=1)
        self.in_flight += 1

    def release(self) -> None:
        self.in_flight -= 1

    @property
    def is_shedding(self) -> bool:
        """Whether new requests are refused for want of memory."""
        return self.take_slot == self._refuse_slot

    def shed(self) -> None:
        """Refuse new requests until they are readmitted. The function is swapped so that no request pays for the question."""
        self.take_slot = self._refuse_slot

    def readmit(self) -> None:
        self.take_slot = self._take_slot

    def _refuse_slot(self, limits: Limits) -> None:
        raise Unavailable("the router is short of memory. Try again later", retry_after_seconds=_SHEDDING_SECONDS)

    def _take_socket(self, limits: Limits) -> None:
        """Count a WebSocket as open. Its first request will come soon, for either tier: connections are opened meanwhile."""
        if self.is_shedding:
            self._refuse_slot(limits)
        if self.sockets >= limits.max_sockets:
            raise UpgradeRequired(f"{self.sockets} WebSockets are open, which is the limit. Send the request over HTTP")
        self.sockets += 1
        self._house.plan.dispatcher.connect_ahead()

    def release_socket(self) -> None:
        self.sockets -= 1

    def check_passed(self, route: PassedRoute, head: Head) -> None:
        """Refuse a request for a route that is not decided, by its head alone. Raises a `TandemError`."""
        if route not in self._house.plan.pass_through:
            hint = f"Set pass_through: {{{route}: TARGET}} in the router's config to relay such requests"
            raise NotFound(f"{head.path[:100]}: no target is named for {route}. {hint}")
        if head.method not in _PASSED_METHODS:
            allowed = ", ".join(_PASSED_METHODS)
            raise WrongMethod(f"{head.method[:10]} is not allowed here. Use {allowed}", allowed=allowed)
        if head.length > self.limits.max_body_bytes:
            raise too_large(self.limits)

    def start(
        self, arrival: Arrival, sink: AnswerSink, loop: asyncio.AbstractEventLoop | None = None
    ) -> "tuple[Exchange, asyncio.Task[None] | None]":
        """Begin an exchange and the task that serves it, which is None when it is over already. For `loop` see `spawn`."""
        if not self._gathering.count(self.in_flight):
            exchange = self._house.begin(arrival)
            task = self._start(self._serve(exchange, sink), name=arrival.id, loop=loop)
        else:
            # It waits for the next turn of the loop, to take each step together with those that come now (see `Gathering`).
            exchange = self._house.begin(arrival, self._gathering)
            task = spawn(self._serve(exchange, sink), name=arrival.id, loop=loop)
        if task is not None:
            exchange.run_by(task)
        return exchange, task

    async def _serve(self, exchange: Exchange, sink: AnswerSink) -> None:
        """Run the road. A bug of ours becomes a 500 without details, or a cut once an answer has begun."""
        try:
            await self._house.serve(exchange, sink)
        except Exception as error:  # noqa: BLE001  the edge: a defect must not leave the caller without an answer
            arrival = exchange.arrival
            fault = report_fault(error, arrival.id)
            if sink.has_started:
                sink.fail(fault)
            else:
                refuse_to(sink, fault, arrival.dialect, arrival.id)


def check_head(head: Head, takes: Slot | None, *, any_host: bool) -> None:
    """Refuse a request by what its head says. A head need not be checked twice: `any_host` is fixed at the start."""
    headers, route = head.headers, head.route
    check_origin(headers, head.hosts, head.origins, any_host=any_host, is_link=route is None and is_link(head))
    if route is not None and takes is not SOCKET:
        check_method(head.method, headers, route)
    if takes is REQUEST:
        check_body_headers(headers, head.lengths)
    head.is_checked = True


def check_method(method: str, headers: Mapping[str, str], route: Route) -> None:
    """Create calls are posted. A client whose WebSocket cannot be had must learn it at once: it goes on over HTTP."""
    if method == "POST":
        return
    if SPECS[route.dialect].has_socket and headers.get("upgrade", "").lower() == "websocket":
        raise UpgradeRequired("not a valid WebSocket handshake over HTTP/1.1. Send the request over HTTP")
    raise WrongMethod(f"{method[:10]} is not allowed here. Use POST", allowed="POST")


def report_fault(error: Exception, request_id: str) -> InternalFault:
    """Log a defect by its kind and where in our code it is, never by its values. The caller is told only that there was one."""
    events.fault_caught(request_id=request_id, kind=type(error).__name__, where=events.place_of(error))
    return InternalFault("Tandem had an internal error")
