"""TLS and tunnels: what only shows with a certificate and a proxy between."""

import asyncio
import os
import ssl
from base64 import b64encode

import pytest

from router.contract.relay import Tls
from router.upstream.address import read_address
from router.upstream.connection import CannotConnect
from router.upstream.dial import Dialer
from tests.tools.http import call, chat
from tests.tools.ports import silent_port
from tests.tools.running import two_targets
from tests.tools.upstream import CHAT_ANSWER, answer_json


@pytest.fixture
def closed_port():
    """A port on which nobody listens."""
    with silent_port() as port:
        yield port


@pytest.fixture
def set_proxy(monkeypatch):
    """Set HTTPS_PROXY, and nothing else that would keep it from being used."""

    def set_it(url: str) -> None:
        monkeypatch.setenv("HTTPS_PROXY", url)
        monkeypatch.delenv("NO_PROXY", raising=False)
        monkeypatch.delenv("no_proxy", raising=False)
        read_address.cache_clear()

    yield set_it
    read_address.cache_clear()


@pytest.fixture
async def mute_port(listen):
    """A port on which somebody listens and says nothing."""

    async def mute(reader, writer):
        await reader.read()
        writer.close()

    return await listen(mute)


@pytest.fixture
def serve_tls(listen, upstream, certificate):
    """Starts a target with our certificate, which may ask for one, and answers its port."""

    async def serve(*, asks_for_certificate: bool = False) -> int:
        upstream.scripts = [answer_json(CHAT_ANSWER)]
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")
        if asks_for_certificate:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(certificate / "cert.pem")
        return await listen(upstream._serve, ssl=context)

    return serve


async def dial(url: str = "https://models.example/v1", tls: Tls | None = None, within_seconds: float = 60):
    return await Dialer().dial(read_address(url), tls, within_seconds)


async def test_a_target_with_its_own_authority_is_reached_over_tls(start, upstream, certificate, serve_tls):
    url, tls = f"https://localhost:{await serve_tls()}/v1", f'tls: {{ca_file: "{certificate / "cert.pem"}"}},'
    tandem = await start(two_targets(url, url, fast_extra=tls, deep_extra=tls))

    replies = [await call(tandem.port, "/v1/chat/completions", chat()) for _ in range(2)]

    assert [reply.json for reply in replies] == [CHAT_ANSWER] * 2
    assert upstream.connections == 1


async def test_a_certificate_that_nobody_vouches_for_is_refused(start, upstream, serve_tls):
    url = f"https://localhost:{await serve_tls()}/v1"
    tandem = await start(two_targets(url, url))

    reply = await call(tandem.port, "/v1/chat/completions", chat())

    assert reply.status == 502
    assert "TLS failed" in reply.json["error"]["message"]
    assert not upstream.seen


async def test_a_target_that_asks_for_our_certificate_is_shown_it(start, upstream, certificate, serve_tls):
    url = f"https://localhost:{await serve_tls(asks_for_certificate=True)}/v1"
    ours = certificate / "ours.pem"
    ours.write_bytes((certificate / "key.pem").read_bytes() + (certificate / "cert.pem").read_bytes())
    known = f'tls: {{ca_file: "{certificate / "cert.pem"}", client_cert: "{ours}"}},'
    unknown = f'tls: {{ca_file: "{certificate / "cert.pem"}"}},'
    tandem = await start(two_targets(url, url, fast_extra=known, deep_extra=unknown))

    shown = await call(tandem.port, "/v1/chat/completions", chat(model="fast"))
    hidden = await call(tandem.port, "/v1/chat/completions", chat(model="deep"))

    assert shown.json == CHAT_ANSWER
    assert len(upstream.seen) == 1
    assert hidden.status == 502


async def test_a_renewed_client_certificate_is_loaded_for_the_next_connection_and_a_broken_one_is_not_used(
    certificate, serve_tls, monkeypatch
):
    address = read_address(f"https://localhost:{await serve_tls(asks_for_certificate=True)}/v1")
    pair = (certificate / "key.pem").read_bytes() + (certificate / "cert.pem").read_bytes()
    ours, dialer, made, create = certificate / "ours.pem", Dialer(), [], ssl.create_default_context
    monkeypatch.setattr(ssl, "create_default_context", lambda **more: made.append(more) or create(**more))
    tls, counts = Tls(ca_file=str(certificate / "cert.pem"), client_cert=str(ours)), []

    for number, text in enumerate((pair, b"half of", pair)):
        ours.write_bytes(text)
        os.utime(ours, (number, number))
        made.clear()
        for _ in range(2):
            (await dialer.dial(address, tls, 30)).drop()
        counts.append(len(made))

    assert counts == [1, 2, 1]  # the broken one is tried each time, and the context before it is used


