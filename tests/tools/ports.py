"""Ports that are still what a test takes them for when it comes back to them."""

import contextlib
import secrets
import socket
from collections.abc import Iterator

_FIRST, _LAST = 15_000, 32_000
"""Below all that Linux, macOS and Windows hand out by themselves."""


def keepable_port() -> int:
    """A port for a server that is stopped and started again.

    One that the system picked could be somebody else's in between: even a caller that tries to reach the server may get it for
    its own end of the connection.
    """
    while True:
        port = _FIRST + secrets.randbelow(_LAST - _FIRST)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


@contextlib.contextmanager
def silent_port() -> Iterator[int]:
    """A port on which nobody listens, and nobody can: it is taken."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]
