"""Ports that stay usable when a test returns to them."""

import contextlib
import secrets
import socket
from collections.abc import Iterator

_FIRST, _LAST = 15_000, 32_000
"""Below the ranges that Linux, macOS and Windows hand out."""


def keepable_port() -> int:
    """A port for a server that is restarted.

    A port from the system could be taken meanwhile, even as the local end of a connection to that server.
    """
    while True:
        port = _FIRST + secrets.randbelow(_LAST - _FIRST)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


@contextlib.contextmanager
def silent_port() -> Iterator[int]:
    """A bound port without a listener."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]
