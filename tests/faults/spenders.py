"""Callers who try to spend more than their budgets, and an upstream that counts what it wrote for each of them.

A token is four letters. A streamed piece is written when the one before it has reached its caller, so that nothing is in flight
when that caller leaves.
"""

import asyncio
import contextlib
import json
import random
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import yaml
from websockets.exceptions import WebSocketException

from router.contract.keys import NewKey
from tests.faults.test_ledger_kills import serving
from tests.tools.http import call, request_bytes
from tests.tools.keyed import write_keys
from tests.tools.sockets import TERMINAL, open_socket
from tests.tools.upstream import CHAT_STREAM_HEAD, Seen, Upstream, Wire, answer_json
from tests.tools.waiting import later

PRICES = {"spark": (1.0, 100.0), "sage": (4.0, 400.0)}
"""USD for a million tokens of input and output."""
BUDGETS = (0.02, 0.1, 0.5, 2.0)
LIMITS = (None, None, 1, 40, 300, 2_000, 50_000, 300.0)
LENGTHS = (1, 30, 300, 2_000, 6_000)
FLIGHT_TOKENS = 50
CUT_TOKENS = 2 * FLIGHT_TOKENS + 32
"""Written of a stream until it is cut: one piece before the look, one after it, and what a look leaves to a target that is
about to end its answer."""
_TAG = re.compile(rb"h(\d+)r(\d+)x")
_END_OF_PIECE = b"~"
_REPEATS = re.compile(rb"response\.(?:[a-z_]+\.done|completed|incomplete)")
"""From here on a response repeats what it said."""


@dataclass
class Wish:
    """One request: what its caller asks for, and what the upstream does with it."""

    number: int
    dialect: str
    kind: str
    length: int
    pieces: int
    limit: float | None
    answers: object
    leaves_after: int | None
    fails_first: bool
    repeats: int
    received: int = 0
    has_left: bool = False
    moved: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def is_cut_in_time(self) -> bool:
        """Whether its caller reads the answer piece by piece, so that the upstream is never ahead by more than one."""
        return self.kind != "whole"

    def move(self, received: int = 0, *, has_left: bool = False) -> None:
        self.received, self.has_left = max(self.received, received), self.has_left or has_left
        self.moved.set()

    async def until_received(self, pieces: int) -> bool:
        """False where the caller has left."""
        while self.received < pieces and not self.has_left:
            self.moved.clear()
            await self.moved.wait()
        return not self.has_left


@dataclass
class History:
    """What one caller does with its budget, and what that came to at the upstream."""

    number: int
    key: NewKey
    budget: float
    honours: bool
    rounds: list[list[Wish]]
    spent: float = 0.0
    dearest_whole: float = 0.0
    """What the dearest answer in one piece cost."""
    in_flight: float = 0.0
    """What was written for callers that left before the first piece. No router can have seen all of it."""
    calls: int = 0
    served: int = 0

    @property
    def wishes(self) -> dict[int, Wish]:
        return {wish.number: wish for wishes in self.rounds for wish in wishes}

    @property
    def over(self) -> float:
        return self.spent - self.budget

    @property
    def may_be_over(self) -> float:
        """What was in flight to callers that left; if the upstream ignores the cap, also one answer in one piece, and what was
        in flight of streams that were cut."""
        streams = max(sum(wish.is_cut_in_time for wish in wishes) for wishes in self.rounds)
        ignored = 0.0 if self.honours else self.dearest_whole + streams * CUT_TOKENS * PRICES["sage"][1] / 1e6
        return 1e-9 + self.in_flight + ignored

    def __str__(self) -> str:
        return f"history {self.number}: {self.spent:.6f} of {self.budget} USD, {self.served} served, {self.calls} calls"


def imagine(number: int, key: NewKey | None, seed: int) -> History:
    chance = random.Random(seed)
    honours, leaving = chance.random() < 0.7, chance.choice((0.0, 0.2, 0.9))
    rounds, count = [], 0
    for _ in range(chance.randint(1, 8 if leaving else 4)):
        teaches, at_once = chance.random() < 0.2, chance.choice((1, 2, 5, 12))
        wishes = [_wish(chance, count + index, leaving=leaving, teaches=teaches) for index in range(at_once)]
        rounds.append(wishes if honours else _without_flights(wishes))
        count += at_once
    return History(number, key, chance.choice(BUDGETS), honours, rounds)


