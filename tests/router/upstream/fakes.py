"""A transport without a network, and an origin whose connections the test holds in its hand."""

import asyncio

from router.contract.relay import UpstreamRequest
from router.contract.target import Timeouts
from router.loop.together import Gathering, Outbox
from router.upstream.connection import CannotConnect, Connection
from router.upstream.reading import READ_BYTES, PausedReading, Turns
from tests.tools.exchanges import RecordingSink

STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
WHOLE = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"
LAST = b"0\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


class FakeTransport(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.written, self.pending = b"", 0
        self.is_reading, self.is_aborted = True, False

    def write(self, data) -> None:
        self.written += data

    def is_closing(self) -> bool:
        return self.is_aborted

    def abort(self) -> None:
        self.is_aborted = True

    def pause_reading(self) -> None:
        self.is_reading = False

    def resume_reading(self) -> None:
        self.is_reading = True

    def get_write_buffer_size(self) -> int:
        return self.pending


def open_connection(turns: Turns | None = None) -> tuple[Connection, FakeTransport]:
    connection, transport = Connection(turns or Turns()), FakeTransport()
    connection.connection_made(transport)
    return connection, transport


def receive(connection: PausedReading, data: bytes) -> None:
    """Bytes from the target, in as many reads as they take."""
    for begin in range(0, len(data), READ_BYTES):
        piece = data[begin : begin + READ_BYTES]
        connection.get_buffer(-1)[: len(piece)] = piece
        connection.buffer_updated(len(piece))


class FakeOrigin:
    """Answers with what the test put there: warm connections, and fresh ones or reasons for none."""

    def __init__(self, *fresh, warm=()) -> None:
        self.fresh, self.warm = list(fresh), list(warm)
        self.given_back: list[Connection] = []
        self.dialled = 0
        self.may_connect = asyncio.Event()
        self.may_connect.set()
        self.outbox = Outbox(Gathering(plain=True))

    def take(self):
        return self.warm.pop() if self.warm else None

    async def connect(self, within_seconds):
        self.dialled += 1
        await self.may_connect.wait()
        found = self.fresh.pop(0)
        if isinstance(found, BaseException):
            raise found
        if isinstance(found, str):
            raise CannotConnect(found)
        return found

    def give_back(self, connection) -> None:
        self.given_back.append(connection)


TIMEOUTS = Timeouts(connect_seconds=5, first_byte_seconds=60, stall_seconds=30)


def make_request(timeouts: Timeouts = TIMEOUTS, **more) -> UpstreamRequest:
    return UpstreamRequest("spark", "POST", "http://models.example/v1/chat", (("a", "b"),), b"{}", timeouts, **more)


class Owner:
    """Keeps what a connection says."""

    def __init__(self) -> None:
        self.told = []

    def headers_seen(self) -> None:
        self.told.append("headers_seen")

    def completed(self, *, may_reuse) -> None:
        self.told.append(("completed", may_reuse))

    def lost(self, seen) -> None:
        self.told.append(("lost", seen))

    def malformed(self, reason) -> None:
        self.told.append(("malformed", reason))


class Served:
    """A connection with a request under way."""

    def __init__(self, turns: Turns | None = None) -> None:
        self.connection, self.transport = open_connection(turns)
        self.send()

    def send(self, body: bytes = b"{}") -> None:
        self.owner, self.sink = Owner(), RecordingSink()
        self.connection.send(self.owner, self.sink, b"POST / HTTP/1.1\r\n\r\n", body)

    def receive(self, *pieces: bytes) -> "Served":
        for piece in pieces:
            receive(self.connection, piece)
        return self
