"""Two tiers without keys: believable speeds, all dialects, tool calls, JSON, usage, and faults on demand.

Every answer says that it is simulated. Answers are canned, and written in `simulated_answer`.
"""

import asyncio
import time
from collections import deque
from math import inf
from typing import Annotated, ClassVar, Literal

import orjson
from pydantic import Field

from adapters.simulated_answer import write_answer
from adapters.simulated_request import find_orphan, lacks
from router.contract.digits import as_written
from router.contract.errors import UpstreamCut
from router.contract.relay import Adapter, AdapterSettings, Endpoint, OutgoingRequest, Sink, Upstream, UpstreamCall
from router.contract.request import JsonObject, RequestView
from router.contract.target import Speed
from router.contract.usage import Usage
from router.contract.words import Dialect, Feature, Operation
from router.dialects.composer import Answer, Composer, write_call
from router.dialects.headers import sdk_id_headers
from router.dialects.table import SPECS

_KEPT = {
    "previous_response_id": "previous_response_not_found",
    "conversation": "unsupported_parameter",
    "prompt": "unsupported_parameter",
}
"""Fields that need a host's stored state, with their error codes."""


class Fault(AdapterSettings):
    """Something that goes wrong, every time or now and then."""

    kind: Literal["queue", "loading", "rate_limit", "error", "cut", "too_long", "no_images"]
    """What goes wrong."""
    when: str = ""
    """Only bodies with this text."""
    every: Annotated[int, Field(ge=1)] = 1
    """Only every n-th time."""
    alternate_seconds: Annotated[float, Field(gt=0, le=3600)] | None = None
    """Off, then on, each this long."""
    seconds: Annotated[float, Field(ge=0, le=600)] = 5.0
    """How long `queue` waits and `loading` lasts."""
    retry_after_seconds: Annotated[float, Field(ge=0, le=3600)] | None = None
    """`Retry-After` of `rate_limit`."""
    status: Annotated[int, Field(ge=500, le=599)] = 503
    """Status of `error`."""
    after_tokens: Annotated[int, Field(ge=0)] = 10
    """Tokens that `cut` lets through."""


class SimulatedSettings(AdapterSettings):
    """How the simulated tier behaves."""

    ttft_seconds: Annotated[float, Field(ge=0, le=60)] = 0.2
    """To the first token, besides reading."""
    tokens_per_second: Annotated[float, Field(gt=0, le=100_000)] = 1000.0
    """How fast it writes."""
    prefill_tokens_per_second: Annotated[float, Field(gt=0)] = 60_000.0
    """How fast it reads."""
    answer_tokens: Annotated[int, Field(ge=1, le=100_000)] = 120
    """Usual length of answers."""
    slots: Annotated[int, Field(ge=1, le=10_000)] | None = None
    """Answers at once; others wait."""
    faults: tuple[Fault, ...] = ()
    """Faults to try."""

    def typical_speed(self) -> Speed:
        return Speed(self.ttft_seconds, self.tokens_per_second, self.prefill_tokens_per_second)


class SimulatedAdapter(Adapter):
    """Answers without a model, in the dialect of the request."""

    name: ClassVar[str] = "simulated"
    speaks: ClassVar[frozenset[Dialect]] = frozenset({Dialect.CHAT, Dialect.RESPONSES, Dialect.MESSAGES})
    Settings: ClassVar[type[AdapterSettings]] = SimulatedSettings
    needs_address: ClassVar[bool] = False
    is_model: ClassVar[bool] = False
    relays_bytes: ClassVar[bool] = False

    def __init__(self, endpoint: Endpoint, settings: SimulatedSettings, upstream: Upstream) -> None:
        self._settings = settings
        self._model = endpoint.model
        self._slots = _Slots(settings.slots)
        self._applied: dict[int, int] = {}
        self._began: float | None = None

    def open(self, request: OutgoingRequest, sink: Sink) -> UpstreamCall:
        fault = self._next_fault(request.view)
        return _SimulatedCall(request, sink, self._settings, self._model, fault, self._slots)

    def _next_fault(self, view: RequestView) -> Fault | None:
        for index, fault in enumerate(self._settings.faults):
            if fault.when and fault.when.encode() not in view.raw:
                continue
            if fault.kind == "no_images" and Feature.IMAGES not in view.needs:
                continue
            if fault.alternate_seconds and self._seconds_served() // fault.alternate_seconds % 2 == 0:
                continue
            if fault.kind == "loading" and self._seconds_served() >= fault.seconds:
                continue
            self._applied[index] = count = self._applied.get(index, 0) + 1
            if count % fault.every == 0:
                return fault
        return None

    def _seconds_served(self) -> float:
        now = asyncio.get_running_loop().time()
        if self._began is None:
            self._began = now
        return now - self._began


