"""How an answer travels: an adapter pushes its head and then its bytes into a sink; pause and resume come back."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple, Protocol, runtime_checkable
from urllib.parse import urlencode

from msgspec import Struct
from pydantic import BaseModel, ConfigDict

from router.contract.block import Block
from router.contract.caller import SessionKey
from router.contract.errors import CallerKey, TandemError
from router.contract.request import RequestView
from router.contract.secret import UPSTREAM_KEY, Secret, looks_like_key, read_callers_key
from router.contract.target import Speed, Target, Timeouts
from router.contract.words import Dialect

Headers = tuple[tuple[str, str], ...]


class Flow(Protocol):
    """The hand of the one who pushes: a sink whose reader is slow pauses it, and resumes it later."""

    def pause(self) -> None: ...
    def resume(self) -> None: ...


class Sink(Protocol):
    """Takes one answer: `start` once, `write` any number of times, then `end` or `fail` once. Nothing blocks."""

    def feed_from(self, flow: Flow) -> None:
        """Say who pushes. Called before `start`, and again if another attempt takes over."""
        ...

    def start(self, status: int, headers: Headers) -> None:
        """Take the head. Header names are lower case."""
        ...

    def write(self, data: bytes) -> None:
        """Take bytes of the body, in order."""
        ...

    def end(self) -> None:
        """The body is whole."""
        ...

    def fail(self, error: TandemError) -> None:
        """The answer ends here, and not well."""
        ...


class UpstreamCall(Flow, Protocol):
    """One call under way."""

    def cancel(self) -> None:
        """Hang up now. The sink hears nothing more."""
        ...


class Tls(Block, frozen=True, cache_hash=True):
    """How a target's TLS differs from the machine's default."""

    ca_file: str | None = None
    """A PEM file of certificate authorities to trust. Relative to the config file."""
    client_cert: str | None = None
    """A client certificate and its key in one PEM file, for a target that requires one."""


class UpstreamRequest(Struct, frozen=True):
    """What goes over the wire to a target. `target` is its name, for errors. Prints without its headers: they hold a key."""

    target: str
    method: str
    url: str
    headers: Headers
    body: bytes
    timeouts: Timeouts
    waits_for_first_byte: bool = True
    tls: Tls | None = None
    over_websocket: bool = False
    """Whether requests of a session go over a WebSocket of its own, where the target takes one."""

    def __repr__(self) -> str:
        return f"UpstreamRequest({self.target!r})"


class Used(NamedTuple):
    """A target of the current plan that is called at an address of ours to dial."""

    target: str
    base_url: str
    tls: Tls | None


class PreparedRequest(Protocol):
    """What is the same for many requests, ready to be sent: the address is looked up, and the head is written."""

    def open(self, body: bytes, sink: Sink, headers: Headers = (), session: SessionKey | None = None) -> UpstreamCall:
        """Start a call with this body and, after the headers that are prepared, these.

        Only where requests go over WebSockets is the session asked for: each has one of its own.
        """
        ...


class Upstream(Protocol):
    """The pooled client that adapters are given."""

    def open(self, request: UpstreamRequest, sink: Sink) -> UpstreamCall:
        """Start a call. Its answer, or the way it failed, is pushed into the sink."""
        ...

    def prepare(self, request: UpstreamRequest) -> PreparedRequest:
        """Make a request ready to be sent any number of times. Its own body is not used: each call brings one."""
        ...

    def connect_ahead(self, request: UpstreamRequest) -> None:
        """Open a connection in the background for requests like this one, unless one is idle. Nobody hears of a failure."""
        ...

    def keep_only(self, used: Iterable[Used]) -> None:
        """Close idle connections to all other addresses, and those at work there once their calls end."""
        ...

    async def close(self) -> None:
        """Drop every connection."""
        ...


class RouteRequest(Struct, frozen=True):
    """A request for another of a target's routes than a create call. Prints without its headers: they may hold a key."""

    method: str
    path: str
    """Below the target's address, with its query."""
    headers: Headers
    body: bytes
    callers: Mapping[str, str] = {}
    """All headers that the caller sent. None goes along, but the key may be among them."""
    timeouts: Timeouts | None = None
    """How long it may take, where that is not what the target's other calls may."""

    def below(self, base_url: str, target: Target, headers: Headers, endpoint: "Endpoint") -> UpstreamRequest:
        """The request to a target at this address, with these headers after its own, and with what the config adds to all."""
        url, timeouts = endpoint.locate(base_url + self.path), self.timeouts or target.timeouts
        more, tls = (*self.headers, *headers, *endpoint.extra_headers), endpoint.tls
        return UpstreamRequest(target.name, self.method, url, more, self.body, timeouts, self.timeouts is not None, tls)

    def __repr__(self) -> str:
        return f"RouteRequest({self.method} {self.path.partition('?')[0]!r})"


