"""Parses create calls without I/O.

Call `receive_data`, then `read_head` until there is one, then `read_body` until it is whole. Everything else (another route, a
chunked or compressed body) is handed over with all its bytes.
"""

from enum import Enum

from router.contract.errors import BadRequest, HeadersTooLarge
from router.contract.limits import Limits
from router.contract.words import Dialect
from router.edge.http.head import INVALID, HeadReader, RequestHead
from router.edge.routes import ROUTES, SOCKET_PATHS, dialect_of_path

_CREATE_STARTS = tuple(f"POST {path}{end}".encode() for path in ROUTES for end in (" ", "?"))
_SOCKET_STARTS = tuple(f"GET {path}{end}".encode() for path in SOCKET_PATHS for end in (" ", "?"))
_STARTS = _CREATE_STARTS + _SOCKET_STARTS
_LONGEST_START = max(map(len, _STARTS))
_HEAD_END = b"\r\n\r\n"


class HandOver(Enum):
    """These bytes are not a plain create call: pass on `RequestReader.take_buffer`."""

    HAND_OVER = "hand over"
    UPGRADE = "upgrade"
    """A WebSocket handshake on a path that has them."""


HAND_OVER, UPGRADE = HandOver.HAND_OVER, HandOver.UPGRADE


class RequestReader:
    """Reads requests one by one. Later bytes wait in the buffer."""

    __slots__ = ("_body_left", "_buffer", "_heads", "_pieces", "head", "socket_head")

    def __init__(self) -> None:
        self._buffer = b""
        self._heads = HeadReader()
        self.head: RequestHead | None = None
        """The request whose body is being read."""
        self.socket_head: RequestHead | None = None
        """A handshake, whose bytes stay in the buffer."""
        self._pieces: list[bytes | memoryview] = []
        self._body_left = 0

    def receive_data(self, data: bytes) -> None:
        left = self._body_left
        if not left:
            self._buffer = self._buffer + data if self._buffer else data
        elif len(data) <= left:
            self._pieces.append(data)
            self._body_left = left - len(data)
        else:
            self._pieces.append(data[:left])
            self._body_left, self._buffer = 0, data[left:]

    def read_head(self, limits: Limits) -> RequestHead | HandOver | None:
        """The next head; or that it is not ours; or None until more bytes come. Raises `BadRequest` or `HeadersTooLarge`."""
        buffer = self._buffer
        if not buffer.startswith(_STARTS) and (len(buffer) >= _LONGEST_START or not _may_become_ours(buffer)):
            return HAND_OVER
        end = buffer.find(_HEAD_END) + 4
        if end < 4 or end > limits.max_header_bytes:
            _check_partial_head(buffer, limits)
            return None
        head = self._heads.read(buffer[:end])
        if not head.is_plain or head.method != "POST":
            self.socket_head = head
            return UPGRADE if asks_for_socket(head) else HAND_OVER
        self.head = head
        body_end = end + head.length
        if body_end > len(buffer):
            # A view, so that the body is copied only once, when joined.
            self._pieces, self._body_left, self._buffer = [memoryview(buffer)[end:]], body_end - len(buffer), b""
        else:
            self._pieces, self._buffer = [buffer[end:body_end]], buffer[body_end:]
        return head

    def read_body(self) -> bytes | None:
        """The body of the current request; None until complete."""
        if self._body_left:
            return None
        pieces, self._pieces, self.head = self._pieces, [], None
        return b"".join(pieces)

    def take_buffer(self) -> bytes:
        buffer, self._buffer = self._buffer, b""
        return buffer

    @property
    def buffered_bytes(self) -> int:
        """Bytes after the last request, including an incomplete head."""
        return len(self._buffer)

    @property
    def body_bytes(self) -> int:
        return sum(map(len, self._pieces))

    @property
    def expects_continue(self) -> bool:
        head = self.head
        return head is not None and self._body_left > 0 and head.headers.get("expect", "").lower() == "100-continue"

    @property
    def dialect(self) -> Dialect:
        """The dialect for refusing the current request, however little of it has arrived."""
        if self.head is not None:
            return dialect_of_path(self.head.path, self.head.headers)
        return dialect_of_start(self._buffer[:_LONGEST_START])


def dialect_of_start(start: bytes) -> Dialect:
    """The dialect by the beginning of a request line."""
    target = start.partition(b" ")[2].partition(b" ")[0]
    return dialect_of_path(target.partition(b"?")[0].decode("latin-1"))


def _check_partial_head(buffer: bytes, limits: Limits) -> None:
    if len(buffer) > limits.max_header_bytes:
        raise HeadersTooLarge(f"the headers are over the limit of {limits.max_header_bytes} bytes")
    if b"\n\n" in buffer or b"\n\r\n" in buffer:
        raise BadRequest(INVALID)


def _may_become_ours(buffer: bytes) -> bool:
    """Whether more bytes could make this a create call or a handshake."""
    return any(start.startswith(buffer) for start in _STARTS)


def may_become_socket(data: bytes) -> bool:
    return data.startswith(_SOCKET_STARTS) or any(start.startswith(data) for start in _SOCKET_STARTS)


def asks_for_socket(head: RequestHead) -> bool:
    return head.method == "GET" and head.version == "1.1" and head.headers.get("upgrade", "").lower() == "websocket"
