"""TLS on connections that the event loop has accepted already."""

import asyncio
import sys
from asyncio.sslproto import SSLProtocol
from typing import Any


def tls_protocol_of(loop: asyncio.AbstractEventLoop) -> Any:
    """The protocol with which an event loop does TLS. uvloop's is in C, and has the same arguments as asyncio's.

    Neither loop documents it. Their documented way, `start_tls`, loses what a caller sends before it is called.
    """
    uvloop = sys.modules.get("uvloop.loop")
    return uvloop.SSLProtocol if uvloop is not None and isinstance(loop, uvloop.Loop) else SSLProtocol
