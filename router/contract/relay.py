"""How an answer travels: an adapter pushes head and bytes into a sink, which may pause it."""

import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple, Protocol, runtime_checkable
from urllib.parse import urlencode, urlsplit

from msgspec import Struct
from pydantic import BaseModel, ConfigDict

from router.contract.block import Block
from router.contract.caller import SessionKey
from router.contract.credential import Credential, credential_for, say_mismatch
from router.contract.errors import CallerKey, TandemError
from router.contract.request import RequestView
from router.contract.secret import ROUTER_KEY, UPSTREAM_KEY, Secret, looks_like_key
from router.contract.target import Speed, Target, Timeouts
from router.contract.words import Dialect, Vendor

Headers = tuple[tuple[str, str], ...]
HEALTH_PATH, MODELS_PATH = "/health", "/models"
"""Routes below an address that ask no model."""
_LOCAL_ENDINGS = (".local", ".lan", ".internal", ".home.arpa")


class Flow(Protocol):
    """Backpressure: a sink with a slow reader pauses its source."""

    def pause(self) -> None: ...
    def resume(self) -> None: ...


class Sink(Protocol):
    """Takes one answer: `start` once, `write` any number of times, then `end` or `fail` once. Nothing blocks."""

    def feed_from(self, flow: Flow) -> None:
        """Called before `start`, and again if another attempt takes over."""
        ...

    def start(self, status: int, headers: Headers) -> None:
        """Header names are lower case."""
        ...

    def write(self, data: bytes) -> None: ...

    def end(self) -> None: ...

    def fail(self, error: TandemError) -> None: ...


class UpstreamCall(Flow, Protocol):
    def cancel(self) -> None:
        """Hang up. The sink gets nothing more."""
        ...


class Tls(Block, frozen=True, cache_hash=True):
    """How a target's TLS differs from the machine's default."""

    ca_file: str | None = None
    """PEM file of authorities to trust."""
    client_cert: str | None = None
    """PEM file with certificate and key."""


class UpstreamRequest(Struct, frozen=True):
    """A request on the wire; `target` is a name for errors. Prints without its headers: they hold a key."""

    target: str
    method: str
    url: str
    headers: Headers
    body: bytes
    timeouts: Timeouts
    waits_for_first_byte: bool = True
    tls: Tls | None = None
    over_websocket: bool = False
    """Whether each session gets its own WebSocket, where the target takes one."""
    names_tandem: bool = True
    """Whether the user agent is Tandem. With False, each call's headers name their client."""

    def __repr__(self) -> str:
        return f"UpstreamRequest({self.target!r})"


class Used(NamedTuple):
    target: str
    base_url: str
    tls: Tls | None


class PreparedRequest(Protocol):
    """The common part of many requests: address looked up, head written."""

    def open(self, body: bytes, sink: Sink, headers: Headers = (), session: SessionKey | None = None) -> UpstreamCall:
        """Start a call; `headers` follow the prepared ones. Only WebSockets use the session: each has one of its own."""
        ...


class Upstream(Protocol):
    def open(self, request: UpstreamRequest, sink: Sink) -> UpstreamCall: ...

    def prepare(self, request: UpstreamRequest) -> PreparedRequest:
        """Prepare many calls. Each brings its own body."""
        ...

    def connect_ahead(self, request: UpstreamRequest) -> None:
        """Open a connection in the background, unless one is idle. Failures are silent."""
        ...

    def keep_only(self, used: Iterable[Used]) -> None:
        """Close connections to other addresses, busy ones after their calls."""
        ...

    async def close(self) -> None: ...


