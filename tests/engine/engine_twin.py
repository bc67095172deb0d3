"""A stand-in for llama.cpp's server: its lists, errors, slots, timings and loading, without a model. It speaks Chat only."""

import asyncio
import contextlib
import json
import re
import time

from tests.tools.upstream import CHAT_STREAM_HEAD, Seen, Upstream, Wire
from tests.tools.waiting import by_the_clock

PACE = 400.0
"""Tokens a second."""
_WORD = re.compile(r"\S+")


class EngineTwin:
    """What is said of windows, slots and counts is as llama.cpp says it. A word is a token."""

    speaks = ("chat",)

    def __init__(self, *, window: int, slots: int) -> None:
        self.window, self.slots, self.model = window, slots, "twin"
        self.is_loading = False
        self._upstream, self._free = Upstream(), asyncio.Semaphore(slots)
        self._upstream.scripts = [self._answer]
        self._began = self._cancelled = 0
        self._port: int | None = None

    @property
    def base_url(self) -> str:
        return self._upstream.base_url

    @property
    def port(self) -> int:
        return self._port or 0

    async def start(self) -> None:
        await self._upstream.start(self._port)
        self._port, self.is_loading = int(self.base_url.rpartition(":")[2].removesuffix("/v1")), False

    async def start_loading(self) -> None:
        await self.start()
        self.is_loading = True

    async def kill(self) -> None:
        await self._upstream.stop()

    def began(self) -> int:
        return self._began

    def cancelled(self) -> int:
        return self._cancelled

    async def _answer(self, wire: Wire, seen: Seen) -> None:
        if self.is_loading:
            await _reply(wire, 503, {"error": {"message": "Loading model", "type": "unavailable_error", "code": 503}})
        elif seen.path in ("/health", "/v1/health"):
            await _reply(wire, 200, {"status": "ok"})
        elif seen.path == "/v1/models":
            await _reply(wire, 200, {"object": "list", "data": [self._model()]})
        elif seen.path == "/props":
            await _reply(wire, 200, {"total_slots": self.slots, "default_generation_settings": {"n_ctx": self.window}})
        else:
            await self._complete(wire, seen.json)

    def _model(self) -> dict:
        return {"id": self.model, "object": "model", "owned_by": "llamacpp", "meta": {"n_ctx": self.window, "n_params": 1}}

    async def _complete(self, wire: Wire, body: dict) -> None:
        said = " ".join(str(message["content"]) for message in body["messages"])
        prompt, most = len(_WORD.findall(said)), min(body.get("max_tokens") or body.get("max_completion_tokens") or 64, 4096)
        if prompt >= self.window:
            words = f"request ({prompt} tokens) exceeds the available context size ({self.window} tokens), try increasing it"
            error = {"code": 400, "message": words, "type": "exceed_context_size_error"}
            await _reply(wire, 400, {"error": {**error, "n_prompt_tokens": prompt, "n_ctx": self.window}})
            return
        try:
            async with self._free:
                self._began += 1
                await self._write(wire, body, prompt, most)
        except (asyncio.CancelledError, ConnectionError):
            self._cancelled += 1
            raise

    async def _write(self, wire: Wire, body: dict, prompt: int, count: int) -> None:
        began = time.monotonic()
        usage = {"prompt_tokens": prompt, "completion_tokens": count, "total_tokens": prompt + count}
        base = {"id": "chatcmpl-twin", "created": 1, "model": self.model}
        if not body.get("stream"):
            await by_the_clock(count / PACE)
            message = {"role": "assistant", "content": "word " * count}
            choice = {"index": 0, "message": message, "finish_reason": "length"}
            whole = {**base, "object": "chat.completion", "choices": [choice], "usage": usage}
            await _reply(wire, 200, {**whole, "timings": _timings(prompt, count, began)})
            return
        base["object"] = "chat.completion.chunk"
        await wire.send(CHAT_STREAM_HEAD)
        for number in range(count):
            await by_the_clock(max(0.0, began + (number + 1) / PACE - time.monotonic()))
            delta = {"index": 0, "delta": {"content": "word "}, "finish_reason": None}
            await _event(wire, {**base, "choices": [delta]})
        end = {"index": 0, "delta": {}, "finish_reason": "length"}
        last = {**base, "choices": [end]}
        if (body.get("stream_options") or {}).get("include_usage"):
            await _event(wire, last)
            last = {**base, "choices": [], "usage": usage}
        await _event(wire, {**last, "timings": _timings(prompt, count, began)})
        await wire.chunk(b"data: [DONE]\n\n")
        await wire.end_chunks()


def _timings(prompt: int, count: int, began: float) -> dict:
    seconds = time.monotonic() - began
    return {
        "cache_n": 0,
        "prompt_n": prompt,
        "prompt_ms": 1.0,
        "predicted_n": count,
        "predicted_ms": seconds * 1000,
        "predicted_per_second": count / seconds,
    }


async def _reply(wire: Wire, status: int, body: dict) -> None:
    data = json.dumps(body).encode()
    head = f"HTTP/1.1 {status} Told\r\ncontent-type: application/json\r\ncontent-length: {len(data)}\r\n\r\n"
    with contextlib.suppress(ConnectionError):
        await wire.send(head.encode() + data)


async def _event(wire: Wire, body: dict) -> None:
    await wire.chunk(b"data: %s\n\n" % json.dumps(body, separators=(",", ":")).encode())
