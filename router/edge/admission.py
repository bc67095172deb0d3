"""Admission: the checks before a request takes a slot, and the start of its exchange."""

import asyncio
import time
from collections.abc import Callable, Mapping
from enum import Enum

from router.contract.caller import LOCAL, Caller
from router.contract.errors import (
    Forbidden,
    InternalFault,
    NotFound,
    RateLimited,
    TandemError,
    Unauthorized,
    Unavailable,
    UpgradeRequired,
    WrongMethod,
)
from router.contract.exchange import Arrival, Exchange
from router.contract.keys import CREDENTIALS, Key, read_token, split_key
from router.contract.lasting import Lasting
from router.contract.limits import Limits
from router.contract.secret import ROUTER_KEY
from router.contract.share import Holdings, has_room
from router.contract.sinks import AnswerSink
from router.contract.stores import ResponseStore
from router.contract.words import PassedRoute
from router.dialects.refusals import refuse_to
from router.dialects.table import SPECS
from router.edge.callers import identify, know_by
from router.edge.logins import PAGE_HEADER, Logins
from router.edge.routes import (
    ENCODINGS,
    Head,
    Route,
    check_body_headers,
    check_origin,
    dialect_of_path,
    headers_too_large,
    is_link,
    too_large,
)
from router.edge.wrong_keys import RefusedLogins, WrongKeys
from router.house import House
from router.loop.tasks import spawn
from router.telemetry import events

_SHEDDING_SECONDS = 5
"""Memory is measured twice a second and given back every five."""
_FOR_LOGINS = "/tandem/"
"""The paths that a login opens. All others need the key itself."""
_SHARE = "which is your share of what all callers may have (limits.share)"
_PASSED_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")


class Slot(Enum):
    REQUEST = "request"
    """For a request whose body is read."""
    SOCKET = "socket"


REQUEST, SOCKET = Slot.REQUEST, Slot.SOCKET


