"""The head of one request, read with llhttp (through httptools), which is strict about framing and line ends."""

from functools import lru_cache

import httptools

from router.contract.errors import BadRequest

_MAX_DIGITS = 19


@lru_cache(maxsize=512)
def header_name(raw: bytes) -> str:
    """A header's name in lower case. The same few names come with every request."""
    return raw.decode("latin-1").lower()


def is_plain_number(value: str) -> bool:
    """Digits, and no more of them than any length has."""
    return value.isascii() and value.isdigit() and len(value) <= _MAX_DIGITS


class RequestHead:
    """Path and headers of a request. Names are lower case; a repeated header keeps its last value."""

    __slots__ = ("_url", "count", "headers", "hosts", "keeps_alive", "length", "lengths", "path", "size", "version")

    def __init__(self, raw: bytes) -> None:
        self._url = b""
        self.headers: dict[str, str] = {}
        self.count = self.hosts = self.lengths = 0
        self.size = len(raw)
        parser = httptools.HttpRequestParser(self)
        try:
            parser.feed_data(raw)
        except httptools.HttpParserUpgrade:
            pass
        except httptools.HttpParserError as error:
            raise BadRequest("the request is not valid HTTP/1.1") from error
        self.version: str = parser.get_http_version()
        self.keeps_alive: bool = parser.should_keep_alive()
        self.path = self._url.partition(b"?")[0].decode("latin-1")
        value = self.headers.get("content-length", "")
        self.length = int(value) if self.lengths == 1 and is_plain_number(value) else None
        """The body's length, if the request states one that is plain and only one."""

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        key = header_name(name)
        self.count += 1
        if key == "host":
            self.hosts += 1
        elif key == "content-length":
            self.lengths += 1
        self.headers[key] = value.decode("latin-1")
