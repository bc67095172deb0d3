"""Requests to a running router. Only a router of the same user gets the key that it made for local commands.

A router with HTTPS is identified by the certificate that it noted at its start: its name often differs from the local address,
and it may be self-signed.
"""

import contextlib
import http.client
import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any
from urllib.parse import urlsplit

from router.cli import Ended
from router.cli.common import command_name
from router.cli.routers import Router, find_at
from router.contract.request import JsonObject

_HERE = ("127.0.0.1", "localhost", "::1")
_OWN_ID = "x-tandem-request-id"
_NO_ROUTE = "no route "
_NOT_TANDEM = "what answers there is not a Tandem router"
WHOSE_KEY = "name it with --key-env, or run this as the user who started the router"
MAY_PASS = (408, 425, 429, 500, 502, 503, 504)
"""Statuses after which a retry may succeed."""


class Refused(Exception):
    def __init__(self, status: int, message: str, told: JsonObject | None = None) -> None:
        """`told` is the whole answer."""
        super().__init__(message)
        self.status, self.told = status, told or {}

    @property
    def may_pass(self) -> bool:
        return self.status in MAY_PASS


class Unreachable(Exception):
    """No router answers."""


def ask(
    url: str,
    path: str,
    body: bytes | None = None,
    *,
    within_seconds: float,
    key: str = "",
    more: Mapping[str, str] | None = None,
) -> Any:
    """Send a request as `urllib.request.urlopen` does. `key` replaces the router's own key for this user."""
    router = find_at(url)
    base = (router.url if router is not None else url).rstrip("/").removesuffix("/v1")
    sent = key or (router.key if router is not None else "")
    request = urllib.request.Request(f"{base}{path}", body, dict(more or {}))  # noqa: S310  callers have checked the scheme
    if body is not None:
        request.add_header("content-type", "application/json")
    if sent:
        request.add_unredirected_header("authorization", f"Bearer {sent}")
    return _opener(router, base).open(request, timeout=within_seconds)


def ask_object(url: str, path: str, body: bytes | None = None, **given: Any) -> JsonObject:
    """As `ask`, but returns the answer. Raises `Refused` and `Unreachable`."""
    with explained_errors(), ask(url, path, body, **given) as answer:
        told = parse_object(answer.read())
    if told is None:
        raise Unreachable(f"{_NOT_TANDEM} (no JSON object)")
    return told


def parse_object(data: bytes) -> JsonObject | None:
    try:
        told: Any = json.loads(data)
    except ValueError:
        return None
    return told if isinstance(told, dict) else None


@contextlib.contextmanager
def explained_errors() -> Iterator[None]:
    """Turns the errors of `urllib` into `Refused` and `Unreachable`."""
    try:
        yield
    except urllib.error.HTTPError as error:
        with error:
            raise _read_refusal(error) from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise Unreachable(str(getattr(error, "reason", None) or error) or type(error).__name__) from error


def explain_refusal(url: str, error: Refused | Unreachable) -> Ended:
    if isinstance(error, Unreachable):
        hint = f"{command_name()} serve starts one; --url names one elsewhere"
        return Ended(1, f"no router answers at {url}: {error}\n  hint: {hint}")
    if error.status == 401:
        return Ended(1, f"the router at {url} needs a key, or does not accept this one (401)\n  hint: {WHOSE_KEY}")
    if error.status == 404 and str(error).startswith(_NO_ROUTE):
        hint = "run this version there, or this command on its machine, without --url"
        return Ended(1, f"the router at {url} is an older version, which cannot be asked for this\n  hint: {hint}")
    return Ended(1, f"the router at {url} refused: {error}")


def _read_refusal(error: urllib.error.HTTPError) -> Exception:
    if error.headers.get(_OWN_ID) is None:
        return Unreachable(f"{_NOT_TANDEM} (status {error.code})")
    try:
        told = parse_object(error.read()) or {}
    except (OSError, http.client.HTTPException):
        told = {}
    why = told.get("error")
    message = str(why["message"]) if isinstance(why, dict) and "message" in why else f"status {error.code}"
    return Refused(error.code, message, told)


def _opener(router: Router | None, base: str) -> urllib.request.OpenerDirector:
    """Local routers are asked without a proxy, and this user's by certificate."""
    handlers: list[Any] = [_NoRedirects]
    if router is not None or urlsplit(base).hostname in _HERE:
        handlers.append(urllib.request.ProxyHandler({}))
    if router is not None and router.certificate:
        handlers.append(_PinnedHandler(router.certificate))
    return urllib.request.build_opener(*handlers)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Routers never redirect: anything that does must not see a key."""

    def redirect_request(self, *_: object) -> None:
        return None


class _PinnedHandler(urllib.request.HTTPSHandler):
    def __init__(self, certificate: str) -> None:
        super().__init__()
        self._certificate = certificate

    def https_open(self, request: urllib.request.Request) -> http.client.HTTPResponse:
        certificate = self._certificate

        def connect(host: str, **given: Any) -> _PinnedConnection:
            return _PinnedConnection(host, certificate, **given)

        return self.do_open(connect, request)


class _PinnedConnection(http.client.HTTPSConnection):
    """Fails before sending anything unless the peer has this certificate."""

    def __init__(self, host: str, certificate: str, **given: Any) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # the digest below decides
        super().__init__(host, context=context, **given)
        self._certificate = certificate

    def connect(self) -> None:
        super().connect()
        shown = self.sock.getpeercert(binary_form=True)
        if sha256(shown or b"").hexdigest() != self._certificate:
            self.close()
            raise ssl.SSLCertVerificationError("it shows another certificate than the router that was started there")