class Admission:
    __slots__ = (
        "_gathering",
        "_held",
        "_held_sockets",
        "_house",
        "_start",
        "_wrong_keys",
        "in_flight",
        "logins",
        "refused_logins",
        "sockets",
        "speedups",
        "take_slot",
    )

    take_slot: Callable[[Limits, Caller], None]
    """Take a slot. Raises `Unavailable` when all are taken, `RateLimited` when the caller has its share."""

    def __init__(self, house: House) -> None:
        self.take_slot = self._take_slot
        self._house, self.speedups = house, house.state.speedups
        self._gathering = self.speedups.gathering
        self._start = self.speedups.start
        self._wrong_keys, self.logins, self.refused_logins = WrongKeys(), Logins(), RefusedLogins()
        self.in_flight = 0
        self.sockets = 0
        self._held: dict[Caller, int] = {}
        """The slots of callers with a key. A plain dict: a request pays for it."""
        self._held_sockets = Holdings()

    @property
    def limits(self) -> Limits:
        return self._house.plan.limits

    @property
    def lasting(self) -> Lasting:
        return self._house.state.lasting

    @property
    def responses(self) -> ResponseStore:
        return self._house.state.responses

    def admit(self, head: Head, takes: Slot | None = REQUEST) -> Caller:
        """Let a request in and return its caller. Raises a `TandemError` for the first check that fails."""
        plan = self._house.plan
        limits = plan.limits
        if head.count > limits.max_headers or head.size > limits.max_header_bytes:
            raise headers_too_large(head.count, limits)
        if not head.is_checked:
            check_head(head, takes, any_host=plan.keys is not None)
        # Without keys there is one caller, and requests skip the lookup.
        caller = LOCAL
        if plan.takes_callers_keys or plan.keys is not None:
            caller = identify(plan, head, head.headers)
            if plan.caller_limits.has_rates and takes is REQUEST and head.route is not None:
                plan.caller_limits.check(caller)
        if takes is REQUEST:
            if head.length > limits.max_body_bytes:
                raise too_large(limits)
            self.take_slot(limits, caller)
        elif takes is SOCKET:
            self.refused_logins.check(head.headers, dialect_of_path(head.path), time.monotonic())
            self._take_socket(limits, caller)
        return caller

    def recognise(self, head: Head) -> None:
        """Identify a browser by its login cookie, before admission. A key in the headers wins.

        Raises `Forbidden` for a write without the page's header, as another site's form would send it.
        """
        keys, cookies = self._house.plan.keys, head.headers.get("cookie")
        if keys is None or cookies is None or not head.path.startswith(_FOR_LOGINS) or read_token(head.headers):
            return
        key = self.logins.find(cookies, keys, time.time())
        if key is None:
            return
        if head.method not in ("GET", "HEAD") and head.headers.get(PAGE_HEADER) != "1":
            raise Forbidden(f"with a login, {head.method[:10]} needs the header {PAGE_HEADER}: 1")
        head.token, head.headers = "", keys.clean(head.headers)
        know_by(key, keys, head)

    def find_key(self, token: str, peer: object) -> Key:
        """The key given at a login. Raises `Unauthorized` or `RateLimited`; `NotFound` where keys are not used."""
        keys = self._house.plan.keys
        if keys is None:
            raise NotFound("this router needs no key, so there is no login")
        try:
            return keys.find(token, time.time())
        except Unauthorized:
            raise self._refuse_key(token, peer) from None

    def identify(self, head: Head, headers: dict[str, str]) -> Caller:
        """The caller of a later request on a connection, by the connection's own key. Raises `Unauthorized`.

        With keys, `headers` keep the credentials of the connection and no others.
        """
        plan = self._house.plan
        try:
            caller = identify(plan, head, headers)
        except Unauthorized:
            self._report_wrong_key(head.token)
            raise
        if plan.keys is not None:
            for name in (ROUTER_KEY, *CREDENTIALS):
                if (own := head.headers.get(name)) is None:
                    headers.pop(name, None)
                else:
                    headers[name] = own
        return caller

    def refuse(self, error: TandemError, head: Head | None, peer: object) -> TandemError:
        """The error for a request that was not admitted: 429 after too many wrong keys from one address."""
        if not isinstance(error, Unauthorized) or head is None:
            return error
        return self._refuse_key(head.token, peer)

    def _refuse_key(self, token: str | None, peer: object) -> TandemError:
        address = str(peer[0]) if isinstance(peer, tuple | list) and peer else ""
        refusal = self._wrong_keys.refuse(address, time.monotonic(), has_key=bool(token))
        if token and isinstance(refusal, Unauthorized):  # a flood of wrong keys is not logged key by key
            self._report_wrong_key(token)
        return refusal

    def _report_wrong_key(self, token: str | None) -> None:
        """Log the reason and the key's id; the rest of it is secret."""
        found, keys = split_key(token or ""), self._house.plan.keys
        if found is None or token is None or keys is None:
            events.key_refused(key=None, reason="not a key of Tandem")
        else:
            events.key_refused(key=found[0], reason=keys.explain(token))

    def _take_slot(self, limits: Limits, caller: Caller) -> None:
        taken = self.in_flight
        if caller is not LOCAL:
            if taken + taken >= limits.max_in_flight:  # with fewer, nobody can have its share
                self._check_share(limits, caller)
            if caller in self._held:
                self._held[caller] += 1
            else:
                self._held[caller] = 1
        elif taken >= limits.max_in_flight:  # the router's own user, and without keys the only caller
            raise self._full()
        self.in_flight = taken + 1

    def _check_share(self, limits: Limits, caller: Caller) -> None:
        if self.in_flight >= limits.max_in_flight:
            raise self._full()
        own = self._held.get(caller, 0)
        if not has_room(own, self.in_flight, limits.max_in_flight, limits.share):
            raise RateLimited(f"{own} of your requests are running, {_SHARE}", retry_after_seconds=1)

    def _full(self) -> Unavailable:
        return Unavailable(f"{self.in_flight} requests are running, which is the limit", retry_after_seconds=1)

    def release(self, caller: Caller) -> None:
        self.in_flight -= 1
        if caller is not LOCAL:
            if self._held[caller] == 1:
                del self._held[caller]
            else:
                self._held[caller] -= 1

    @property
    def is_shedding(self) -> bool:
        return self.take_slot == self._refuse_slot

    def shed(self) -> None:
        """Refuse new requests until `readmit`. Swapping the function costs requests nothing."""
        self.take_slot = self._refuse_slot

    def readmit(self) -> None:
        self.take_slot = self._take_slot

    def _refuse_slot(self, limits: Limits, caller: Caller) -> None:
        raise Unavailable("the router is short of memory. Try again later", retry_after_seconds=_SHEDDING_SECONDS)

    def _take_socket(self, limits: Limits, caller: Caller) -> None:
        """Count an open WebSocket, and connect to both tiers ahead of its first request."""
        if self.is_shedding:
            self._refuse_slot(limits, caller)
        if self.sockets >= limits.max_sockets:
            raise UpgradeRequired(f"{self.sockets} WebSockets are open, which is the limit. Send the request over HTTP")
        if caller is not LOCAL:
            own = self._held_sockets.of(caller)
            if not has_room(own, self.sockets, limits.max_sockets, limits.share):
                raise UpgradeRequired(f"{own} of your WebSockets are open, {_SHARE}. Send the request over HTTP")
            self._held_sockets.add(caller, 1)
        self.sockets += 1
        self._house.plan.dispatcher.connect_ahead()

    def release_socket(self, caller: Caller) -> None:
        self.sockets -= 1
        if caller is not LOCAL:
            self._held_sockets.add(caller, -1)

    def check_passed(self, route: PassedRoute, head: Head) -> None:
        """Check the head of a passed-through request. Raises a `TandemError`."""
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
        """Begin an exchange and the task that serves it; None if it is over already. For `loop` see `spawn`."""
        if not self._gathering.count(self.in_flight):
            exchange = self._house.begin(arrival)
            task = self._start(self._serve(exchange, sink), name=arrival.id, loop=loop)
        else:
            # Start on the loop's next turn, to share each step with requests that arrive now (see `Gathering`).
            exchange = self._house.begin(arrival, self._gathering)
            task = spawn(self._serve(exchange, sink), name=arrival.id, loop=loop)
        if task is not None:
            exchange.run_by(task)
        return exchange, task

    async def _serve(self, exchange: Exchange, sink: AnswerSink) -> None:
        """Serve the exchange. A defect becomes a bare 500, or a cut if an answer has begun."""
        try:
            await self._house.road(exchange, sink)
        except Exception as error:  # noqa: BLE001  the edge: a defect must not leave the caller without an answer
            arrival = exchange.arrival
            fault = report_fault(error, arrival.id)
            if sink.has_started:
                sink.fail(fault)
            else:
                refuse_to(sink, fault, arrival.dialect, arrival.id)


