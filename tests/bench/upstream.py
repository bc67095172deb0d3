"""The benchmark's upstream: a process of its own that answers at once, or streams tokens with a time in each.

A stream has 1,000 tokens a second, or makes each when it is told to: `PULL`, and then a byte with the stream's number for
each token, plus `END` for its end.
"""

import asyncio
import contextlib
import json
import sys
import time
from typing import ClassVar

ANSWER = json.dumps(
    {
        "id": "x",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "done"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 5, "completion_tokens": 1, "total_tokens": 6},
    }
).encode()
WHOLE = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s" % (len(ANSWER), ANSWER)
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
FRAME = b'data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"%020d "},"finish_reason":null}]}\n\n'
LAST = b'data: {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
RESPONSE = {"id": "resp_1", "object": "response", "created_at": 1, "model": "m", "status": "completed", "error": None}
MESSAGE = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed"}
SAID = {"type": "output_text", "text": "done", "annotations": [], "logprobs": []}
USAGE = {"input_tokens": 5, "output_tokens": 1, "total_tokens": 6}
RESPONDED = json.dumps({**RESPONSE, "output": [{**MESSAGE, "content": [SAID]}], "usage": USAGE}).encode()
WHOLE_RESPONSE = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s" % (
    len(RESPONDED),
    RESPONDED,
)
EVENTS: tuple[tuple[str, dict], ...] = (
    ("response.created", {"response": {**RESPONSE, "status": "in_progress", "output": []}}),
    ("response.output_item.added", {"output_index": 0, "item": {**MESSAGE, "status": "in_progress", "content": []}}),
    ("response.content_part.added", {"output_index": 0, "content_index": 0, "item_id": "msg_1", "part": {**SAID, "text": ""}}),
    ("response.output_text.delta", {"output_index": 0, "content_index": 0, "item_id": "msg_1", "delta": "done"}),
    ("response.output_text.done", {"output_index": 0, "content_index": 0, "item_id": "msg_1", "text": "done"}),
    ("response.content_part.done", {"output_index": 0, "content_index": 0, "item_id": "msg_1", "part": SAID}),
    ("response.output_item.done", {"output_index": 0, "item": {**MESSAGE, "content": [SAID]}}),
    ("response.completed", {"response": json.loads(RESPONDED)}),
)
PULL = b"PULL"
END = 128


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def _write_events() -> bytes:
    """A short answer of the Responses API, streamed in one piece."""
    told = ({"type": kind, "sequence_number": number, **more} for number, (kind, more) in enumerate(EVENTS))
    lines = (f"event: {each['type']}\ndata: {json.dumps(each, separators=(',', ':'))}\n\n".encode() for each in told)
    return HEAD + chunk(b"".join(lines)) + b"0\r\n\r\n"


STREAMED_RESPONSE = _write_events()


class Upstream(asyncio.Protocol):
    """Counts bytes only as far as it must: the head ends at an empty line, the body where its length says."""

    pulled: ClassVar[dict[int, "Upstream"]] = {}

    def __init__(self) -> None:
        self.buffer = b""
        self.pulls = False
        self.task: asyncio.Task | None = None

    def connection_made(self, transport) -> None:
        self.transport = transport

    def connection_lost(self, error) -> None:
        if self.task is not None:
            self.task.cancel()

    def data_received(self, data: bytes) -> None:
        if data.startswith(PULL) or self.pulls:
            self.pulls = True
            for number in data.removeprefix(PULL):
                self.pulled[number & ~END].send_pulled(is_last=number >= END)
            return
        self.buffer += data
        while (end := self.buffer.find(b"\r\n\r\n")) >= 0:
            head = self.buffer[:end].lower()
            length = int(head.split(b"content-length:")[1].split(b"\r\n")[0]) if b"content-length:" in head else 0
            if len(self.buffer) < end + 4 + length:
                return
            body, self.buffer = self.buffer[end + 4 : end + 4 + length], self.buffer[end + 4 + length :]
            is_streaming = b'"stream":true' in body[:200] or b'"stream":true' in body[-200:]
            if head.startswith(b"post /v1/responses "):
                self.transport.write(STREAMED_RESPONSE if is_streaming else WHOLE_RESPONSE)
            elif is_streaming:
                self.begin_stream(body)
            else:
                self.transport.write(WHOLE)

    def begin_stream(self, body: bytes) -> None:
        if b" pull=" in body:
            self.pulled[int(body.split(b" pull=")[1].split(b" ")[0])] = self
            self.transport.write(HEAD + chunk(FRAME % time.monotonic_ns()))
        else:
            tokens = int(body.split(b"tokens=")[1].split(b" ")[0])
            self.task = asyncio.get_running_loop().create_task(self.stream(tokens))

    def send_pulled(self, *, is_last: bool) -> None:
        self.transport.write(chunk(LAST) + b"0\r\n\r\n" if is_last else chunk(FRAME % time.monotonic_ns()))

    async def stream(self, tokens: int) -> None:
        loop, began = asyncio.get_running_loop(), time.monotonic()
        self.transport.write(HEAD + chunk(FRAME % time.monotonic_ns()))
        for number in range(1, tokens):
            wait = began + number / 1000 - time.monotonic()
            if wait > 0:
                await asyncio.sleep(wait)
            self.transport.write(chunk(FRAME % time.monotonic_ns()))
        self.transport.write(chunk(LAST) + b"0\r\n\r\n")
        assert loop


async def main(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(Upstream, "127.0.0.1", port)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        try:
            import uvloop

            uvloop.run(main(int(sys.argv[1])))
        except ImportError:
            asyncio.run(main(int(sys.argv[1])))
