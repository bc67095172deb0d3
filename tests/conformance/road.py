"""Whole requests in memory: the ASGI app, a house, and targets that speak one dialect or are simulated."""

import asyncio
import json
from dataclasses import dataclass
from typing import Any

from adapters.simulated import SimulatedAdapter
from router.contract.relay import Endpoint, OutgoingRequest, Sink
from router.contract.words import Dialect, Feature, Operation, Tier
from router.dialects.fitting import Fit
from router.dispatch.outgoing import Reachable
from router.wiring.built import Built
from router.wiring.panels import build_edge
from tests.tools.houses import make_house
from tests.tools.scripted import EVENTS, JSON, Script, ScriptedAdapter, ScriptedCall
from tests.tools.speech import Speech, write_stream, write_whole
from tests.tools.values import EVERYTHING, make_target

PATHS = {"chat": "/v1/chat/completions", "responses": "/v1/responses", "messages": "/v1/messages"}
SIMULATED = "simulated"
_COMPLETION = b"""{"id": "cmpl-x", "object": "text_completion", "created": 1, "model": "host-model",
 "choices": [{"index": 0, "text": "Hello.", "logprobs": null, "finish_reason": "stop"}]}""".replace(b"\n", b"")


@dataclass(frozen=True)
class Reply:
    """An answer. `is_whole` is false where it was cut."""

    status: int
    headers: dict[str, str]
    body: bytes
    is_whole: bool

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class SpeakingAdapter:
    """Answers every request with one speech, whole or streamed as it is asked."""

    def __init__(self, dialect: str, speech: Speech, sent: list[bytes]) -> None:
        self._dialect, self._speech, self._sent = dialect, speech, sent

    def open(self, request: OutgoingRequest, sink: Sink) -> ScriptedCall:
        call = ScriptedCall()
        self._sent.append(request.body)
        sink.feed_from(call)
        asyncio.get_running_loop().call_soon(self._play, request, sink, call)
        return call

    def _play(self, request: OutgoingRequest, sink: Sink, call: ScriptedCall) -> None:
        streams = request.view.is_streaming
        sink.start(200, EVENTS if streams else JSON)
        if request.view.operation is Operation.COUNT_TOKENS:
            pieces = [b'{"input_tokens": 7}']
        elif request.dialect is Dialect.COMPLETIONS:
            pieces = [b"data: " + _COMPLETION + b"\n\n", b"data: [DONE]\n\n"] if streams else [_COMPLETION]
        else:
            whole = json.dumps(write_whole(self._dialect, self._speech)).encode()
            pieces = write_stream(self._dialect, self._speech) if streams else [whole]
        for piece in pieces:
            if call.is_cancelled:
                return
            sink.write(piece)
        sink.end()


def _reach(name: str, tier: Tier, upstream: str, says: Speech | Script, sent: list[bytes]) -> Reachable:
    if upstream != SIMULATED:
        speaks = {Dialect(upstream), Dialect.COMPLETIONS} if upstream == "chat" else {Dialect(upstream)}
        accepts = EVERYTHING if upstream == "chat" else EVERYTHING - {Feature.COMPLETIONS}
        target = make_target(name, tier, speaks=frozenset(speaks), accepts=accepts)
        adapter = SpeakingAdapter(upstream, says, sent) if isinstance(says, Speech) else ScriptedAdapter(says)
        return Reachable(target, adapter, "host-model", Fit())
    # Powers of two: on a clock that jumps to the very moment of a timer, no fraction may be rounded down to a token less.
    settings = SimulatedAdapter.Settings(
        ttft_seconds=0.25, tokens_per_second=64.0, prefill_tokens_per_second=65_536.0, answer_tokens=30
    )
    target = make_target(name, tier, speaks=SimulatedAdapter.speaks)
    return Reachable(target, SimulatedAdapter(Endpoint("simulated-model"), settings, None), "simulated-model", Fit())


class Tandem:
    """A router without a socket."""

    def __init__(self, upstream: str, speech: Speech | None = None) -> None:
        self.sent: list[bytes] = []
        """Bodies of what a speech answered."""
        speech, tiers = speech or Speech("Hello."), {"spark": Tier.FAST, "sage": Tier.DEEP}
        house = make_house(*(_reach(name, tier, upstream, speech, self.sent) for name, tier in tiers.items()))
        _, self._app = build_edge(Built(house), lambda: True)

    async def call(
        self, path: str, body: object = None, method: str | None = None, headers: dict[str, str] | None = None
    ) -> Reply:
        """One request, from its head to the last byte of its answer."""
        raw = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        given = {"host": "127.0.0.1", "content-type": "application/json", "content-length": str(len(raw)), **(headers or {})}
        target, _, query = path.partition("?")
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method or ("GET" if body is None else "POST"),
            "scheme": "http",
            "path": target,
            "raw_path": target.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": [(name.encode(), value.encode()) for name, value in given.items()],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 2),
        }
        coming, sent = [{"type": "http.request", "body": raw, "more_body": False}], []

        async def receive() -> dict:
            return coming.pop() if coming else await asyncio.Event().wait()

        async def send(message: dict) -> None:
            sent.append(message)

        await self._app(scope, receive, send)
        start, *pieces = sent
        found = {name.decode(): value.decode("latin-1") for name, value in start["headers"]}
        is_whole = bool(pieces) and not pieces[-1].get("more_body", False)
        return Reply(start["status"], found, b"".join(piece.get("body", b"") for piece in pieces), is_whole)