def check_head(head: Head, takes: Slot | None, *, any_host: bool) -> None:
    """Check a head once; it is not checked again, since `any_host` is fixed at the start."""
    headers, route = head.headers, head.route
    check_origin(headers, head.hosts, head.origins, any_host=any_host, is_link=route is None and is_link(head))
    if route is not None and takes is not SOCKET:
        check_method(head.method, headers, route)
    if takes is REQUEST:
        check_body_headers(headers, head.lengths, ENCODINGS)
    head.is_checked = True


def check_method(method: str, headers: Mapping[str, str], route: Route) -> None:
    """Only POST makes a create call. A failed WebSocket handshake gets 426, on which clients fall back to HTTP."""
    if method == "POST":
        return
    if SPECS[route.dialect].has_socket and headers.get("upgrade", "").lower() == "websocket":
        raise UpgradeRequired("not a valid WebSocket handshake over HTTP/1.1. Send the request over HTTP")
    raise WrongMethod(f"{method[:10]} is not allowed here. Use POST", allowed="POST")


def report_fault(error: Exception, request_id: str) -> InternalFault:
    """Log a defect by kind and place, never by its values. The caller gets no details."""
    events.fault_caught(request_id=request_id, kind=type(error).__name__, where=events.place_of(error))
    return InternalFault("Tandem had an internal error")