async def test_a_tunnel_is_opened_through_a_proxy_and_tls_runs_inside_it(start, certificate, serve_tls, listen, set_proxy):
    port, asked = await serve_tls(), []

    async def proxy(reader, writer):
        asked.append((await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")[0])
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")

        async def pump(source, drain):
            while data := await source.read(65_536):
                drain.write(data)
            drain.close()

        await asyncio.gather(pump(reader, inner_writer), pump(inner_reader, writer), return_exceptions=True)

    set_proxy(f"http://127.0.0.1:{await listen(proxy)}")
    url, tls = "https://models.example/v1", f'tls: {{ca_file: "{certificate / "cert.pem"}"}},'
    tandem = await start(two_targets(url, url, fast_extra=tls, deep_extra=tls))

    reply = await call(tandem.port, "/v1/chat/completions", chat())

    assert asked[0] == b"CONNECT models.example:443 HTTP/1.1"
    assert reply.json == CHAT_ANSWER


async def test_a_name_that_does_not_resolve_is_said_so():
    with pytest.raises(CannotConnect, match="host name does not resolve"):
        await dial("http://no-such-host.invalid/v1")


async def test_a_closed_port_is_no_connection(closed_port):
    with pytest.raises(CannotConnect, match="connection failed$"):
        await dial(f"http://127.0.0.1:{closed_port}/v1")


async def test_a_handshake_that_never_ends_is_given_up_in_time(certificate, mute_port):
    with pytest.raises(CannotConnect, match=r"no connection within 0.1 s"):
        await dial(f"https://localhost:{mute_port}/v1", Tls(ca_file=str(certificate / "cert.pem")), 0.1)


@pytest.mark.parametrize(("user", "answer", "words"), [
    ("", b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", "requires a user name and a password (407)"),
    ("a:s3cret-word@", b"HTTP/1.1 407 No\r\n\r\n", "refused its user name and password (407)"),
    ("a:s3cret-word@", b"HTTP/1.1 403 Forbidden\r\n\r\n", "refused to open a connection to the target (403)"),
    ("", b"", "closed the connection, or is not an HTTP proxy"),
    ("", b"x" * 20_000, "closed the connection, or is not an HTTP proxy"),
], ids=["407 without a user", "407 with one", "403", "hangs up", "babbles"])  # fmt: skip
async def test_a_proxy_that_opens_no_tunnel_is_named_with_what_it_said(listen, set_proxy, user, answer, words):
    async def proxy(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()

    set_proxy(f"http://{user}127.0.0.1:{await listen(proxy)}")

    with pytest.raises(CannotConnect) as caught:
        await dial()

    assert str(caught.value) == f"the proxy in HTTPS_PROXY {words}"


async def test_the_user_and_password_of_a_proxy_are_sent_to_it_decoded(listen, set_proxy):
    asked = []

    async def proxy(reader, writer):
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        writer.close()

    set_proxy(f"http://me:p%40ss@127.0.0.1:{await listen(proxy)}")

    with pytest.raises(CannotConnect):
        await dial()

    assert b"\r\nproxy-authorization: Basic " + b64encode(b"me:p@ss") + b"\r\n" in asked[0]


@pytest.mark.parametrize(("url", "words"), [
    ("http://u:s3cret-word@127.0.0.1:{port}", "the proxy in HTTPS_PROXY does not accept connections"),
    ("http://u:s3cret-word@no-such-proxy.invalid:1", "the host name of the proxy in HTTPS_PROXY does not resolve"),
    ("http://u:s3cret-word@127.0.0.1:port", "the proxy in HTTPS_PROXY is not an address such as http://host:port"),
    ("socks5://u:s3cret-word@127.0.0.1:{port}", "the proxy in HTTPS_PROXY is a socks5:// proxy, which is not supported"),
], ids=["refuses", "does not resolve", "no port", "socks"])  # fmt: skip
async def test_a_proxy_that_cannot_be_used_is_named_instead_of_the_target(set_proxy, closed_port, url, words):
    set_proxy(url.format(port=closed_port))

    with pytest.raises(CannotConnect) as caught:
        await dial()

    assert str(caught.value).startswith(words)
    assert "s3cret-word" not in str(caught.value)


async def test_a_proxy_that_says_nothing_is_named_when_time_is_up(set_proxy, mute_port):
    set_proxy(f"http://127.0.0.1:{mute_port}")

    with pytest.raises(CannotConnect, match=r"no connection through the proxy in HTTPS_PROXY within 0.1 s"):
        await dial(within_seconds=0.1)
