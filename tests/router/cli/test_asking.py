"""Commands bring the key of their own router, to that router alone."""

import ssl
import subprocess
import threading
import time
import urllib.error
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from router.cli.asking import ask
from router.cli.routers import Router, digest_certificate, note_router, url_of

KEY = "tdm_00000000_canary"


@contextmanager
def listening(redirect: str = "", context: ssl.SSLContext | None = None):
    """A server that keeps the headers it was sent."""
    seen = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            seen.append(dict(self.headers))
            self.send_response(307 if redirect else 200)
            if redirect:
                self.send_header("location", redirect)
            self.send_header("content-length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        if context is not None:
            server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield url_of(*server.server_address[:2], is_tls=context is not None), seen
        server.shutdown()
        thread.join()


def note(url: str, **more) -> None:
    note_router(Router(url, None, time.time(), key=KEY, **more))


def send(url: str) -> bytes:
    with ask(url, "/tandem/reload", b"", within_seconds=20) as answer:
        return answer.read()


def test_the_key_goes_to_the_router_that_made_it_by_any_of_its_names(folder):
    with listening() as (url, seen):
        note(url)
        for name in (url, f"{url}/", f"{url}/v1", url.replace("127.0.0.1", "localhost")):
            assert send(name) == b"{}"

    assert [headers["Authorization"] for headers in seen] == [f"Bearer {KEY}"] * 4


def test_no_other_address_sees_the_key(folder):
    with listening() as (url, _), listening() as (other, seen):
        note(url)
        send(other)

    assert "Authorization" not in seen[0]


def test_a_redirect_is_not_followed(folder):
    with listening() as (other, seen), listening(redirect=other) as (url, _):
        note(url)
        with pytest.raises(urllib.error.HTTPError) as refused:
            send(url)
        refused.value.close()

    assert seen == []


def test_a_key_that_is_given_comes_first(folder):
    with listening() as (url, seen):
        note(url)
        ask(url, "/", b"", within_seconds=20, key="given").close()

    assert seen[0]["Authorization"] == "Bearer given"


def make_certificate(folder, name: str) -> ssl.SSLContext:
    pair = ["-keyout", f"{folder}/{name}.key", "-out", f"{folder}/{name}.pem"]
    made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", *pair]
    subprocess.run([*made, "-days", "2", "-subj", "/CN=router.example"], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / f"{name}.pem", folder / f"{name}.key")
    return context


def test_over_tls_the_key_goes_to_the_noted_certificate_whatever_name_it_has(folder):
    with listening(context=make_certificate(folder, "own")) as (url, seen):
        note(url, certificate=digest_certificate(folder / "own.pem"))

        assert send(url) == b"{}"

    assert seen[0]["Authorization"] == f"Bearer {KEY}"


def test_over_tls_another_certificate_sees_nothing(folder):
    make_certificate(folder, "own")
    with listening(context=make_certificate(folder, "other")) as (url, seen):
        note(url, certificate=digest_certificate(folder / "own.pem"))

        with pytest.raises(urllib.error.URLError, match="another certificate"):
            send(url)

    assert seen == []
