"""The head of a request, from bytes or an ASGI scope. llhttp (httptools) is strict about framing and line ends."""

import re
from collections.abc import Iterable, MutableMapping
from functools import lru_cache
from itertools import repeat
from typing import Any, TypeVar

import httptools
from msgspec import Struct
from msgspec.structs import replace

from router.contract.errors import BadRequest
from router.dialects.as_sent import QUERY
from router.edge.routes import ROUTES, Head, read_length

AnyHead = TypeVar("AnyHead", bound=Head)
INVALID = "the request is not valid HTTP/1.1. Check its header lines, its lengths and its line ends (CR LF)"

_MAX_REMEMBERED_BYTES = 8_192
_LISTS = {
    "anthropic-beta": ",",
    "openai-beta": ",",
    "idempotency-key": "\n",
    "content-encoding": ", ",
    "authorization": ", ",
    "x-api-key": ", ",
    "x-tandem-key": ", ",
}
"""Headers joined if repeated. Two keys become one that is never valid."""
_CODED = frozenset({"transfer-encoding", "content-encoding"})
_LENGTH = rb"[1-9][0-9]{0,18}"
_is_length = re.compile(_LENGTH).fullmatch
_split_at_length = re.compile(rb"(.*\r\ncontent-length:[ \t]*)" + _LENGTH + rb"(\r\n.*)", re.IGNORECASE | re.DOTALL).fullmatch


@lru_cache(maxsize=512)
def header_name(raw: bytes) -> str:
    """A header's name in lower case, cached."""
    return raw.decode("latin-1").lower()


class RequestHead(Head, eq=False):
    version: str = ""
    keeps_alive: bool = False
    reads_chunks: bool = False
    """HTTP/1.0 has no chunks, and is served one request per connection here."""
    is_plain: bool = False
    """HTTP/1 with a body by length, neither in chunks nor compressed."""


class _Lines(Struct):
    """Collects what llhttp finds."""

    url: bytes = b""
    fields: list[bytes] = []
    """Name, value, name, value, …"""

    def on_url(self, url: bytes) -> None:
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self.fields += name, value


def parse_head(raw: bytes) -> RequestHead:
    """Parse exactly one head. Raises `BadRequest`."""
    lines = _Lines()
    parser = httptools.HttpRequestParser(lines)
    try:
        parser.feed_data(raw)
    except httptools.HttpParserUpgrade:
        pass
    except httptools.HttpParserError as error:
        raise BadRequest(INVALID) from error
    if b"#" in lines.url:
        raise BadRequest("the request target must be a path")
    path, _, query = lines.url.decode("latin-1").partition("?")
    head = _read_fields(RequestHead, parser.get_method().decode("latin-1"), path, lines.fields, len(raw))
    if query:
        head.headers = {**head.headers, QUERY: query}
    version = head.version = parser.get_http_version()
    is_new = head.reads_chunks = version != "1.0"
    head.keeps_alive = is_new and parser.should_keep_alive()
    if not head.length and head.headers.get("connection", "").lower() == "close":
        head.keeps_alive = False  # the parser forgets this at the end of a message, which here is the head's
    head.is_plain = version in ("1.0", "1.1") and _CODED.isdisjoint(head.headers)
    return head


def read_scope(scope: MutableMapping[str, Any]) -> Head:
    fields = [part for pair in scope["headers"] for part in pair]
    target = len(scope["raw_path"]) + len(scope["query_string"]) + bool(scope["query_string"])
    around = len(f"{scope['method']}  HTTP/1.1\r\n\r\n") + len(": \r\n") * len(scope["headers"])
    head = _read_fields(Head, scope["method"], scope["path"], fields, target + around + sum(map(len, fields)))
    if scope["query_string"]:
        head.headers = {**head.headers, QUERY: scope["query_string"].decode("latin-1")}
    return head


def _read_fields(kind: type[AnyHead], method: str, path: str, fields: list[bytes], size: int) -> AnyHead:
    """`fields` alternates names and values."""
    names = list(map(header_name, fields[::2]))
    headers = dict(zip(names, map(str, fields[1::2], repeat("latin-1")), strict=True))
    if len(headers) < len(names) and not _LISTS.keys().isdisjoint(headers):
        headers |= _join_lists(zip(names, fields[1::2], strict=True))
    lengths = names.count("content-length")
    length = read_length(headers["content-length"]) or 0 if lengths == 1 else 0
    return kind(
        method, path, ROUTES.get(path), headers, len(names), size, names.count("host"), names.count("origin"), lengths, length
    )


def _join_lists(fields: Iterable[tuple[str, bytes]]) -> dict[str, str]:
    joined: dict[str, str] = {}
    for name, raw in fields:
        if name in _LISTS:
            value = raw.decode("latin-1")
            joined[name] = f"{joined[name]}{_LISTS[name]}{value}" if name in joined else value
    return joined


class HeadReader:
    """Reads the heads of one connection, parsing only what changed.

    Most clients repeat their head with another content-length. The bytes around the last one's digits are kept: a head with the
    same bytes around other digits is a copy of it.
    """

    __slots__ = ("_after", "_before", "_last")

    def __init__(self) -> None:
        self._before = self._after = b""
        self._last: RequestHead

    def read(self, raw: bytes) -> RequestHead:
        """Read exactly one head. Raises `BadRequest`."""
        digits = raw.removeprefix(self._before).removesuffix(self._after)
        if not _is_length(digits):
            return self._parse(raw)
        length, last = digits.decode(), self._last
        return replace(last, headers={**last.headers, "content-length": length}, length=int(length), size=len(raw))

    def _parse(self, raw: bytes) -> RequestHead:
        head = parse_head(raw)
        around = _split_at_length(raw)
        # A length of 0 is not cached: `parse_head` reads `connection` differently then.
        if around is not None and head.size <= _MAX_REMEMBERED_BYTES:
            self._before, self._after = around.groups()
            self._last = head
        return head
