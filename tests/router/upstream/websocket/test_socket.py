"""One socket to a target: handshakes that fail, messages in pieces, and sockets that nobody asked anything of."""

import asyncio
import ssl

import pytest
from websockets.asyncio.server import serve
from websockets.utils import accept_key

from router.contract.relay import Tls
from router.upstream.address import read_address
from router.upstream.connection import CannotConnect
from router.upstream.dial import Dialer
from router.upstream.websocket.socket import UpgradeRefused, UpstreamSocket, open_socket
from tests.router.upstream.fakes import FakeTransport, receive
from tests.tools.socket_upstream import SocketUpstream
from tests.tools.waiting import some_turns, until


class Owner:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.texts: list[bytes] = []
        self.was_lost, self.told = False, asyncio.Event()

    def received(self, text: bytes) -> None:
        self.texts.append(text)
        self.told.set()

    def lost(self, code=None) -> None:
        self.was_lost, self.code = True, code
        self.told.set()


async def test_a_socket_over_tls_needs_a_certificate_that_somebody_vouches_for(certificate):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")

    async def answer(connection):
        async for _ in connection:
            await connection.send('{"type":"response.created"}')

    async with serve(answer, "127.0.0.1", 0, ssl=context) as server:
        address = read_address(f"https://localhost:{next(iter(server.sockets)).getsockname()[1]}/v1/responses")
        with pytest.raises(CannotConnect, match="TLS failed"):
            await open_socket(Dialer(), address, None, (), 2.0)
        owner = await ask(await open_socket(Dialer(), address, Tls(ca_file=str(certificate / "cert.pem")), (), 2.0))

    assert owner.texts == [b'{"type":"response.created"}']


async def connect(target: SocketUpstream, headers=(), within_seconds: float = 30.0):
    address = read_address(f"{target.base_url}/responses?a=b")
    return await open_socket(Dialer(), address, None, headers, within_seconds)


async def ask(socket: UpstreamSocket) -> Owner:
    """Send one message, and wait for the first thing that comes back."""
    owner = Owner()
    socket.send(owner, b"{}")
    await asyncio.wait_for(owner.told.wait(), 30)
    socket.close()
    return owner


async def play(target: SocketUpstream, script) -> Owner:
    target.scripts = [script]
    return await ask(await connect(target))


async def test_a_handshake_has_the_headers_that_it_is_given_and_the_addresses_query(target):
    await ask(await connect(target, (("authorization", "Bearer k"), ("user-agent", "tandem"))))

    assert target.seen[0].headers["authorization"] == "Bearer k"
    assert target.seen[0].headers["user-agent"] == "tandem"
    assert "sec-websocket-extensions" not in target.seen[0].headers


@pytest.mark.parametrize("status", [426, 401, 500])
async def test_a_refused_handshake_says_with_which_status(target, status):
    target.upgrade_status = status

    with pytest.raises(UpgradeRefused) as caught:
        await connect(target)

    assert caught.value.status == status


@pytest.fixture
def answered(listen):
    """Opens a socket to a target that answers the handshake with these bytes, and says nothing more."""

    async def connect(answer: bytes, within_seconds: float):
        async def serve(reader, writer):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer)
            await reader.read()
            writer.close()

        address = read_address(f"http://127.0.0.1:{await listen(serve)}/v1/responses")
        return await open_socket(Dialer(), address, None, (), within_seconds)

    return connect


@pytest.mark.parametrize("answer", [
    b"HTTP/1.1 404 Not Found\r\ncontent-type: text/html\r\n\r\n<p>endless page",
    b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n",
    b"HTTP/1.1 101 Switching Protocols\r\nno header\r\n\r\n",
    b"SSH-2.0-OpenSSH_9.6\r\n",
], ids=["a page without an end", "no proof of the key", "a broken head", "another protocol"])  # fmt: skip
async def test_what_is_no_answer_to_a_handshake_is_refused_at_once(answered, answer):
    with pytest.raises(CannotConnect):
        await asyncio.wait_for(answered(answer, 5.0), 1)


async def test_a_handshake_that_is_never_answered_ends_in_time(answered):
    with pytest.raises(CannotConnect, match=r"no WebSocket within 0\.1 s"):
        await answered(b"", 0.1)


