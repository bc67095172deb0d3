"""An agent's tool loop: its history grows by a tool's output in every round. Over HTTP it sends all of it, over a socket what is new."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable

from msgspec import Struct
from websockets.asyncio.client import ClientConnection

from tests.bench.agent import SYSTEM, TOOLS
from tests.bench.talk import plan

ROUNDS = 20
HISTORY_BYTES = 400_000
THINK_MS, ANSWER_TOKENS, TOKENS_PER_SECOND = 50, 50, 1_000
"""A model of the fast tier."""
ANSWERED = 3_900
"""About what an answer adds to a history by itself: sealed reasoning, words, a call."""


class Trip(Struct):
    """One round trip, on the monotonic clock."""

    sent: float
    first_token: float = 0.0
    first_token_made: float = 0.0
    ended: float = 0.0
    output: list = []
    response_id: str = ""
    tokens: int = 0
    json_bytes: int = 0
    """All that the events of the answer say, without what carries them."""

    def hear(self, data: bytes) -> bool:
        """Take the JSON of one event. Whether it was the last."""
        self.json_bytes += len(data)
        if b'"response.output_text.delta"' in data[:200]:
            self.tokens += 1
            if not self.first_token:
                self.first_token = time.monotonic()
                self.first_token_made = int(json.loads(data)["delta"]) / 1e9
        elif b'"response.completed"' in data[:200]:
            self.ended = time.monotonic()
            response = json.loads(data)["response"]
            self.output, self.response_id = response["output"], response["id"]
            return True
        elif data.startswith(b'{"type":"error"') or b'"response.failed"' in data[:200]:
            raise RuntimeError(data[:500].decode())
        return False


def tools() -> list[dict]:
    return [
        {
            "type": "function",
            "name": name,
            "description": purpose,
            "strict": False,
            "parameters": {
                "type": "object",
                "properties": {field: {"type": "string", "description": f"The {field} of the call."} for field in fields},
                "required": list(fields[:1]),
                "additionalProperties": False,
            },
        }
        for name, (purpose, fields) in TOOLS.items()
    ]


def body_of(items: list, **more: object) -> bytes:
    request = {"model": "auto", "store": False, "tools": tools(), "tool_choice": "auto", "input": items, **more}
    return json.dumps(request, separators=(",", ":")).encode()


def first_items(words: str) -> list:
    return [
        {"type": "message", "role": "developer", "content": SYSTEM * 30},
        {"type": "message", "role": "user", "content": f"Fix the typo in amounts.py. {words}"},
    ]


def tool_output(output: list, size: int, words: str) -> dict:
    """What the tool answers: source code of a given size."""
    call = next(item for item in output if item["type"] == "function_call")
    lines, number = [], 0
    while size > 0:
        lines.append(f"{number:5}  total_{number * 7919 % 10007} = read_amount(row[{number}], currency=row.currency)  # cents")
        size -= len(lines[-1]) + 2
        number += 1
    return {"type": "function_call_output", "call_id": call["call_id"], "output": "\n".join([*lines, words])}


async def run(ask: Callable[[list, list, str], AsyncIterator[bytes]], rounds: int = ROUNDS) -> list[Trip]:
    """The whole loop. `ask` is given all items, the new ones and the response before, and gives the events' JSON."""
    words = plan(think_ms=THINK_MS, tokens=ANSWER_TOKENS, per_second=TOKENS_PER_SECOND, calls=1)
    trips: list[Trip] = []
    history, new, previous = [], first_items(words), ""
    for _ in range(rounds):
        history = [*history, *new]
        trip = Trip(time.monotonic())
        async for data in ask(history, new, previous):
            trip.hear(data)
        trips.append(trip)
        history = [*history, *trip.output]
        new, previous = [tool_output(trip.output, HISTORY_BYTES // rounds - ANSWERED, words)], trip.response_id
    return trips


class HttpAgent:
    """Sends the whole history every time, on one connection that stays, as Codex does."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def ask(self, history: list, new: list, previous: str) -> AsyncIterator[bytes]:
        async for data in self.post(body_of(history, stream=True)):
            yield data

    async def post(self, body: bytes) -> AsyncIterator[bytes]:
        head = (
            f"POST /v1/responses HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: {len(body)}"
        )
        self._writer.write(head.encode() + b"\r\n\r\n" + body)
        answered = await self._reader.readuntil(b"\r\n\r\n")
        if b" 200 " not in answered[:20]:
            raise RuntimeError(answered.decode())
        rest = b""
        while size := int(await self._reader.readline(), 16):
            rest += (await self._reader.readexactly(size + 2))[:-2]
            *events, rest = rest.split(b"\n\n")
            for said in events:
                data = said.partition(b"data: ")[2]
                if data.startswith(b"{"):
                    yield data
        await self._reader.readline()

    async def whole(self, body: bytes) -> Trip:
        """One answer, to its last byte."""
        trip = Trip(time.monotonic())
        async for data in self.post(body):
            trip.hear(data)
        return trip


class StoringHttpAgent(HttpAgent):
    """Sends what is new, and says which stored response it goes on from."""

    async def ask(self, history: list, new: list, previous: str) -> AsyncIterator[bytes]:
        continues = {"previous_response_id": previous} if previous else {}
        async for data in self.post(body_of(new, stream=True, store=True, **continues)):
            yield data


class SocketAgent:
    """Sends what is new, and says which response it goes on from."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket

    async def ask(self, history: list, new: list, previous: str) -> AsyncIterator[bytes]:
        continues = {"previous_response_id": previous} if previous else {}
        await self.socket.send(body_of(new, type="response.create", **continues), text=True)
        data = b""
        while b'"response.completed"' not in data[:200]:
            data = await self.socket.recv(decode=False)
            yield data

    async def whole(self, body: bytes) -> Trip:
        """One answer."""
        trip = Trip(time.monotonic())
        await self.socket.send(body, text=True)
        while not trip.hear(await self.socket.recv(decode=False)):
            pass
        return trip
