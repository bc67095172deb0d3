"""The routes of create calls, and checks of request headers."""

import math
import os
import re
import time
from collections.abc import Container, Mapping
from functools import lru_cache
from urllib.parse import unquote

from msgspec import Struct

from router.contract.caller import LOCAL, Caller
from router.contract.errors import BadRequest, BodyTooLarge, Forbidden, HeadersTooLarge, WrongMediaType
from router.contract.keys import KeyRing
from router.contract.limits import Limits
from router.contract.relay import RouteRequest
from router.contract.words import DEFAULT_DIALECT, Dialect, Operation, PassedRoute
from router.dialects.table import SPECS


class Route(Struct, frozen=True):
    dialect: Dialect
    operation: Operation = Operation.CREATE


class Head(Struct, eq=False):
    """The parts of a request known before its body. A repeated header keeps its last value; a list header, all."""

    method: str
    path: str
    route: Route | None
    headers: Mapping[str, str]
    count: int
    size: int
    """Bytes, with the request line and every line end."""
    hosts: int
    """Number of `host` headers; then of `origin` and `content-length`."""
    origins: int
    lengths: int
    length: int
    """0 if not stated, repeated, or not a plain number."""
    is_checked: bool = False
    """Whether admission has checked it. Only limits are checked again."""
    token: str | None = None
    """The caller's key, taken out of the headers; None until read."""
    key: str | None = None
    ring: KeyRing | None = None
    """The ring that knew the key: not looked up again until it changes or the key expires."""
    caller: Caller = LOCAL
    expires_at: float = math.inf


ROUTES: Mapping[str, Route] = {
    prefix + path: Route(dialect, operation)
    for dialect, spec in SPECS.items()
    for operation, path in spec.paths.items()
    for prefix in ("/v1", "")
}
"""By path. Some clients take `/v1` for part of the base URL and leave it out."""
SOCKET_PATHS = tuple(
    path for path, route in ROUTES.items() if route.operation is Operation.CREATE and SPECS[route.dialect].has_socket
)
EXPLAIN = "/tandem/explain"
"""The one control route whose body is that of a create call."""
METRICS = "/metrics"
"""The one control route with a key of its own."""
LOGIN, LOGOUT = "/tandem/login", "/tandem/logout"
OPEN_PATHS = frozenset({"/", "/healthz", "/readyz", "/api/hello", LOGIN, LOGOUT})
"""Pages open without a key: probes, clients' first checks, login and logout."""
OPEN_FOLDER = "/page/"
"""The page's static files, which include the login form."""
PATHS_WITH_BODY = frozenset({*ROUTES, EXPLAIN})
ENCODINGS = ("zstd", "gzip")
"""How the bodies of these may be compressed."""

_PASSED = re.compile(rf"(?:/v1)?(/({'|'.join(PassedRoute)})(?:/.*)?)", re.DOTALL).fullmatch
_PASSED_HEADERS = frozenset(
    """
    accept content-type content-encoding range if-none-match if-match if-modified-since idempotency-key openai-beta
    x-client-request-id
    """.split()
)
"""Caller headers that are passed on. All others, credentials above all, stay here."""
_MAX_REMEMBERED = 64
_PLAIN_NUMBER = re.compile(r"[0-9]{1,19}").fullmatch
_NO_HOST = re.compile(r"[^\w.:\[\]-]")
_LOOPBACK_HOST = re.compile(r"^(localhost|127(?:\.\d{1,3}){3}|\[::1\])(:\d{1,5})?$", re.IGNORECASE)


_unused_noise: list[str] = []


def new_request_id() -> str:
    """A request id: ordered by time, and unguessable. Randomness is read in batches."""
    if not _unused_noise:
        page = os.urandom(4096).hex()
        _unused_noise.extend(page[start : start + 16] for start in range(0, len(page), 16))
    return f"req_{int(time.time() * 1000):011x}{_unused_noise.pop()}"


_OWN_HEADERS = {spec.own_header: dialect for dialect, spec in SPECS.items() if spec.own_header is not None}


def dialect_of_path(path: str, headers: Container[str] = ()) -> Dialect:
    """The dialect for a refusal: the route's, else that of the caller's SDK."""
    route = ROUTES.get(path)
    if route is not None:
        return route.dialect
    for name, dialect in _OWN_HEADERS.items():
        if name in headers:
            return dialect
    return next((route.dialect for start, route in ROUTES.items() if path.startswith(start)), DEFAULT_DIALECT)


def read_passed(path: str) -> PassedRoute | None:
    found = _PASSED(path)
    return PassedRoute(found[2]) if found is not None else None


