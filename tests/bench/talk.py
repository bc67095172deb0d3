"""An upstream of the Responses API: it streams tokens with a time in each, thinks, calls a tool, and knows when it is left alone.

How it answers is told by the newest words of the request: `think=20 tokens=50 rate=1000 calls=1`. Used in a process of its own,
or in the benchmark's, which then knows when a request had arrived.
"""

import asyncio
import contextlib
import itertools
import json
import re
import sys
import time

from tests.bench.upstream import chunk

PLAN = re.compile(rb"think=(\d+) tokens=(\d+) rate=(\d+) calls=(\d+)")
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
SEALED = "gAAAAAB" + "qZ3vX0nT5wLr8uYk" * 140
"""What a model that reasons adds to its answer, for its own eyes: 2 KB."""
ARGUMENTS = json.dumps({"path": "src/accounts/amounts.py", "first_line": "1", "last_line": "400"})
_ids = itertools.count(1)


def plan(*, think_ms: int = 0, tokens: int = 50, per_second: int = 1_000, calls: int = 0) -> str:
    """The words that ask for such an answer. Without a rate (0), no token comes after the first."""
    return f"think={think_ms} tokens={tokens} rate={per_second} calls={calls}"


def event(kind: str, number: int, **more: object) -> bytes:
    told = {"type": kind, "sequence_number": number, **more}
    return f"event: {kind}\ndata: {json.dumps(told, separators=(',', ':'))}\n\n".encode()


class Answer:
    """The events of one answer. Its words are times, so that it is known how late each of them is."""

    def __init__(self, *, calls_tool: bool) -> None:
        self.id, self.calls_tool = f"resp_{next(_ids):08d}", calls_tool
        self.number = itertools.count()
        self.words: list[str] = []
        self.items: list[dict] = []

    def begin(self) -> bytes:
        self.items.append({"type": "reasoning", "id": f"rs_{self.id}", "summary": [], "encrypted_content": SEALED})
        message = {"type": "message", "id": f"msg_{self.id}", "role": "assistant", "status": "in_progress", "content": []}
        part = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
        return b"".join(
            (
                self._say("response.created", response=self._response("in_progress")),
                self._say("response.in_progress", response=self._response("in_progress")),
                self._say("response.output_item.added", output_index=0, item={**self.items[0], "encrypted_content": None}),
                self._say("response.output_item.done", output_index=0, item=self.items[0]),
                self._say("response.output_item.added", output_index=1, item=message),
                self._say("response.content_part.added", output_index=1, content_index=0, item_id=message["id"], part=part),
            )
        )

    def token(self) -> bytes:
        self.words.append(f"{time.monotonic_ns():020d} ")
        at = {"item_id": f"msg_{self.id}", "output_index": 1, "content_index": 0}
        return self._say("response.output_text.delta", **at, delta=self.words[-1], logprobs=[])

    def end(self) -> bytes:
        text, at = "".join(self.words), {"item_id": f"msg_{self.id}", "output_index": 1, "content_index": 0}
        part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
        message = {"type": "message", "id": at["item_id"], "role": "assistant", "status": "completed", "content": [part]}
        self.items.append(message)
        events = [
            self._say("response.output_text.done", **at, text=text, logprobs=[]),
            self._say("response.content_part.done", **at, part=part),
            self._say("response.output_item.done", output_index=1, item=message),
            *(self._call() if self.calls_tool else ()),
        ]
        return b"".join([*events, self._say("response.completed", response=self._response("completed"))])

    def _call(self) -> tuple[bytes, ...]:
        call = {"type": "function_call", "id": f"fc_{self.id}", "call_id": f"call_{self.id}", "name": "read_file"}
        self.items.append(done := {**call, "arguments": ARGUMENTS, "status": "completed"})
        return (
            self._say("response.output_item.added", output_index=2, item={**done, "arguments": "", "status": "in_progress"}),
            self._say("response.function_call_arguments.delta", output_index=2, item_id=call["id"], delta=ARGUMENTS),
            self._say("response.function_call_arguments.done", output_index=2, item_id=call["id"], arguments=ARGUMENTS),
            self._say("response.output_item.done", output_index=2, item=done),
        )

    def whole(self) -> dict:
        return self._response("completed")

    def _say(self, kind: str, **more: object) -> bytes:
        return event(kind, next(self.number), **more)

    def _response(self, status: str) -> dict:
        made = len(self.words)
        details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
        usage = {"input_tokens": 1_000, "output_tokens": made, "total_tokens": 1_000 + made, **details}
        return {
            "id": self.id,
            "object": "response",
            "created_at": 1,
            "status": status,
            "model": "m",
            "output": self.items if status == "completed" else [],
            "usage": usage if status == "completed" else None,
        }


class Talk(asyncio.Protocol):
    """One connection. `heard` is told when a request is here to its last byte, `left` when its caller leaves an answer."""

    def __init__(self, heard=lambda at, size: None, left=lambda at: None) -> None:
        self.heard, self.left = heard, left
        self.buffer, self.missing = bytearray(), 0
        self.task: asyncio.Task | None = None

    def connection_made(self, transport) -> None:
        self.transport = transport

    def connection_lost(self, error) -> None:
        if self.task is not None and not self.task.done():
            self.left(time.monotonic())
            self.task.cancel()

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        if len(self.buffer) < self.missing:
            return
        end = self.buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        length = re.search(rb"content-length: *(\d+)", bytes(self.buffer[:end]).lower())
        size = end + 4 + (int(length[1]) if length else 0)
        if len(self.buffer) < size:
            self.missing = size
            return
        body, self.missing = bytes(self.buffer[end + 4 : size]), 0
        del self.buffer[:size]
        self.heard(time.monotonic(), size)
        self.task = asyncio.get_running_loop().create_task(self.answer(body))

    async def answer(self, body: bytes) -> None:
        asked = [*PLAN.finditer(body)]
        think, tokens, rate, calls = map(int, asked[-1].groups()) if asked else (0, 1, 1000, 0)
        answer = Answer(calls_tool=bool(calls))
        if b'"stream":true' not in body:
            answer.begin()
            answer.token()
            answer.end()
            whole = json.dumps(answer.whole()).encode()
            self.transport.write(
                b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(whole), whole)
            )
            return
        if think:
            await asyncio.sleep(think / 1000)
        self.transport.write(HEAD + chunk(answer.begin()))
        began = time.monotonic()
        for number in range(tokens):
            if number and not rate:
                await asyncio.Event().wait()
            if number and (wait := began + number / rate - time.monotonic()) > 0:
                await asyncio.sleep(wait)
            self.transport.write(chunk(answer.token()))
        self.transport.write(chunk(answer.end()) + b"0\r\n\r\n")


async def main(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(Talk, "127.0.0.1", port)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        try:
            import uvloop

            uvloop.run(main(int(sys.argv[1])))
        except ImportError:
            asyncio.run(main(int(sys.argv[1])))
