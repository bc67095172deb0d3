"""Scripted targets without sockets, for the road between a decision and its answer."""

import asyncio
import json
from collections.abc import Callable

from router.contract.errors import UpstreamError
from router.contract.relay import OutgoingRequest, Sink
from router.contract.secret import Secret
from router.dialects.fitting import Fit
from router.dispatch.dispatch import Dispatcher
from router.dispatch.outgoing import Reachable
from tests.tools.upstream import CHAT_ANSWER, GOOD_CHAT_STREAM

JSON = (("content-type", "application/json"),)
EVENTS = (("content-type", "text/event-stream"),)
Script = Callable[[Sink], None]


class ScriptedCall:
    def __init__(self) -> None:
        self.is_cancelled = False

    def pause(self) -> None: ...
    def resume(self) -> None: ...

    def cancel(self) -> None:
        self.is_cancelled = True


class ScriptedAdapter:
    """Plays one script per request, the last repeatedly. An error as a script is raised by `open`."""

    def __init__(self, *scripts: Script | BaseException) -> None:
        self.scripts = list(scripts)
        self.opened: list[OutgoingRequest] = []
        self.calls: list[ScriptedCall] = []
        self.sinks: list[Sink] = []

    def open(self, request: OutgoingRequest, sink: Sink) -> ScriptedCall:
        self.opened.append(request)
        script = self.scripts.pop(0) if len(self.scripts) > 1 else self.scripts[0]
        if isinstance(script, BaseException):
            raise script
        call = ScriptedCall()
        self.calls.append(call)
        self.sinks.append(sink)
        sink.feed_from(call)
        asyncio.get_running_loop().call_soon(lambda: None if call.is_cancelled else script(sink))
        return call

    @property
    def bodies(self) -> list[dict]:
        return [json.loads(request.body) for request in self.opened]


def answers(body: dict | bytes = CHAT_ANSWER, status: int = 200, headers=JSON) -> Script:
    def play(sink: Sink) -> None:
        sink.start(status, headers)
        sink.write(body if isinstance(body, bytes) else json.dumps(body).encode())
        sink.end()

    return play


def streams(*pieces: bytes, ends: bool = True) -> Script:
    """A streamed answer; open if it does not end."""

    def play(sink: Sink) -> None:
        sink.start(200, EVENTS)
        for piece in pieces or GOOD_CHAT_STREAM:
            sink.write(piece)
        if ends:
            sink.end()

    return play


def fails(error: UpstreamError) -> Script:
    return lambda sink: sink.fail(error)


def hangs(sink: Sink) -> None:
    """Never answer."""


def reach(target, *scripts: Script | Exception, fit: Fit | None = None, key: str = "") -> Reachable:
    adapter = ScriptedAdapter(*(scripts or (answers(),)))
    return Reachable(target, adapter, f"{target.name}-model", fit or Fit(), Secret(key) if key else None)


def dispatcher_of(*reachable: Reachable, clock: Callable[[], float], max_response_bytes: int = 1 << 20, **more) -> Dispatcher:
    return Dispatcher(
        {each.target.name: each for each in reachable}, max_response_bytes=max_response_bytes, clock=clock, **more
    )


class HandClock:
    def __init__(self, now: float = 0.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def names_of(journal) -> list[str]:
    return [type(fact).__name__ for fact in journal]
