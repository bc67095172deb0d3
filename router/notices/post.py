"""One POST of JSON to one address. Loaded with the first message: most routers send none."""

import urllib.error
import urllib.request
from http.client import HTTPException
from typing import Any
from urllib.parse import urlsplit

_TRY_SECONDS = 10.0
_HERE = ("127.0.0.1", "localhost", "::1")


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """One address is configured, and no other is sent to."""

    def redirect_request(self, *_: object) -> None:
        return None


def post_json(address: str, body: bytes) -> int:
    """Send JSON to an address, through the proxy that targets are reached by. Returns the status of the answer.

    Raises `OSError` where there is no answer.
    """
    handlers: list[Any] = [_NoRedirects]
    if urlsplit(address).hostname in _HERE:
        handlers.append(urllib.request.ProxyHandler({}))
    headers = {"content-type": "application/json", "user-agent": "tandem"}
    request = urllib.request.Request(address, body, headers)  # noqa: S310  the config's check allows http and https alone
    try:
        with urllib.request.build_opener(*handlers).open(request, timeout=_TRY_SECONDS) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code
    except HTTPException as error:
        raise OSError(type(error).__name__) from None