def write_passed(method: str, raw_path: bytes, query: bytes, headers: Mapping[str, str], body: bytes) -> RouteRequest:
    """The part of a request to relay. Raises `BadRequest` for a path that leaves its route."""
    target = raw_path.decode("latin-1")
    # Servers differ in how often they decode a path, and some drop what follows a semicolon in a segment.
    found, parts = _PASSED(target), [part.partition(";")[0] for part in re.split(r"[/\\]", unquote(unquote(target)))]
    if found is None or not target.isascii() or not {".", ".."}.isdisjoint(parts):
        raise BadRequest("the path must be ASCII, without . or .. as segments")
    rest = f"{found[1]}?{query.decode('latin-1')}" if query else found[1]
    passed = tuple((name, value) for name, value in headers.items() if name in _PASSED_HEADERS)
    return RouteRequest(method, rest, passed, body, headers)


def check_origin(
    headers: Mapping[str, str], hosts: int, origins: int = 0, *, any_host: bool = False, is_link: bool = False
) -> None:
    """Refuse requests of other web pages: any page can reach loopback, but must send its Origin.

    Without keys only loopback names are accepted; with keys (`any_host`) any name. A link to the live page (`is_link`) may be
    followed from anywhere.
    """
    if hosts != 1:
        raise BadRequest("the Host header is missing or repeated")
    if origins > 1:
        raise BadRequest("the Origin header is repeated")
    site = "none" if is_link else headers.get("sec-fetch-site", "none")
    _check_origin(headers.get("host", ""), headers.get("origin"), site, any_host)


@lru_cache(maxsize=_MAX_REMEMBERED)
def _check_origin(host: str, origin: str | None, site: str, any_host: bool) -> None:
    """Caches what is accepted; refusals raise, and are not cached."""
    if not host:
        raise BadRequest("the Host header is missing or repeated")
    if _NO_HOST.search(host):
        raise BadRequest("the Host header is invalid")
    if not any_host and not _LOOPBACK_HOST.match(host):
        raise Forbidden("this router answers to loopback names only (localhost, 127.0.0.1, [::1])")
    if origin is not None and origin not in (f"http://{host}", f"https://{host}"):
        raise Forbidden("requests from other web pages are refused")
    if site not in ("none", "same-origin"):
        raise Forbidden("requests from other web pages are refused")


def is_link(head: Head) -> bool:
    """Whether a browser opens the live page itself."""
    if (head.method, head.path) != ("GET", "/"):
        return False
    return (head.headers.get("sec-fetch-mode"), head.headers.get("sec-fetch-dest")) == ("navigate", "document")


def headers_too_large(count: int, limits: Limits) -> HeadersTooLarge:
    if count > limits.max_headers:
        return HeadersTooLarge(f"{count} headers; the limit is {limits.max_headers}")
    return HeadersTooLarge(f"the headers are over the limit of {limits.max_header_bytes} bytes")


@lru_cache(maxsize=_MAX_REMEMBERED)
def read_length(value: str) -> int | None:
    """The number in a content-length: digits only, at most 19."""
    return int(value) if _PLAIN_NUMBER(value) else None


def check_body_headers(headers: Mapping[str, str], lengths: int, encodings: tuple[str, ...] = ()) -> None:
    """`lengths` counts the content-length headers. `encodings` are those in which the body may be compressed."""
    _check_media_type(headers.get("content-type", "application/json"), headers.get("content-encoding", ""), encodings)
    if lengths and (lengths > 1 or read_length(headers["content-length"]) is None):
        raise BadRequest("content-length: must be one plain number")


@lru_cache(maxsize=_MAX_REMEMBERED)
def _check_media_type(value: str, encoding: str, encodings: tuple[str, ...]) -> None:
    kind, _, parameters = value.lower().partition(";")
    if kind.strip() != "application/json" and not kind.strip().endswith("+json"):
        raise WrongMediaType(f'content-type: "{kind.strip()[:60]}" is not supported. Send application/json')
    charset = re.search(r'charset\s*=\s*"?([\w-]+)', parameters)
    if charset and charset.group(1) not in ("utf-8", "utf8", "us-ascii"):
        raise WrongMediaType(f'content-type: charset "{charset.group(1)[:40]}" is not supported. Send UTF-8')
    if encoding.lower() not in ("identity", "", *encodings):
        known = f"as {' or '.join(encodings)}, or uncompressed" if encodings else "uncompressed"
        raise WrongMediaType(f'content-encoding: "{encoding[:40]}" is not supported here. Send the body {known}')


def too_large(limits: Limits) -> BodyTooLarge:
    return BodyTooLarge(f"the body is over the limit of {limits.max_body_bytes} bytes")
