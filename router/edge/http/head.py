"""The head of one request: what admission looks at, from bytes or from an ASGI scope.

Bytes are read with llhttp (through httptools), which is strict about framing and line ends.
"""

from collections.abc import Mapping, MutableMapping
from functools import lru_cache
from typing import Any, Protocol

import httptools

from router.contract.errors import BadRequest

_MAX_DIGITS = 19
INVALID = "the request is not valid HTTP/1.1. Check its header lines, its lengths and its line ends (CR LF)"


@lru_cache(maxsize=512)
def header_name(raw: bytes) -> str:
    """A header's name in lower case. The same few names come with every request."""
    return raw.decode("latin-1").lower()


def is_plain_number(value: str) -> bool:
    """Digits, and no more of them than any length has."""
    return value.isascii() and value.isdigit() and len(value) <= _MAX_DIGITS


class Head(Protocol):
    """What every way in knows of a request before its body. Names are lower case; a repeated header keeps its last value."""

    @property
    def method(self) -> str: ...
    @property
    def path(self) -> str: ...
    @property
    def headers(self) -> Mapping[str, str]: ...
    @property
    def count(self) -> int:
        """How many headers there are."""
        ...

    @property
    def size(self) -> int:
        """Bytes, with the request line and every line end."""
        ...

    @property
    def hosts(self) -> int:
        """How many of the headers are `host`."""
        ...

    @property
    def lengths(self) -> int:
        """How many of the headers are `content-length`."""
        ...


class RequestHead:
    """A head that was read from bytes."""

    __slots__ = (
        "_repeated",
        "_url",
        "count",
        "headers",
        "hosts",
        "keeps_alive",
        "length",
        "lengths",
        "method",
        "path",
        "size",
        "version",
    )

    def __init__(self, raw: bytes) -> None:
        self._url = b""
        self._repeated: list[str] = []
        self.headers: dict[str, str] = {}
        self.size = len(raw)
        parser = httptools.HttpRequestParser(self)
        try:
            parser.feed_data(raw)
        except httptools.HttpParserUpgrade:
            pass
        except httptools.HttpParserError as error:
            raise BadRequest(INVALID) from error
        headers, repeated = self.headers, self._repeated
        self.count = len(headers) + len(repeated)
        self.hosts = ("host" in headers) + repeated.count("host")
        self.lengths = ("content-length" in headers) + repeated.count("content-length")
        self.method: str = parser.get_method().decode("latin-1")
        self.version: str = parser.get_http_version()
        self.path = self._url.partition(b"?")[0].decode("latin-1")
        value = headers.get("content-length", "")
        self.length = int(value) if self.lengths == 1 and is_plain_number(value) else None
        """The body's length, if the request states one that is plain and only one."""
        self.keeps_alive: bool = parser.should_keep_alive()
        if not self.length and headers.get("connection", "").lower() == "close":
            self.keeps_alive = False  # with the end of the message, which this head is, the parser forgets it

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        key, headers = header_name(name), self.headers
        if key in headers:
            self._repeated.append(key)
        headers[key] = value.decode("latin-1")


class ScopeHead:
    """A head that an ASGI server has read."""

    __slots__ = ("count", "headers", "hosts", "lengths", "method", "path", "size")

    def __init__(self, scope: MutableMapping[str, Any]) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.headers: dict[str, str] = {}
        self.count = self.hosts = self.lengths = 0
        target = len(scope["raw_path"]) + len(scope["query_string"]) + bool(scope["query_string"])
        self.size = len(f"{self.method}  HTTP/1.1\r\n\r\n") + target
        for raw, value in scope["headers"]:
            name = header_name(raw)
            self.count += 1
            self.size += len(raw) + len(value) + len(": \r\n")
            self.hosts += name == "host"
            self.lengths += name == "content-length"
            self.headers[name] = value.decode("latin-1")