class RouteRequest(Struct, frozen=True):
    """A request other than a create call. Prints without its headers: they may hold a key."""

    method: str
    path: str
    """Path below the target's address, with its query."""
    headers: Headers
    body: bytes
    callers: Mapping[str, str] = {}
    """The caller's headers: not passed on, but the key may be among them."""
    timeouts: Timeouts | None = None
    """Instead of the target's own."""

    def below(self, base_url: str, target: Target, headers: Headers, endpoint: "Endpoint") -> UpstreamRequest:
        """These headers and the config's follow its own."""
        url, timeouts = endpoint.locate(base_url + self.path), self.timeouts or target.timeouts
        more, tls = (*self.headers, *headers, *endpoint.extra_headers), endpoint.tls
        return UpstreamRequest(target.name, self.method, url, more, self.body, timeouts, self.timeouts is not None, tls)

    def __repr__(self) -> str:
        return f"RouteRequest({self.method} {self.path.partition('?')[0]!r})"


class OutgoingRequest(Struct, frozen=True):
    """A request in its target's dialect and model name. `view` is the caller's."""

    view: RequestView
    target: Target
    dialect: Dialect
    body: bytes
    prompt_tokens: int
    session: SessionKey | None = None
    """The session, if its target keeps one open; None for side requests."""
    asks_usage: bool = False
    """Whether `body` asks for usage that the caller did not want: it is removed from the answer."""
    trace: Headers = ()
    """Trace headers, read only by adapters of an endpoint that `is_traced`."""


@dataclass(frozen=True, slots=True)
class ExtraField:
    """A header or query parameter for every request to a target. Prints without its value."""

    name: str
    text: str = field(repr=False)
    """The value or, with a secret, what precedes it: `Bearer `."""
    secret: Secret | None = None

    def reveal(self) -> str:
        return self.text if self.secret is None else self.text + self.secret.reveal()


class Endpoint(Struct, frozen=True):
    """A target's address and credentials. `base_url` is empty for adapters that need none."""

    model: str
    base_url: str = ""
    api_key: Secret | None = None
    tls: Tls | None = None
    over_websocket: bool = False
    headers: tuple[ExtraField, ...] = ()
    query: tuple[ExtraField, ...] = ()
    is_traced: bool = False

    @property
    def extra_headers(self) -> Headers:
        return tuple((extra.name, extra.reveal()) for extra in self.headers)

    def locate(self, url: str) -> str:
        """Add the configured query."""
        if not self.query:
            return url
        added = urlencode([(extra.name, extra.reveal()) for extra in self.query])
        return f"{url}{'&' if '?' in url else '?'}{added}"

    @property
    def secrets(self) -> tuple[Secret, ...]:
        """What must never be shown: the key, and extra values from variables or that look like keys."""
        extra = (*self.headers, *self.query)
        named = [field.secret for field in extra if field.secret is not None]
        literal = [Secret(field.text.split()[-1]) for field in extra if field.secret is None and looks_like_key(field.text)]
        return (*(() if self.api_key is None else (self.api_key,)), *named, *literal)

    @property
    def health_path(self) -> str:
        """The route that shows whether a local engine is up; empty for other hosts, and where only callers have its key.

        A gateway's `/health` may ask every model that it has, at a price, but not the one below `/v1`.
        """
        if self.takes_callers_key or not is_local(urlsplit(self.base_url).hostname or ""):
            return ""
        return HEALTH_PATH if self.base_url.rstrip("/").endswith("/v1") else MODELS_PATH

    @property
    def takes_callers_key(self) -> bool:
        """Whether each request brings its own key, so that none can be prepared."""
        return self.api_key is not None and self.api_key.is_callers

    @property
    def own_key(self) -> str:
        return self.api_key.reveal() if self.api_key is not None else ""

    def key_for(self, request: OutgoingRequest) -> str:
        """The target's key or, if configured, the caller's; empty for none. Raises `CallerKey` if that is missing."""
        return self.key_from(request.target, request.view.headers, request.view.dialect)

    def key_from(self, target: Target, headers: Mapping[str, str], dialect: Dialect) -> str:
        if self.api_key is None:
            return ""
        if not self.api_key.is_callers:
            return self.api_key.reveal()
        return self.credential_from(target, headers, dialect).text

    def credential_from(self, target: Target, headers: Mapping[str, str], dialect: Dialect) -> Credential:
        """The caller's own credential for this target. Raises `CallerKey` if there is none."""
        credential = credential_for(target, headers, dialect)
        if credential is None:
            if mismatch := say_mismatch(target, headers, dialect):
                raise CallerKey(mismatch)
            raise CallerKey(
                f'target "{target.name}" needs your own API key, and the request has none. '
                f"Send {UPSTREAM_KEY}: KEY or, if this router itself asks for no key or has it in {ROUTER_KEY}, "
                "authorization: Bearer KEY or x-api-key: KEY"
            )
        return credential