def _wish(chance: random.Random, number: int, *, leaving: float, teaches: bool) -> Wish:
    dialect = chance.choice(("chat", "chat", "messages", "responses"))
    kind = chance.choices(("stream", "whole", "job", "socket"), (12, 8, 1, 2))[0]
    if kind in ("job", "socket"):
        dialect = "responses"
    length, limit = chance.choice(LENGTHS), 1 if teaches else chance.choice(LIMITS)
    if dialect == "messages":
        limit = int(limit or chance.choice((300, 32_000)))
    may_leave = kind in ("stream", "whole")
    leaves = chance.randint(0, 6) if may_leave and chance.random() < leaving else None
    answers = chance.choice((1, 1, 1, 2, 4, 4.0)) if dialect == "chat" else 1
    repeats = 3 if may_leave and leaves is None and chance.random() < 0.1 else 1
    pieces = max(1, min(length, chance.choice((1, 3, 10, 40))))
    return Wish(number, dialect, kind, length, pieces, limit, answers, leaves, chance.random() < 0.1, repeats)


def _without_flights(wishes: list[Wish]) -> list[Wish]:
    """For an upstream that ignores the cap: streams of small pieces, which can be cut, and one answer in one piece at a time.

    Two answers in one piece would both go over: no router learns what they cost before they end. Nor does it learn that of one
    whose caller has left, so callers wait for those. The answer to a repeated request is not written piece by piece, since the
    first one's caller has them already.
    """
    whole = [wish for wish in wishes if not wish.is_cut_in_time]
    for wish in wishes:
        wish.repeats = 1
        answers = int(wish.answers) if wish.dialect == "chat" else 1
        wish.pieces = -(-wish.length * answers // FLIGHT_TOKENS)
        wish.leaves_after = wish.leaves_after if wish.is_cut_in_time else None
    return [wish for wish in wishes if wish not in whole[1:]]


class Spenders:
    """Plays the upstream for all histories."""

    def __init__(self) -> None:
        self.histories: dict[int, History] = {}

    async def answer(self, wire: Wire, seen: Seen) -> None:
        found = _TAG.search(seen.body)
        assert found is not None
        history, body = self.histories[int(found[1])], seen.json
        wish, target = history.wishes[int(found[2])], body["model"]
        if wish.fails_first and target == "spark":
            await answer_json({"error": {"message": "busy"}}, 503)(wire, seen)
            return
        history.calls += 1
        limits = [body[name] for name in ("max_tokens", "max_completion_tokens") if body.get(name) is not None]
        assert len(limits) == 1, f"a request of a caller with a budget has one cap: {limits}"
        (cap,) = limits
        length = min(wish.length, cap) if history.honours else wish.length
        bill = Bill(history, target, len(seen.body) // 8, is_whole=not body.get("stream"))
        dialect = "messages" if seen.path.endswith("/messages") else "chat"
        writer = Writer(dialect, wire, bill, "length" if length < wish.length else "stop")
        await writer.write(wish, length, int(body.get("n") or 1), is_streaming=bool(body.get("stream")))


@dataclass
class Bill:
    """What one call costs its caller."""

    history: History
    target: str
    prompt: int
    is_whole: bool
    written: int = 0
    usd: float = 0.0

    def __post_init__(self) -> None:
        self._add(self.prompt * PRICES[self.target][0] / 1e6)

    def write(self, tokens: int) -> None:
        self.written += tokens
        self._add(tokens * PRICES[self.target][1] / 1e6)

    def _add(self, usd: float) -> None:
        self.usd += usd
        self.history.spent += usd
        if self.is_whole:
            self.history.dearest_whole = max(self.history.dearest_whole, self.usd)


@dataclass
class Writer:
    dialect: str
    wire: Wire
    bill: Bill
    finish: str

    async def write(self, wish: Wish, length: int, answers: int, *, is_streaming: bool) -> None:
        if not is_streaming:
            self.bill.write(length * answers)  # its host writes on when a caller has left
            if wish.kind == "whole" and wish.leaves_after is not None:
                wish.move(1)
                await asyncio.Event().wait()
            await answer_json(self._whole(length, answers))(self.wire, None)
            return
        await self.wire.send(CHAT_STREAM_HEAD)
        if self.dialect == "messages":
            await self.wire.chunk(self._events(*self._opening()))
        pieces = min(wish.pieces, length) or 1
        if wish.leaves_after == 0:
            await self._write_in_flight(min(length, FLIGHT_TOKENS))
        for piece in range(pieces):
            tokens = length // pieces + (piece < length % pieces)
            for index in range(answers):
                self.bill.write(tokens)
                text = "abc " * (tokens - 1) + "abc~" if tokens else ""
                await self.wire.chunk(self._delta(text, index))
            if wish.is_cut_in_time and not await wish.until_received((piece + 1) * answers):
                await asyncio.Event().wait()  # until the router hangs up
        await self.wire.chunk(self._end(answers))
        await self.wire.end_chunks()

    async def _write_in_flight(self, tokens: int) -> None:
        """Write a piece to a caller that leaves before it has one, until the router hangs up."""
        before = self.bill.usd
        self.bill.write(tokens)
        self.bill.history.in_flight += self.bill.usd - before
        await self.wire.chunk(self._delta("abc " * tokens, 0))
        await asyncio.Event().wait()

    @property
    def _usage(self) -> dict:
        if self.dialect == "messages":
            return {"input_tokens": self.bill.prompt, "output_tokens": self.bill.written}
        return {
            "prompt_tokens": self.bill.prompt,
            "completion_tokens": self.bill.written,
            "total_tokens": self.bill.prompt + self.bill.written,
        }

    def _whole(self, length: int, answers: int) -> dict:
        text = "abc " * length
        if self.dialect == "messages":
            stop = "max_tokens" if self.finish == "length" else "end_turn"
            content = [{"type": "text", "text": text}]
            head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_sequence": None}
            return {**head, "content": content, "stop_reason": stop, "usage": self._usage}
        message = {"role": "assistant", "content": text}
        choices = [{"index": index, "message": message, "finish_reason": self.finish} for index in range(answers)]
        return {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": choices, "usage": self._usage}

    def _opening(self) -> tuple[dict, dict]:
        message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [], "stop_reason": None}
        usage = {"input_tokens": self.bill.prompt, "output_tokens": 1}
        start = {"type": "message_start", "message": {**message, "stop_sequence": None, "usage": usage}}
        return start, {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}

    def _delta(self, text: str, index: int) -> bytes:
        if self.dialect == "messages":
            return self._events({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}})
        return self._chunk([{"index": index, "delta": {"content": text}, "finish_reason": None}])

    def _end(self, answers: int) -> bytes:
        if self.dialect == "messages":
            stop = {"stop_reason": "max_tokens" if self.finish == "length" else "end_turn", "stop_sequence": None}
            end = {"type": "message_delta", "delta": stop, "usage": self._usage}
            return self._events({"type": "content_block_stop", "index": 0}, end, {"type": "message_stop"})
        ends = self._chunk([{"index": index, "delta": {}, "finish_reason": self.finish} for index in range(answers)])
        return ends + self._chunk([], usage=self._usage) + b"data: [DONE]\n\n"

    @staticmethod
    def _chunk(choices: list, **more: object) -> bytes:
        body = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": choices, **more}
        return b"data: " + json.dumps(body).encode() + b"\n\n"

    @staticmethod
    def _events(*events: dict) -> bytes:
        return b"".join(b"event: %s\ndata: %s\n\n" % (each["type"].encode(), json.dumps(each).encode()) for each in events)


PATHS = {"chat": "/v1/chat/completions", "messages": "/v1/messages", "responses": "/v1/responses"}
LIMIT_FIELDS = {"chat": "max_tokens", "messages": "max_tokens", "responses": "max_output_tokens"}


class Caller:
    """Acts one history out."""

    def __init__(self, history: History, port: int) -> None:
        self._history, self._port = history, port
        self._headers = {"authorization": f"Bearer {history.key.text}"}

    async def act(self) -> None:
        for wishes in self._history.rounds:
            await asyncio.gather(*(self._ask(wish) for wish in wishes for _ in range(wish.repeats)))

    def _body(self, wish: Wish) -> dict:
        words = f"h{self._history.number}r{wish.number}x fix the typo"
        content = {"input": words} if wish.dialect == "responses" else {"messages": [{"role": "user", "content": words}]}
        body = {"model": "auto", **content, "stream": wish.kind == "stream"}
        if wish.limit is not None:
            body[LIMIT_FIELDS[wish.dialect]] = wish.limit
        if wish.answers != 1:
            body["n"] = wish.answers
        return body

    async def _ask(self, wish: Wish) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, WebSocketException):
            await {"stream": self._stream, "whole": self._whole, "job": self._job, "socket": self._socket}[wish.kind](wish)

    def _request(self, wish: Wish) -> bytes:
        headers = {**self._headers, "connection": "close"}
        if wish.repeats > 1:
            headers["idempotency-key"] = f"key-{self._history.number}-{wish.number}"
        return request_bytes(PATHS[wish.dialect], self._body(wish), headers)

    async def _stream(self, wish: Wish) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port, limit=1 << 26)
        try:
            writer.write(self._request(wish))
            if await self._read(reader, wish):
                self._history.served += 1
        finally:
            wish.move(has_left=wish.repeats == 1)
            writer.close()

    @staticmethod
    async def _read(reader: asyncio.StreamReader, wish: Wish) -> bool:
        """Whether the answer ended before its caller left."""
        read, seen = b"", 0
        while wish.leaves_after is None or seen < wish.leaves_after:
            data = await reader.read(1 << 16)
            if not data:
                return True
            read += data
            seen = _REPEATS.split(read, 1)[0].count(_END_OF_PIECE)
            wish.move(seen)
        return False

    async def _whole(self, wish: Wish) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port, limit=1 << 26)
        try:
            writer.write(self._request(wish))
            if wish.leaves_after is None:
                await reader.read()
                self._history.served += 1
                return
            waiting = later(reader.read(1)), later(wish.moved.wait())
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for each in waiting:
                each.cancel()
        finally:
            writer.close()

    async def _job(self, wish: Wish) -> None:
        asked = await call(self._port, PATHS["responses"], {**self._body(wish), "background": True}, self._headers)
        if asked.status != 200:
            return
        state, path = asked.json["status"], f"/v1/responses/{asked.json['id']}"
        headers = {**self._headers, "connection": "close"}
        while state in ("queued", "in_progress"):
            reader, writer = await asyncio.open_connection("127.0.0.1", self._port, limit=1 << 26)
            writer.write(request_bytes(f"{path}?stream=true", method="GET", headers=headers))
            await self._read(reader, wish)
            writer.close()
            told = await call(self._port, path, headers=self._headers)
            if told.status in (401, 404):  # its key was revoked
                return
            state = told.json["status"] if told.status == 200 else state
        self._history.served += state in ("completed", "incomplete")

    async def _socket(self, wish: Wish) -> None:
        limit = {} if wish.limit is None else {"max_output_tokens": wish.limit}
        try:
            async with open_socket(self._port, **self._headers) as socket:
                await socket.say(self._body(wish)["input"], **limit)
                seen, event = 0, await socket.event()
                while event["type"] not in TERMINAL:
                    if event["type"].endswith(".delta"):
                        wish.move(seen := seen + event["delta"].count(_END_OF_PIECE.decode()))
                    event = await socket.event()
                self._history.served += event["type"] != "error"
        finally:
            wish.move(has_left=True)


