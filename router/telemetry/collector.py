"""The one who takes traces: OTLP over HTTP, with JSON. Called by a thread, which may be kept waiting."""

import http.client
import ssl
from urllib.parse import urlsplit

import orjson

from router.contract.relay import Headers

_MAX_ANSWER_BYTES = 65_536
_MAX_WAIT_SECONDS = 30.0
_MAY_PASS = frozenset({429, 502, 503, 504})
"""The answers after which a batch may be sent again, as OTLP lists them."""


class NotTaken(Exception):
    """A batch was not taken. The message says why, without an address."""

    def __init__(self, reason: str, *, may_pass: bool, wait_seconds: float = 0.0) -> None:
        super().__init__(reason)
        self.may_pass, self.wait_seconds = may_pass, wait_seconds


class Collector:
    """Sends batches to one address, each over a connection of its own. Follows no redirect and uses no proxy."""

    def __init__(self, endpoint: str, headers: Headers) -> None:
        address = urlsplit(endpoint)
        self._host, self._port = address.hostname or "", address.port or (443 if address.scheme == "https" else 80)
        self._path = f"{address.path.rstrip('/')}/v1/traces"
        self._headers = {"content-type": "application/json", "user-agent": "tandem", **dict(headers), "connection": "close"}
        self._is_tls, self._tls = address.scheme == "https", None  # type: bool, ssl.SSLContext | None

    def post(self, body: bytes, timeout_seconds: float) -> int:
        """Send a batch. Returns how many of its spans the collector rejected; raises `NotTaken` where it took none."""
        connection = None
        try:
            connection = self._connect(timeout_seconds)
            connection.request("POST", self._path, body, self._headers)
            answer = connection.getresponse()
            told = answer.read(_MAX_ANSWER_BYTES)
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise NotTaken(f"the collector cannot be reached: {type(error).__name__}", may_pass=True) from None
        finally:
            if connection is not None:
                connection.close()
        if answer.status // 100 != 2:
            wait = _read_wait(answer.getheader("retry-after", ""))
            raise NotTaken(f"the collector answered {answer.status}", may_pass=answer.status in _MAY_PASS, wait_seconds=wait)
        return _read_rejected(told)

    def _connect(self, timeout_seconds: float) -> http.client.HTTPConnection:
        if not self._is_tls:
            return http.client.HTTPConnection(self._host, self._port, timeout=timeout_seconds)
        if self._tls is None:  # it reads the machine's certificates, which takes milliseconds
            self._tls = ssl.create_default_context()
        return http.client.HTTPSConnection(self._host, self._port, timeout=timeout_seconds, context=self._tls)


def _read_wait(written: str) -> float:
    """The seconds that a collector asks to be left alone. A date, which none sends, counts as no wish."""
    return min(_MAX_WAIT_SECONDS, float(written)) if written.isascii() and written.isdigit() else 0.0


def _read_rejected(answer: bytes) -> int:
    """How many spans a collector rejected of a batch that it took. Most answer nothing, or `{}`."""
    try:
        return max(0, int(orjson.loads(answer)["partialSuccess"]["rejectedSpans"]))
    except (KeyError, TypeError, ValueError):
        return 0