class _Slots:
    def __init__(self, count: int | None) -> None:
        self._free: float = count or inf
        self._waiting: deque[_SimulatedCall] = deque()

    def enter(self, call: "_SimulatedCall") -> None:
        if self._free:
            self._free -= 1
            call.take_slot()
        else:
            self._waiting.append(call)

    def leave(self, call: "_SimulatedCall", *, had_slot: bool) -> None:
        if not had_slot:
            self._waiting.remove(call)
        elif self._waiting:
            self._waiting.popleft().take_slot()
        else:
            self._free += 1


class _SimulatedCall:
    def __init__(
        self, request: OutgoingRequest, sink: Sink, settings: SimulatedSettings, model: str, fault: Fault | None, slots: _Slots
    ) -> None:
        self._request, self._sink, self._settings, self._fault, self._slots = request, sink, settings, fault, slots
        self._loop = asyncio.get_running_loop()
        view = request.view
        self._answer = write_answer(view, request.target.tier, settings.answer_tokens)
        self._usage = Usage(request.prompt_tokens, self._answer.tokens)
        self._sent = 0
        self._paused_at: float | None = None
        self._is_held = self._is_over = self._has_slot = False
        self._began_writing: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        options = view.body.get("stream_options")
        asks_usage = request.asks_usage or (isinstance(options, dict) and options.get("include_usage") is True)
        sends_usage = asks_usage or not view.is_streaming
        known = Answer(
            view.id.removeprefix("req_"),
            model,
            int(time.time()),
            sends_usage=sends_usage,
            shapes=self._answer.shapes,
            asked=view.as_sent,
        )
        self._composer: Composer = SPECS[view.dialect].composer(known)
        sink.feed_from(self)
        slots.enter(self)

    def take_slot(self) -> None:
        self._has_slot = True
        settings, fault, request = self._settings, self._fault, self._request
        wait = settings.ttft_seconds + request.prompt_tokens / settings.prefill_tokens_per_second
        if fault is not None and fault.kind == "queue":
            wait += fault.seconds
        if fault is not None and fault.kind in ("loading", "rate_limit", "error", "too_long", "no_images"):
            wait = 0.01
        if request.view.operation is Operation.COUNT_TOKENS:
            wait = 0.0
        self._timer = self._loop.call_later(wait, self._begin)

    def pause(self) -> None:
        if self._paused_at is None:
            self._paused_at = self._loop.time()

    def resume(self) -> None:
        """Continue without catching up: a paused model would not have run ahead."""
        if self._paused_at is None:
            return
        paused_seconds, self._paused_at = self._loop.time() - self._paused_at, None
        if self._is_held:
            self._is_held = False
            self._begin()
        elif self._began_writing is not None:
            self._began_writing += paused_seconds
            self._schedule(self._began_writing)

    def cancel(self) -> None:
        self._stop()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _begin(self) -> None:
        view = self._request.view
        if self._paused_at is not None:
            self._is_held = True
        elif self._refuses():
            return
        elif view.operation is Operation.COUNT_TOKENS:
            self._finish_whole({"input_tokens": self._request.prompt_tokens})
        elif view.is_streaming:
            self._began_writing = self._loop.time()
            self._sink.start(200, (("content-type", "text/event-stream; charset=utf-8"), *sdk_id_headers(view.id)))
            self._write(self._composer.open())
            self._write_due()
        else:
            seconds = self._usage.output_tokens / self._settings.tokens_per_second
            self._timer = self._loop.call_later(seconds, self._write_whole)

    def _write(self, data: bytes) -> bool:
        """Whether the sink still listens: it may hang up at every write."""
        if data and not self._is_over:
            self._sink.write(data)
        return not self._is_over

    def _end(self) -> None:
        if not self._is_over:
            self._stop()
            self._sink.end()

    def _stop(self) -> None:
        if not self._is_over:
            self._is_over = True
            self._slots.leave(self, had_slot=self._has_slot)

    def _refuses(self) -> bool:
        request, fault = self._request, self._fault
        kind = fault.kind if fault is not None else ""
        if kind == "loading":
            self._refuse(503, "unavailable_error", "Loading model")
        elif kind == "rate_limit":
            wait = fault.retry_after_seconds if fault is not None else None
            self._refuse(429, "rate_limit_exceeded", "Simulated: too many requests.", wait)
        elif kind == "error":
            self._refuse(fault.status if fault is not None else 503, "server_error", "Simulated: the server had an error.")
        elif kind == "too_long" or request.prompt_tokens > request.target.window_tokens:
            window = request.target.window_tokens
            words = f"prompt is too long: {request.prompt_tokens} tokens > {window} maximum (simulated)"
            self._refuse(400, "context_length_exceeded", words)
        elif kind == "no_images" or (Feature.IMAGES in request.view.needs and Feature.IMAGES not in request.target.accepts):
            self._refuse(400, "invalid_image", "Simulated: this model does not accept images.")
        elif SPECS[request.dialect].continues_responses and (kept := next(filter(request.view.body.get, _KEPT), None)):
            self._refuse(400, _KEPT[kept], f"Simulated: {kept}: nothing is stored here. Send the whole conversation in input.")
        elif missing := lacks(request.view.body):
            self._refuse(400, "unsupported_parameter", f"Simulated: {missing}")
        elif orphan := find_orphan(request.view.body):
            words = f"Simulated: No tool call found for function call output with call_id {orphan[:60]}."
            self._refuse(400, "invalid_request", words)
        else:
            return False
        return True

    def _refuse(self, status: int, code: str, message: str, retry_after: float | None = None) -> None:
        view = self._request.view
        body = SPECS[view.dialect].write_refusal(status, message, code, None, view.id)
        headers = [("content-type", "application/json")]
        if retry_after is not None:
            headers.append(("retry-after", f"{retry_after:g}"))
        self._sink.start(status, tuple(headers))
        self._write(orjson.dumps(body))
        self._end()

    def _write_due(self) -> None:
        if self._paused_at is not None or self._is_over or self._began_writing is None:
            return
        # One more is due whenever the timer fires, despite rounding.
        due = max(int((self._loop.time() - self._began_writing) * self._settings.tokens_per_second), self._sent) + 1
        cut_at = self._fault.after_tokens if self._fault is not None and self._fault.kind == "cut" else None
        if cut_at is not None:
            due = min(due, cut_at)
        frames = b"".join(self._composer.text(piece) for piece in self._answer.pieces[self._sent : due])
        total = self._answer.tokens
        self._sent = min(due, total)
        if not self._write(frames):
            return
        if cut_at is not None and self._sent >= min(cut_at, total):
            self._stop()
            self._sink.fail(UpstreamCut(self._request.target.name, "the simulated stream was cut, as configured"))
        elif self._sent < total:
            self._schedule(self._began_writing)
        else:
            self._write(self._write_end())
            self._end()

    def _write_end(self) -> bytes:
        answer = self._answer
        calls = b"".join(write_call(self._composer, call) for call in answer.calls)
        return calls + _name_stop(self._composer.close(answer.finish, self._usage), answer.stopped_by)

    def _schedule(self, began_writing: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        next_at = began_writing + self._sent / self._settings.tokens_per_second
        self._timer = self._loop.call_at(next_at, self._write_due)

    def _write_whole(self) -> None:
        self._composer.open()
        if self._answer.pieces:
            self._composer.text("".join(self._answer.pieces))
        self._write_end()
        self._finish_whole(self._composer.whole())

    def _finish_whole(self, body: JsonObject) -> None:
        self._sink.start(200, (("content-type", "application/json"), *sdk_id_headers(self._request.view.id)))
        self._write(_name_stop(orjson.dumps(body, default=as_written), self._answer.stopped_by))
        self._end()


def _name_stop(frames: bytes, stop: str | None) -> bytes:
    """Name the stop sequence in Messages, the only dialect that does."""
    if stop is None:
        return frames
    named = b'"stop_reason":"stop_sequence","stop_sequence":' + orjson.dumps(stop)
    return frames.replace(b'"stop_reason":"end_turn","stop_sequence":null', named)