class OutgoingRequest(Struct, frozen=True):
    """A request as a target is to see it: in a dialect that it speaks, with its own model name.

    `view` is the caller's request, which may be in another dialect than `body`.
    """

    view: RequestView
    target: Target
    dialect: Dialect
    body: bytes
    prompt_tokens: int
    session: SessionKey | None = None
    """The session that it belongs to, where its target keeps one open. None for what a client asks on the side."""
    asks_usage: bool = False
    """Whether `body` asks for usage that the caller did not ask for: it is taken out of the answer."""
    trace: Headers = ()
    """By which the target's own spans join the request's trace. Only adapters of an endpoint that `is_traced` look for it."""


@dataclass(frozen=True, slots=True)
class ExtraField:
    """A header, or a query parameter, that goes with every request to a target. Prints without its value."""

    name: str
    text: str = field(repr=False)
    """Its value; with a secret, what comes before that: `Bearer `."""
    secret: Secret | None = None

    def reveal(self) -> str:
        """The whole value, for the moment at which it is written."""
        return self.text if self.secret is None else self.text + self.secret.reveal()


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a target is and what opens it. `base_url` is empty for an adapter that needs no address."""

    model: str
    base_url: str = ""
    api_key: Secret | None = None
    tls: Tls | None = None
    over_websocket: bool = False
    headers: tuple[ExtraField, ...] = ()
    query: tuple[ExtraField, ...] = ()
    is_traced: bool = False
    """Whether requests may bring headers of a trace."""

    @property
    def extra_headers(self) -> Headers:
        """The headers that the config adds to every request."""
        return tuple((extra.name, extra.reveal()) for extra in self.headers)

    def locate(self, url: str) -> str:
        """An address below this endpoint's, with the query that the config adds to every request."""
        if not self.query:
            return url
        added = urlencode([(extra.name, extra.reveal()) for extra in self.query])
        return f"{url}{'&' if '?' in url else '?'}{added}"

    @property
    def secrets(self) -> tuple[Secret, ...]:
        """What must never be shown: its key, and everything else it is sent that comes from a variable or looks like a key."""
        extra = (*self.headers, *self.query)
        named = [field.secret for field in extra if field.secret is not None]
        literal = [Secret(field.text.split()[-1]) for field in extra if field.secret is None and looks_like_key(field.text)]
        return (*(() if self.api_key is None else (self.api_key,)), *named, *literal)

    @property
    def takes_callers_key(self) -> bool:
        """Whether each request brings its own key, which can never be prepared."""
        return self.api_key is not None and self.api_key.is_callers

    @property
    def own_key(self) -> str:
        """The target's own key; empty where it has none, or takes the caller's."""
        return self.api_key.reveal() if self.api_key is not None else ""

    def key_for(self, request: OutgoingRequest) -> str:
        """The key for one request: the target's own or, where the config says so, the caller's. Empty for no key.

        Raises `CallerKey` when the caller was to bring one and did not.
        """
        return self.key_from(request.target, request.view.headers, request.view.dialect)

    def key_from(self, target: Target, headers: Mapping[str, str], dialect: Dialect) -> str:
        """The same by the headers that the caller sent."""
        if self.api_key is None:
            return ""
        if not self.api_key.is_callers:
            return self.api_key.reveal()
        key = read_callers_key(headers, dialect)
        if not key:
            raise CallerKey(
                f'target "{target.name}" needs your own API key, and the request has none. '
                f"Send {UPSTREAM_KEY}: KEY or, if this router itself asks for no key, "
                "authorization: Bearer KEY or x-api-key: KEY"
            )
        return key