async def test_a_message_in_fragments_is_put_together(target):
    async def in_pieces(connection, seen):
        await connection.send(['{"type":', '"response', '.created"}'])

    assert (await play(target, in_pieces)).texts == [b'{"type":"response.created"}']


async def send_binary(connection, seen):
    await connection.send(b"\x00\x01")


async def close_with_a_word(connection, seen):
    await connection.close(1011, "oops")


async def send_garbage(connection, seen):
    connection.transport.write(b"\xff\xff\xff\xff")
    await asyncio.Event().wait()


async def vanish(connection, seen):
    connection.transport.abort()


async def send_broken_text(connection, seen):
    connection.transport.write(b"\x81\x03\xffab")
    await asyncio.Event().wait()


async def ping_without_end(connection, seen):
    connection.transport.write(b"\x89\x00" * 5_000)
    await asyncio.Event().wait()


async def close_for_the_size(connection, seen):
    await connection.close(1009, "too big")


async def test_who_has_a_request_on_a_socket_hears_with_which_code_it_was_closed(target):
    assert (await play(target, close_for_the_size)).code == 1009


@pytest.mark.parametrize("size", [1, 5, 11, 12, 13, 16, 33, 60])
async def test_an_answer_to_the_handshake_may_come_in_pieces(target, monkeypatch, size):
    updated = UpstreamSocket.buffer_updated

    def in_pieces(self, read):
        data = bytes(self.get_buffer(-1)[:read])
        for begin in range(0, read, size):
            piece = data[begin : begin + size]
            self.get_buffer(-1)[: len(piece)] = piece
            updated(self, len(piece))

    monkeypatch.setattr(UpstreamSocket, "buffer_updated", in_pieces)
    socket = await connect(target)

    assert socket.is_usable
    socket.close()
    target.upgrade_status = 404
    with pytest.raises(UpgradeRefused) as caught:
        await connect(target)
    assert caught.value.status == 404


async def test_pings_of_a_target_that_reads_nothing_are_not_answered_for_ever(target):
    class Unread(FakeTransport):
        def get_write_buffer_size(self):
            return len(self.written)

    socket = await connect(target)
    transport, socket._transport = socket._transport, Unread()
    for _ in range(1_000):
        receive(socket, b"\x89\x7d" + b"x" * 125 + b'\x81\x0c{"type":"x"}')

    assert len(socket._transport.written) < 80_000
    socket._transport = transport
    socket.close()


@pytest.mark.parametrize("script", [send_binary, close_with_a_word, send_garbage, vanish, send_broken_text, ping_without_end])
async def test_what_is_none_of_the_protocols_ends_the_socket_for_its_owner(target, script):
    owner = await play(target, script)

    assert owner.was_lost
    assert owner.texts == []


@pytest.mark.parametrize(("text", "stays"), [('{"type":"error"}', False), ('{"type":"codex.rate_limits"}', True)])
async def test_an_error_on_an_idle_socket_closes_it_and_other_news_do_not(target, text, stays):
    async def answer_twice(connection, seen):
        await connection.send('{"type":"response.created"}')
        await connection.send(text)

    target.scripts, owner = [answer_twice], Owner()
    socket = await connect(target)
    owner.received = lambda text: (socket.release(), owner.told.set())
    socket.send(owner, b"{}")
    await asyncio.wait_for(owner.told.wait(), 30)
    await until(lambda: socket.is_usable is stays)
    await some_turns()

    assert socket.is_usable is stays
    socket.close()


async def test_a_target_that_says_nothing_to_a_ping_is_not_alive(listen):
    async def serve(reader, writer):
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        key = next(line.split(": ")[1] for line in head.split("\r\n") if line.lower().startswith("sec-websocket-key"))
        fields = f"upgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-accept: {accept_key(key)}\r\n\r\n"
        writer.write(f"HTTP/1.1 101 Switching Protocols\r\n{fields}".encode())
        await reader.read()
        writer.close()

    address = read_address(f"http://127.0.0.1:{await listen(serve)}/v1/responses")
    socket = await open_socket(Dialer(), address, None, (), 2.0)

    assert [socket.is_alive(), socket.is_alive()] == [True, False]
    socket.abort()


async def test_a_target_that_answers_pings_stays_alive(target):
    socket = await connect(target)

    for _ in range(3):
        await until(socket.is_alive)
        await some_turns()

    socket.close()
