"""Create calls from bytes, without I/O: bytes in; heads, bodies, refusals and the hand-over out.

`receive_data`, then `read_head` until there is one, then `read_body` until it is whole; then the head of the next request.
What is not a plain create call (another route, a chunked body) is handed over with every byte of it.
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
    """These bytes are not a plain create call: somebody else must read them, see `RequestReader.take_buffer`."""

    HAND_OVER = "hand over"
    UPGRADE = "upgrade"
    """A client asks for a WebSocket where there are some."""


HAND_OVER, UPGRADE = HandOver.HAND_OVER, HandOver.UPGRADE


class RequestReader:
    """Reads one request after the other. The bytes of the next one wait in the buffer until they are asked for."""

    __slots__ = ("_body_left", "_buffer", "_heads", "_pieces", "head", "socket_head")

    def __init__(self) -> None:
        self._buffer = b""
        self._heads = HeadReader()
        self.head: RequestHead | None = None
        """The head of the request whose body is being read."""
        self.socket_head: RequestHead | None = None
        """The head of a handshake, which is left in the buffer."""
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
        """The head of the next request; or that it is not for us; or None until more bytes come.

        Raises `BadRequest` or `HeadersTooLarge`. What comes after that cannot be read.
        """
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
            # A view: the pieces of a body are copied once, when they are joined.
            self._pieces, self._body_left, self._buffer = [memoryview(buffer)[end:]], body_end - len(buffer), b""
        else:
            self._pieces, self._buffer = [buffer[end:body_end]], buffer[body_end:]
        return head

    def read_body(self) -> bytes | None:
        """The body of the request whose head was read; None until all of it is here."""
        if self._body_left:
            return None
        pieces, self._pieces, self.head = self._pieces, [], None
        return b"".join(pieces)

    def take_buffer(self) -> bytes:
        """Every byte that was received and not read, for whoever goes on."""
        buffer, self._buffer = self._buffer, b""
        return buffer

    @property
    def buffered_bytes(self) -> int:
        """How much waits after the last request, or of a head that is not whole."""
        return len(self._buffer)

    @property
    def body_bytes(self) -> int:
        """How much of a body has come that is not whole."""
        return sum(map(len, self._pieces))

    @property
    def expects_continue(self) -> bool:
        """Whether the caller waits for leave to send its body."""
        head = self.head
        return head is not None and self._body_left > 0 and head.headers.get("expect", "").lower() == "100-continue"

    @property
    def dialect(self) -> Dialect:
        """The dialect in which to refuse what is being read, however little of it has come."""
        if self.head is not None:
            return dialect_of_path(self.head.path, self.head.headers)
        return dialect_of_start(self._buffer[:_LONGEST_START])


def dialect_of_start(start: bytes) -> Dialect:
    """The dialect of a request by the beginning of its first line."""
    target = start.partition(b" ")[2].partition(b" ")[0]
    return dialect_of_path(target.partition(b"?")[0].decode("latin-1"))


def _check_partial_head(buffer: bytes, limits: Limits) -> None:
    if len(buffer) > limits.max_header_bytes:
        raise HeadersTooLarge(f"the headers are over the limit of {limits.max_header_bytes} bytes")
    if b"\n\n" in buffer or b"\n\r\n" in buffer:
        raise BadRequest(INVALID)


def _may_become_ours(buffer: bytes) -> bool:
    """Whether more bytes could make this a create call, or the handshake of a socket."""
    return any(start.startswith(buffer) for start in _STARTS)


def may_become_socket(data: bytes) -> bool:
    """Whether a request that begins with these bytes may be the handshake of a socket."""
    return data.startswith(_SOCKET_STARTS) or any(start.startswith(data) for start in _SOCKET_STARTS)


def asks_for_socket(head: RequestHead) -> bool:
    """Whether this is the handshake of a WebSocket on a path that has them."""
    return head.method == "GET" and head.version == "1.1" and head.headers.get("upgrade", "").lower() == "websocket"
