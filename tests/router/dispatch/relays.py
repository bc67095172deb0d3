"""A relay on its own, as an attempt would make it."""

import asyncio
import time

from router.contract.facts import AttemptOpened
from router.contract.target import Timeouts
from router.contract.words import Dialect
from router.dispatch.relay import Relay
from router.dispatch.streaming import HEARTBEAT_SECONDS
from tests.tools.exchanges import make_context, make_exchange
from tests.tools.scripted import reach
from tests.tools.values import make_target, make_view

FRAME = b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n'
LAST = b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
PATIENT = Timeouts(connect_seconds=5, first_byte_seconds=600, stall_seconds=300)


def make_relay(
    caller,
    *observers,
    view=None,
    translator=None,
    max_bytes: int = 1 << 20,
    heartbeat_seconds: float = HEARTBEAT_SECONDS,
    timeouts: Timeouts = PATIENT,
    key: str = "",
) -> Relay:
    view = view or make_view({"messages": [{"role": "user", "content": "hi"}], "stream": True}, Dialect.CHAT)
    exchange, target = make_exchange(*observers, name=view.id), make_target(timeouts=timeouts)
    context = make_context(exchange, caller, time.perf_counter, max_bytes=max_bytes)
    opened, finished = AttemptOpened(0.0, target, "", ()), asyncio.get_running_loop().create_future()
    return Relay(context, opened, view, reach(target, key=key), caller, translator, finished, heartbeat_seconds)


class Caller:
    """A caller that keeps what it is sent."""

    def __init__(self) -> None:
        self.written: list[bytes] = []

    def feed_from(self, flow) -> None: ...
    def start(self, status, headers) -> None: ...
    def end(self) -> None: ...
    def fail(self, error) -> None: ...

    def write(self, data: bytes) -> None:
        self.written.append(data)

    @property
    def body(self) -> bytes:
        return b"".join(self.written)

    @property
    def beats(self) -> int:
        return self.written.count(b": heartbeat\n\n")


class Heading(Caller):
    """Keeps the head too, and how it was told to end."""

    headers: tuple = ()
    end_told: object = None

    def start(self, status, headers) -> None:
        self.headers = headers

    def end(self) -> None:
        self.end_told = "whole"

    def fail(self, error) -> None:
        self.end_told = error


def headed(caller: Caller, *observers, **more) -> Relay:
    relay = make_relay(caller, *observers, **more)
    relay.start(200, (("content-type", "text/event-stream"),))
    return relay


def begun(caller: Caller, first: bytes = FRAME) -> Relay:
    relay = headed(caller)
    relay.write(first)
    return relay
