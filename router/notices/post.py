"""One POST of JSON to one address. Loaded with the first message: most routers send none."""

import ipaddress
import socket
import urllib.error
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any
from urllib.parse import SplitResult, urlsplit

from router.loop.daemons import start_daemon

TRY_SECONDS = 10.0
"""How long a try takes at most, from the look-up of the name to the head of the answer."""
_HERE = ("127.0.0.1", "localhost", "::1")


class PrivateAddress(OSError):
    """A name led to an address in a private network, or on this machine, and nothing was sent there."""


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """One address is configured, and no other is sent to."""

    def redirect_request(self, *_: object) -> None:
        return None


class _Try:
    """One try to send. When it is abandoned, it ends at once, and sends nothing more."""

    def __init__(self, *, only_public: bool) -> None:
        self.only_public, self.is_abandoned = only_public, False
        self._connection: HTTPConnection | None = None

    def connect(self, kind: "type[_Connection]", host: str, **given: Any) -> HTTPConnection:
        connection = kind(host, **given)
        connection.try_, self._connection = self, connection
        return connection

    def abandon(self) -> None:
        self.is_abandoned = True
        sock = self._connection.sock if self._connection is not None else None
        if sock is not None:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)


class _Connection(HTTPConnection):
    try_: _Try

    def connect(self) -> None:
        """Connect, and look at whom to, before anything is sent: a name may have meant another address a moment ago."""
        super().connect()
        if self.try_.only_public and not _is_public(self.sock.getpeername()[0]):
            self.close()
            raise PrivateAddress("the address is private")

    def send(self, data: Any) -> None:
        if self.sock is None:
            self.connect()
        if self.try_.is_abandoned:
            self.close()
            raise TimeoutError
        super().send(data)


class _TlsConnection(HTTPSConnection, _Connection):
    """A checked connection with TLS, which begins after the check."""


class _Http(urllib.request.HTTPHandler):
    def __init__(self, one_try: _Try) -> None:
        super().__init__()
        self._connect: Any = partial(one_try.connect, _Connection)

    def http_open(self, req: urllib.request.Request) -> HTTPResponse:
        return self.do_open(self._connect, req)


class _Https(urllib.request.HTTPSHandler):
    def __init__(self, one_try: _Try) -> None:
        super().__init__()
        self._connect: Any = partial(one_try.connect, _TlsConnection)

    def https_open(self, req: urllib.request.Request) -> HTTPResponse:
        return self.do_open(self._connect, req)


def post_json(
    address: str,
    body: bytes,
    more: Mapping[str, str] | None = None,
    *,
    allow_private: bool = True,
    within_seconds: float = TRY_SECONDS,
) -> int:
    """Send JSON to an address, through the proxy that targets are reached by. Returns the status of the answer.

    Raises `OSError` where there is no answer in time, and for a private address that is not allowed. Where a proxy is used, it
    alone knows what a name means. The time is for all of it: a receiver that sends a byte now and then has no more than others.
    """
    headers = {"content-type": "application/json", "user-agent": "tandem", **(more or {})}
    request = urllib.request.Request(address, body, headers)  # noqa: S310  the config's check allows http and https alone
    one_try = _Try(only_public=not allow_private and not _has_proxy(urlsplit(address)))
    sending = start_daemon("webhook", _send, request, one_try, within_seconds)
    try:
        return sending.result(within_seconds)
    finally:
        if not sending.done():  # nobody can interrupt the look-up of a name; its thread ends with that
            one_try.abandon()


def _send(request: urllib.request.Request, one_try: _Try, within_seconds: float) -> int:
    handlers: list[Any] = [_NoRedirects, _Http(one_try), _Https(one_try)]
    if urlsplit(request.full_url).hostname in _HERE:
        handlers.append(urllib.request.ProxyHandler({}))
    try:
        with urllib.request.build_opener(*handlers).open(request, timeout=within_seconds) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code
    except HTTPException as error:
        raise OSError(type(error).__name__) from None


def _is_public(address: str) -> bool:
    return ipaddress.ip_address(address.partition("%")[0]).is_global


def _has_proxy(parts: SplitResult) -> bool:
    host = parts.hostname or ""
    return host not in _HERE and parts.scheme in urllib.request.getproxies() and not urllib.request.proxy_bypass(host)