class AdapterSettings(BaseModel):
    """What only one adapter knows: the `options:` of a target's block. An adapter without options keeps this one."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def typical_speed(self) -> Speed | None:
        """The target's usual speed, where the options themselves set it. None: the tier's, until it is measured."""
        return None


class Adapter(Protocol):
    """One way to reach models, built once for each target. It never decides, retries, logs or reads files.

    An adapter names this class as its base. What it declares here is all that the config, the docs and the conformance
    suite know of it.
    """

    name: ClassVar[str]
    speaks: ClassVar[frozenset[Dialect]]
    """The dialects that it can carry. A target's `dialect` narrows them to one, except where it answers in all itself."""
    Settings: ClassVar[type[AdapterSettings]] = AdapterSettings
    """Its options, checked before it is built."""
    needs_address: ClassVar[bool] = True
    """Whether a target must have a `base_url`."""
    is_model: ClassVar[bool] = True
    """Whether a real model answers, at some address. Only of such are facts looked up, and only such can be unreachable."""
    relays_bytes: ClassVar[bool] = True
    """Whether bodies and answers pass byte for byte. One that goes through a library or answers itself cannot promise that."""
    has_sockets: ClassVar[bool] = False
    """Whether `upstream_transport: websocket` is possible, for a dialect that has such."""
    key_header: ClassVar[str] = "authorization"
    """The header in which a target's own key is sent."""
    own_headers: ClassVar[frozenset[str]] = frozenset()
    """Headers that it writes itself, which `headers:` of a target cannot set."""
    takes_extra: ClassVar[frozenset[str]] = frozenset()
    """Which of a target's `headers` and `query` it sends (`Endpoint.extra_headers`, `Endpoint.locate`). Others are refused."""
    library: ClassVar[str] = ""
    """What must be installed for it, and the extra of the same name that brings it. Empty when the router itself dials."""

    def __init__(self, endpoint: Endpoint, settings: AdapterSettings, upstream: Upstream) -> None: ...

    @classmethod
    def list_models(cls, endpoint: Endpoint, timeouts: Timeouts) -> UpstreamRequest | None:
        """The request that asks for the models of an endpoint; None where there is nobody to ask."""
        return None

    @classmethod
    def caches_when_asked(cls, model: str) -> bool:
        """Whether a model keeps the prompt only up to a `cache_control`, and this adapter brings one there from any dialect."""
        return False

    def open(self, request: OutgoingRequest, sink: Sink) -> UpstreamCall:
        """Start a call, in the target's dialect. Only a key that the caller was to bring, and did not, may raise."""
        ...


@runtime_checkable
class Warmable(Protocol):
    """An adapter with something costly to load. It is called once the router serves, and loads in the background."""

    def warm(self) -> None: ...


@runtime_checkable
class Dialing(Protocol):
    """An adapter that dials its target itself, and may do so before anybody asks."""

    def connect_ahead(self, target: Target) -> None:
        """Have a connection ready, in the background."""
        ...


@runtime_checkable
class Routed(Protocol):
    """An adapter whose target has an address, below which it may be asked for anything."""

    def open_route(self, target: Target, request: RouteRequest, sink: Sink) -> UpstreamCall:
        """Start a call with the target's key, or the caller's own where the target takes that; only its absence raises."""
        ...