def is_local(host: str) -> bool:
    """Whether a host is this machine or one next to it, by its address or name."""
    try:
        return not ipaddress.ip_address(host).is_global
    except ValueError:
        return (bool(host) and "." not in host.rstrip(".")) or host.rstrip(".").endswith(_LOCAL_ENDINGS)


class AdapterSettings(BaseModel):
    """The `options:` of a target's block."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def typical_speed(self) -> Speed | None:
        """The speed that the options set; None: the tier's, until it is measured."""
        return None


class Adapter(Protocol):
    """One way to reach models, built once for each target. It never decides, retries, logs or reads files."""

    name: ClassVar[str]
    speaks: ClassVar[frozenset[Dialect]]
    """Dialects. A target's `dialect` narrows them to one, unless the adapter answers in all itself."""
    Settings: ClassVar[type[AdapterSettings]] = AdapterSettings
    needs_address: ClassVar[bool] = True
    is_model: ClassVar[bool] = True
    """Whether a real model answers: only then are facts looked up, and can it be unreachable."""
    relays_bytes: ClassVar[bool] = True
    """Whether bodies and answers pass byte for byte, which libraries and own answers cannot promise."""
    has_sockets: ClassVar[bool] = False
    """Whether `upstream_transport: websocket` is possible."""
    key_header: ClassVar[str] = "authorization"
    vendor: ClassVar[Vendor | None] = None
    """Whose API it speaks: the vendor of callers' keys at an address of this machine or network."""
    plans_of: ClassVar[Vendor | None] = None
    """Whose plans it reaches with callers' logins (`billing: plan`)."""
    own_headers: ClassVar[frozenset[str]] = frozenset()
    """Headers that the adapter writes: `headers:` of a target cannot set them."""
    takes_extra: ClassVar[frozenset[str]] = frozenset()
    """Which of a target's `headers` and `query` it sends; others are refused."""
    library: ClassVar[str] = ""
    """The library that it needs, also the name of the extra. Empty when the router dials."""

    def __init__(self, endpoint: Endpoint, settings: AdapterSettings, upstream: Upstream) -> None: ...

    @classmethod
    def list_models(cls, endpoint: Endpoint, timeouts: Timeouts) -> UpstreamRequest | None:
        """The request for an endpoint's list of models, if there is one."""
        return None

    @classmethod
    def caches_when_asked(cls, model: str) -> bool:
        """Whether a model caches only up to a `cache_control`, which this adapter adds."""
        return False

    def open(self, request: OutgoingRequest, sink: Sink) -> UpstreamCall:
        """Start a call. Only a missing key of the caller may raise."""
        ...


@runtime_checkable
class Warmable(Protocol):
    """An adapter with something costly to load, in the background once the router serves."""

    def warm(self) -> None: ...


@runtime_checkable
class Dialing(Protocol):
    """An adapter that dials its target itself, also ahead of requests."""

    def connect_ahead(self, target: Target) -> None: ...


@runtime_checkable
class Routed(Protocol):
    """An adapter whose target has other routes below its address."""

    def open_route(self, target: Target, request: RouteRequest, sink: Sink) -> UpstreamCall:
        """Start a call with the target's key or the caller's; only a missing one raises."""
        ...
