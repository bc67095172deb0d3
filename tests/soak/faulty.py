"""An upstream that breaks in a way that the request itself names, and what must become of such a request (faults U and S).

A prompt holds `fault:NAME`. The target speaks one dialect, and no other may serve, so every fault has one true outcome.
"""

import asyncio
import gzip
import json
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from tests.tools.speech import Speech, write_stream, write_whole
from tests.tools.upstream import CHAT_STREAM_HEAD, Seen, Wire, answer_json
from tests.tools.waiting import by_the_clock

BAD_BODIES = (
    b"",
    b"null",
    b'{"model": "auto", "messages": [',
    b'{"model": "auto", "messages": ' + b"[" * 100_000,
    b'{"model": "auto", "messages": [{"role": "user", "content": "\\ud800"}]}',
    b'{"model": "a\\u0000b", "messages": [{"role": "user", "content": "x"}]}',
    b'{"model": "auto", "messages": [{"role": "user", "content": "x"}], "max_tokens": %b}' % (b"9" * 5_000),
    b'{"model": "auto", "messages": [{"role": "user", "content": "x"}], "temperature": NaN}',
)


SERVED, REFUSED, FAILED, CUT, ABANDONED = "SERVED", "REFUSED", "FAILED", "CUT_SHORT", "ABANDONED"
SPEECH = Speech("a small answer to a small question")
PATHS = {"chat": "/v1/chat/completions", "responses": "/v1/responses", "messages": "/v1/messages"}
TERMINAL = {"chat": b"[DONE]", "responses": b"response.completed", "messages": b"message_stop"}
_DIALECT_OF = {path: dialect for dialect, path in PATHS.items()}
_JSON_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
_CHUNKED = b"transfer-encoding: chunked\r\n\r\n"
_NAMED = re.compile(rb"fault:([a-z0-9-]+)")


@dataclass(frozen=True)
class Asked:
    """What an upstream is asked, in the fewest words."""

    dialect: str
    is_streaming: bool

    @property
    def frames(self) -> list[bytes]:
        return write_stream(self.dialect, SPEECH)

    @property
    def whole(self) -> bytes:
        return json.dumps(write_whole(self.dialect, SPEECH)).encode()


Play = Callable[[Wire, Asked], Awaitable[None]]


@dataclass(frozen=True)
class Fault:
    """A way to break, with the outcome of a streamed and of a whole answer. None: it cannot break so."""

    play: Play
    streamed: str | None
    whole: str | None
    bridged: str | None = None
    """The outcome of a streamed answer over a bridge, where that differs."""

    def outcome(self, *, is_streaming: bool, is_bridged: bool) -> str | None:
        if is_streaming:
            return self.bridged if is_bridged and self.bridged else self.streamed
        return self.whole


async def _good(wire: Wire, asked: Asked) -> None:
    if asked.is_streaming:
        await wire.send(CHAT_STREAM_HEAD)
        for frame in asked.frames:
            await wire.chunk(frame)
        await wire.end_chunks()
    else:
        await wire.send(_JSON_HEAD + b"content-length: %d\r\n\r\n" % len(asked.whole) + asked.whole)


def _before(raw: bytes, *, then: Play | None = _good, closes: bool = False) -> Play:
    """Some bytes, and then an answer, a close, or nothing."""

    async def play(wire: Wire, asked: Asked) -> None:
        await wire.send(raw)
        if then is not None:
            await then(wire, asked)
        if closes:
            wire.writer.close()

    return play


def _after(raw: bytes) -> Play:
    """Something more after an answer, with the answer's last bytes: later it could be taken for the answer to another request."""

    async def play(wire: Wire, asked: Asked) -> None:
        if asked.is_streaming:
            await wire.send(CHAT_STREAM_HEAD)
            await wire.chunk(b"".join(asked.frames[:-1]))
            await wire.send(b"%x\r\n%b\r\n0\r\n\r\n" % (len(asked.frames[-1]), asked.frames[-1]) + raw)
        else:
            await wire.send(_JSON_HEAD + b"content-length: %d\r\n\r\n" % len(asked.whole) + asked.whole + raw)

    return play


def _cut(*, leave_out: int = 4, how: str = "ends", then: bytes = b"") -> Play:
    """An answer without its end; after it, maybe something else."""

    async def play(wire: Wire, asked: Asked) -> None:
        if asked.is_streaming:
            await wire.send(CHAT_STREAM_HEAD)
            for frame in asked.frames[: len(asked.frames) - leave_out]:
                await wire.chunk(frame)
            if then:
                await wire.chunk(then)
        else:
            await wire.send(_JSON_HEAD + b"content-length: %d\r\n\r\n" % len(asked.whole) + asked.whole[:40])
        await by_the_clock(0.02)  # a reset takes back what is still in the socket
        if how == "ends" and asked.is_streaming:
            await wire.end_chunks()
        elif how == "stalls":
            await asyncio.Event().wait()
        elif how == "resets":
            wire.reset()
        else:
            wire.writer.close()

    return play


