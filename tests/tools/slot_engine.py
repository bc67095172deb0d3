"""An engine with a few slots, as llama.cpp is: calls that find none free wait in line, without a byte. For loops that jump."""

import asyncio
import json
from collections import deque

from router.contract.relay import OutgoingRequest, Sink
from router.dialects.fitting import Fit
from router.dispatch.outgoing import Reachable
from tests.tools.scripted import EVENTS
from tests.tools.upstream import DONE, chat_frame

PIECE_SECONDS = 0.5


class EngineCall:
    """A call in a slot, or in the line for one."""

    def __init__(self, engine: "SlotEngine", request: OutgoingRequest, sink: Sink) -> None:
        self.engine, self.sink, self.body = engine, sink, json.loads(request.body)
        self.opened_at = asyncio.get_running_loop().time()
        self.begun_at: float | None = None
        self.ended_at: float | None = None
        self.is_cancelled = False

    @property
    def tokens(self) -> int:
        return min(self.engine.answer_tokens, self.body.get("max_tokens") or self.engine.answer_tokens)

    def pause(self) -> None: ...
    def resume(self) -> None: ...

    def begin(self) -> None:
        loop, engine = asyncio.get_running_loop(), self.engine
        loop.call_later(engine.ttft_seconds, self._start)
        loop.call_later(engine.ttft_seconds + self.tokens / engine.tokens_per_second, self._end)

    def _start(self) -> None:
        if not self.is_cancelled:
            self.begun_at = asyncio.get_running_loop().time()
            self.sink.start(200, EVENTS)
            self._write()

    def _write(self) -> None:
        """A piece now and then: a stream that says nothing for long is given up."""
        if not self.is_cancelled and self.ended_at is None:
            self.sink.write(chat_frame("a"))
            asyncio.get_running_loop().call_later(PIECE_SECONDS, self._write)

    def _end(self) -> None:
        if not self.is_cancelled:
            self.ended_at = asyncio.get_running_loop().time()
            self.engine.release(self)
            usage = {"prompt_tokens": 10, "completion_tokens": self.tokens, "total_tokens": 10 + self.tokens}
            told = json.dumps({"id": "c", "choices": [], "usage": usage}).encode()
            self.sink.write(chat_frame(finish="stop") + b"data: " + told + b"\n\n" + DONE)
            self.sink.end()

    def cancel(self) -> None:
        if not self.is_cancelled and self.ended_at is None:
            self.is_cancelled = True
            self.engine.release(self)


class SlotEngine:
    """Serves a fixed number of calls at once, at one pace."""

    def __init__(self, slots: int = 1, *, ttft_seconds=0.1, tokens_per_second=60.0, answer_tokens=120) -> None:
        self.slots, self.ttft_seconds = slots, ttft_seconds
        self.tokens_per_second, self.answer_tokens = tokens_per_second, answer_tokens
        self.calls: list[EngineCall] = []
        self._running: list[EngineCall] = []
        self._line: deque[EngineCall] = deque()

    def open(self, request: OutgoingRequest, sink: Sink) -> EngineCall:
        call = EngineCall(self, request, sink)
        self.calls.append(call)
        sink.feed_from(call)
        self._line.append(call)
        asyncio.get_running_loop().call_soon(self._fill)
        return call

    def release(self, call: EngineCall) -> None:
        if call in self._running:
            self._running.remove(call)
        elif call in self._line:
            self._line.remove(call)
        asyncio.get_running_loop().call_soon(self._fill)

    def _fill(self) -> None:
        while self._line and len(self._running) < self.slots:
            call = self._line.popleft()
            self._running.append(call)
            call.begin()


def reach_engine(target, engine: SlotEngine) -> Reachable:
    """A target that this engine serves."""
    return Reachable(target, engine, f"{target.name}-model", Fit())