async def spend(folder: Path, count: int, *, first_seed: int = 0, at_once: int = 8) -> list[History]:
    """Act this many histories out against a router of its own process."""
    rights = {}
    for number in range(count):
        budget = imagine(number, None, first_seed + number).budget
        rights[f"caller-{number}"] = f"daily_usd: {budget}"
    keys = write_keys(folder, **rights)
    spenders, upstream = Spenders(), Upstream()
    upstream.scripts = [spenders.answer]
    await upstream.start()
    try:
        (folder / "config.yaml").write_text(_config(upstream.base_url))
        async with serving(folder, 0) as (_, port):
            histories = [imagine(number, keys[f"caller-{number}"], first_seed + number) for number in range(count)]
            spenders.histories = {history.number: history for history in histories}
            left = iter(histories)

            async def act() -> None:
                for history in left:
                    if count > 1 and history.number == count // 2:
                        _revoke(folder, every=10)
                    await Caller(history, port).act()

            await asyncio.gather(*(act() for _ in range(at_once)))
    finally:
        await upstream.stop()
    return histories


def _revoke(folder: Path, every: int) -> None:
    """Take some callers out of the key file, while they and others act."""
    path, new = folder / "keys.yaml", folder / "keys.new"
    callers = yaml.safe_load(path.read_text())["callers"]
    kept = {name: own for number, (name, own) in enumerate(callers.items()) if number % every}
    new.touch(0o600)
    new.write_text(yaml.safe_dump({"callers": kept}))
    new.replace(path)


def _config(url: str) -> str:
    zone = f"Etc/GMT{datetime.now(UTC).hour - 12:+d}"  # about noon there: no day ends during a run

    def target(name: str, adapter: str, base_url: str) -> str:
        price = f"price: {{input: {PRICES[name][0]}, output: {PRICES[name][1]}}}"
        return f'{{name: {name}, {adapter}, base_url: "{base_url}", model: {name}, {price}, window_tokens: 200000}}'

    return f"""
ledger: {{path: test.db}}
keys: {{file: keys.yaml}}
budgets: {{time_zone: {zone}}}
tiers:
  fast: {{targets: [{target("spark", "adapter: openai_http, dialect: chat", url)}]}}
  deep: {{targets: [{target("sage", "adapter: anthropic_http, dialect: messages", url.removesuffix("/v1"))}]}}
"""