async def _reset(wire: Wire, asked: Asked) -> None:
    wire.reset()


async def _silent(wire: Wire, asked: Asked) -> None:
    await asyncio.Event().wait()


async def _error_in_midst(wire: Wire, asked: Asked) -> None:
    error = {"message": "it broke", "type": "api_error"}
    event = {"chat": {"error": error}, "messages": {"type": "error", "error": error}, "responses": {"type": "error", **error}}
    event["responses"]["type"] = "error"
    body = json.dumps(event[asked.dialect]).encode()
    name = b"" if asked.dialect == "chat" else b"event: error\n"
    await _cut(then=name + b"data: " + body + b"\n\n")(wire, asked)


async def _error_first(wire: Wire, asked: Asked) -> None:
    body = json.dumps({"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}).encode()
    await wire.send(CHAT_STREAM_HEAD)
    await wire.chunk(b"event: error\ndata: " + body + b"\n\n")
    await wire.end_chunks()


async def _bad_event(wire: Wire, asked: Asked) -> None:
    await wire.send(CHAT_STREAM_HEAD)
    for frame in (*asked.frames[:3], b"data: {not json}\n\n", *asked.frames[3:]):
        await wire.chunk(frame)
    await wire.end_chunks()


async def _drip(wire: Wire, asked: Asked) -> None:
    head = CHAT_STREAM_HEAD.replace(b"transfer-encoding: chunked", b"connection: close")
    raw = head + b"".join(asked.frames) if asked.is_streaming else _JSON_HEAD + b"connection: close\r\n\r\n" + asked.whole
    for place in range(0, len(raw), 7):
        await wire.send(raw[place : place + 7])
    wire.writer.close()


async def _coalesced(wire: Wire, asked: Asked) -> None:
    body = b"".join(asked.frames) if asked.is_streaming else asked.whole
    kind = b"text/event-stream" if asked.is_streaming else b"application/json"
    await wire.send(b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\ncontent-length: %d\r\n\r\n%b" % (kind, len(body), body))


async def _trailers(wire: Wire, asked: Asked) -> None:
    await wire.send(CHAT_STREAM_HEAD if asked.is_streaming else _JSON_HEAD + _CHUNKED)
    await wire.chunk(b"".join(asked.frames) if asked.is_streaming else asked.whole)
    await wire.send(b"0\r\nx-checksum: 1\r\ncontent-type: text/html\r\n\r\n")


def _declares(difference: int) -> Play:
    """A content-length that is not the body's."""

    async def play(wire: Wire, asked: Asked) -> None:
        frames = asked.frames
        body = b"".join(frames) if asked.is_streaming else asked.whole
        length = len(body) + difference if difference > 0 or not asked.is_streaming else len(b"".join(frames[:-4]))
        kind = b"text/event-stream" if asked.is_streaming else b"application/json"
        await wire.send(b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\ncontent-length: %d\r\n\r\n%b" % (kind, length, body))
        wire.writer.close()

    return play


async def _without_last_chunk(wire: Wire, asked: Asked) -> None:
    await wire.send(CHAT_STREAM_HEAD if asked.is_streaming else _JSON_HEAD + _CHUNKED)
    await wire.chunk(b"".join(asked.frames) if asked.is_streaming else asked.whole)
    wire.writer.close()


async def _bomb(wire: Wire, asked: Asked) -> None:
    raw = gzip.compress(b"x" * 5_000_000)
    kind = b"text/event-stream" if asked.is_streaming else b"application/json"
    head = b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\ncontent-encoding: gzip\r\ncontent-length: %d\r\n\r\n"
    await wire.send(head % (kind, len(raw)) + raw)


async def _comments(wire: Wire, asked: Asked) -> None:
    await wire.send(CHAT_STREAM_HEAD)
    for _ in range(5):
        await wire.chunk(b": wait\n\n")
    await wire.end_chunks()


async def _linger(wire: Wire, asked: Asked) -> None:
    await wire.send(CHAT_STREAM_HEAD)
    await wire.chunk(b"".join(asked.frames))
    await asyncio.Event().wait()


def _status(status: int, body: dict | bytes | None = None, **headers: str) -> Play:
    async def play(wire: Wire, asked: Asked) -> None:
        refusal = {"error": {"message": "no", "type": "some_error"}} if body is None else body
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        await answer_json(refusal, status, named)(wire, Seen("", "", {}, b""))

    return play


FAULTS: dict[str, Fault] = {
    "none": Fault(_good, SERVED, SERVED),
    "reset": Fault(_reset, FAILED, FAILED),
    "half-head": Fault(_before(b"HTTP/1.1 200 OK\r\ncontent-ty", then=None, closes=True), FAILED, FAILED),
    "endless-head": Fault(_before(b"HTTP/1.1 200 OK\r\n" + b"x-a: b\r\n" * 20_000), FAILED, FAILED),
    "noise": Fault(_before(b"\x16\x03\x01 not http at all\r\n\r\n"), FAILED, FAILED),
    "switch": Fault(_before(b"HTTP/1.1 101 Switching\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n"), FAILED, FAILED),
    "silence": Fault(_silent, FAILED, FAILED),
    "silent-head": Fault(_before(b"HTTP/1.1 200 OK\r\nx-a: b\r\n", then=_silent), FAILED, FAILED),
    "html": Fault(_status(200, b"<html>hello</html>", content_type="text/html"), FAILED, FAILED),
    "empty": Fault(_status(200, b""), FAILED, FAILED),
    "other-shape": Fault(_status(200, {"hello": "world"}), FAILED, FAILED),
    "redirect": Fault(_status(302, b"", location="http://127.0.0.1:1/"), FAILED, FAILED),
    "long-length": Fault(_declares(50), SERVED, FAILED),
    "short-length": Fault(_declares(-3), CUT, FAILED),
    "no-last-chunk": Fault(_without_last_chunk, SERVED, FAILED),
    "talks-on": Fault(_after(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nextra"), SERVED, SERVED),
    "garbage-after": Fault(_after(b"\0\0\0"), SERVED, SERVED),
    "trailers": Fault(_trailers, SERVED, SERVED),
    "interim": Fault(_before(b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" * 50), SERVED, SERVED),
    "endless-interim": Fault(_before(b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" * 200), FAILED, FAILED),
    "bomb": Fault(_bomb, FAILED, FAILED),
    "drip": Fault(_drip, SERVED, SERVED),
    "coalesced": Fault(_coalesced, SERVED, SERVED),
    "comments": Fault(_comments, FAILED, None),
    "error-first": Fault(_error_first, FAILED, None),
    "error-in-midst": Fault(_error_in_midst, FAILED, None),
    "bad-event": Fault(_bad_event, SERVED, None, bridged=FAILED),
    "cut": Fault(_cut(), CUT, FAILED),
    "reset-in-midst": Fault(_cut(how="resets"), CUT, FAILED),
    "stall": Fault(_cut(how="stalls"), CUT, FAILED),
    "linger": Fault(_linger, SERVED, None),
    **{f"status-{status}": Fault(_status(status), REFUSED, REFUSED) for status in (400, 413, 422)},
    **{f"status-{status}": Fault(_status(status), FAILED, FAILED) for status in (401, 402, 403, 404, 500, 502, 503, 529)},
}


GIVEN_UP = frozenset({"silence", "silent-head", "stall", "linger"})
"""Faults that end by a timeout of ours. Only these may be asked of a target with short ones: on a busy machine any may be slow."""


async def break_as_asked(wire: Wire, seen: Seen) -> None:
    """The script of an upstream that does as each request says."""
    named = _NAMED.search(seen.body)
    if (path := seen.path.partition("?")[0]) not in _DIALECT_OF:  # a rest asks for the health of an engine
        await _status(404)(wire, Asked("chat", is_streaming=False))
        return
    asked = Asked(_DIALECT_OF[path], bool(seen.json.get("stream")))
    await FAULTS[named[1].decode() if named else "none"].play(wire, asked)


def ask_for(dialect: str, model: str, fault: str, *, is_streaming: bool) -> dict:
    """A request whose answer breaks so."""
    words = [{"role": "user", "content": f"please do it as {model}, fault:{fault}"}]
    more = {"chat": {"messages": words}, "responses": {"input": words}, "messages": {"messages": words, "max_tokens": 99}}
    return {"model": model, "stream": is_streaming, **more[dialect]}


def one_target_each(base_url: str, key: str, requests: int) -> str:
    """A config with two targets of each dialect, and names for this many requests to each: `chat-7` goes to `chat-target`
    alone, and `chat-hasty-7` to one that gives up after four seconds."""
    targets = "\n".join(
        f"      - {{name: {dialect}{kind}-target, adapter: {adapter}, dialect: {dialect}, base_url: '{url}', api_key: '{key}',"
        f" model: some-model, window_tokens: 400000,"
        f" timeouts: {{connect_seconds: 60, first_byte_seconds: {seconds}, stall_seconds: {seconds}}}}}"
        for dialect, adapter, url in (
            ("chat", "openai_http", base_url),
            ("responses", "openai_http", base_url),
            ("messages", "anthropic_http", base_url.removesuffix("/v1")),
        )
        for kind, seconds in (("", 60), ("-hasty", 4))
    )
    names = (f"{dialect}{kind}" for dialect in PATHS for kind in ("", "-hasty"))
    models = ", ".join(f"{name}-{number}: {name}-target" for name in names for number in range(requests))
    return f"""
ledger: {{path: test.db}}
models: {{{models}}}
tiers:
  fast:
    targets:
{targets}
  deep: {{targets: [{{name: spare, adapter: simulated}}]}}
limits: {{max_in_flight: 500, drain_seconds: 30}}
"""
