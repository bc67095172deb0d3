"""Which protocol does TLS on which event loop."""

import asyncio
from asyncio.sslproto import SSLProtocol

import pytest

from router.loop.tls import tls_protocol_of


def test_asyncios_loop_has_asyncios_protocol():
    loop = asyncio.SelectorEventLoop()
    try:
        assert tls_protocol_of(loop) is SSLProtocol
    finally:
        loop.close()


def test_uvloop_has_its_own():
    uvloop = pytest.importorskip("uvloop")
    loop = uvloop.new_event_loop()
    try:
        assert tls_protocol_of(loop).__module__ == "uvloop.loop"
    finally:
        loop.close()
