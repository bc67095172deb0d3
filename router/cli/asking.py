"""Asking a running router. To one of the same user, a command brings the key that this router made for it, and nowhere else.

A router that serves HTTPS is known by the very certificate that it noted when it started: its name is often another than the
address on this machine, and no authority need have signed it.
"""

import http.client
import ssl
import urllib.request
from collections.abc import Mapping
from hashlib import sha256
from typing import Any
from urllib.parse import urlsplit

from router.cli.routers import Router, find_at

_HERE = ("127.0.0.1", "localhost", "::1")


def ask(
    url: str,
    path: str,
    body: bytes | None = None,
    *,
    within_seconds: float,
    key: str = "",
    more: Mapping[str, str] | None = None,
) -> Any:
    """Send a request to the router at an address; the answer is as `urllib.request.urlopen` has it, and so are the errors.

    `key` is sent instead of the router's own for this user, and `more` are headers.
    """
    router = find_at(url)
    base = (router.url if router is not None else url).rstrip("/").removesuffix("/v1")
    sent = key or (router.key if router is not None else "")
    request = urllib.request.Request(f"{base}{path}", body, dict(more or {}))  # noqa: S310  callers have checked the scheme
    if body is not None:
        request.add_header("content-type", "application/json")
    if sent:
        request.add_unredirected_header("authorization", f"Bearer {sent}")
    return _opener(router, base).open(request, timeout=within_seconds)


def _opener(router: Router | None, base: str) -> urllib.request.OpenerDirector:
    """On this machine a proxy would only be in the way. A router of this user is known by its certificate."""
    handlers: list[Any] = [_NoRedirects]
    if router is not None or urlsplit(base).hostname in _HERE:
        handlers.append(urllib.request.ProxyHandler({}))
    if router is not None and router.certificate:
        handlers.append(_PinnedHandler(router.certificate))
    return urllib.request.build_opener(*handlers)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """No router redirects: whatever does is something else, and where it points must not see a key."""

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
    """Ends before anything is sent unless the other side has this certificate."""

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
