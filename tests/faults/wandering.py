"""Sessions whose every request goes to another router: they must go on as if there were one.

`python -m tests.faults.wandering --sessions 300` runs three routers that share a Valkey server, prints what went wrong, and what
it cost. A client goes on at the terminal event, with no pause. `--routers 1` shows that the expectations hold without wandering,
`--alone` that routers which share nothing fail. `--url redis://…` uses a server that runs.
"""

import argparse
import asyncio
import contextlib
import itertools
import json
import random
import re
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from tests.faults.balancer import Balancer
from tests.tools.fleet import Router, routers_of
from tests.tools.http import read_reply, request_bytes
from tests.tools.running import Running, running
from tests.tools.sockets import open_socket
from tests.tools.upstream import CHAT_STREAM_HEAD, Seen, Upstream, Wire, answer_json
from tests.tools.valkey import ValkeyServer, find_server
from tests.tools.waiting import by_the_clock

QUICK = "Fix the typo in the word {} in calc_{}.py"
TYPOS = ("retrun", "lenght", "recieve", "wich", "teh", "occured", "seperate", "definately")
LONG = "Refactor the entire billing module (find {} first, in part_{}): migrate all files to the new API, and rewrite the test suite"
WORDS = {"fast": QUICK, "deep": LONG}
SECRET = "a secret of thirty-two bytes or more"
STEPS, AT_ONCE = 8, 12
CONFIG = """
ledger: {{path: test.db}}
rules:
  - {{when: {{words: typo}}, tier: fast}}
  - {{when: {{words: billing}}, tier: deep}}
tiers:
  fast:
    targets:
      - {{name: spark, adapter: openai_http, dialect: responses, base_url: "{0}", model: f, accepts: [text, tools, reasoning],
         typical: {{ttft_seconds: 0.2, tokens_per_second: 1000, prefill_tokens_per_second: 60000}}}}
  deep:
    targets:
      - {{name: sage, adapter: openai_http, dialect: responses, base_url: "{1}", model: d, accepts: [text, tools, reasoning],
         typical: {{ttft_seconds: 0.9, tokens_per_second: 65, prefill_tokens_per_second: 60000}}}}
"""
SHARED = "shared: {{valkey: {{url: env:TANDEM_VALKEY_URL, timeout_ms: {timeout_ms}}}, secret: env:TANDEM_SHARED_SECRET}}\n"


@dataclass(frozen=True)
class Step:
    """One request: its new content, its tier, and whether its answer calls a tool."""

    words: str
    """The person's words; empty for a tool's result."""
    tier: str
    """The tier that must serve it; empty if the router answers itself."""
    calls_tool: bool = False
    headers: tuple[tuple[str, str], ...] = ()


def write_steps(chance: random.Random, count: int, number: int, *, is_named: bool) -> Iterator[Step]:
    """Turns with tool loops. Named sessions ask for tiers and clear them by header, or for the next turn by a line."""
    wish, line, left = "", None, count
    while left:
        words, headers, kinds = chance.choice(("fast", "deep")), (), ["plain", "plain"]
        kinds += ["set", "clear", "line"] if is_named and line is None else []
        kinds += ["forced"] if not wish and line is None else []
        kind = chance.choice(kinds)
        if kind == "line":
            line = chance.choice(("fast", "deep", ""))
            yield Step(f"tier: {line or 'auto'}", "")
            left -= 1
            continue
        if kind == "set":
            wish = chance.choice(("fast", "deep"))
            headers = (("x-tandem-tier", wish), ("x-tandem-scope", "session"))
        elif kind == "clear":
            wish, headers = "", (("x-tandem-tier", "auto"), ("x-tandem-scope", "session"))
        tier, line = (wish if line is None else line) or words, None
        if kind == "forced":  # the turn stays where its first request asked to begin
            tier = chance.choice(("fast", "deep"))
            headers = (("x-tandem-tier", tier),)
        loops = min(chance.randrange(4), left - 1)
        for index in range(loops + 1):
            typed = WORDS[words].format(TYPOS[left % len(TYPOS)], number)
            yield Step(typed if not index else "", tier, index < loops, headers if not index else ())
        left -= loops + 1


class Host:
    """A target that notes whose reasoning it gets. It streams as asked, in one piece or several."""

    def __init__(self, tier: str, trial: "Trial") -> None:
        self.tier, self._trial = tier, trial
        self._chance = random.Random(tier)

    async def __call__(self, wire: Wire, seen: Seen) -> None:
        body = seen.json
        session = self._trial.sessions[int(re.search(r"session (\d+)", json.dumps(body["tools"]))[1])]
        session.note_served(self.tier, body["input"])
        whole = self._respond(session)
        if not body.get("stream"):
            await answer_json(whole)(wire, seen)
            return
        frames = list(write_frames(whole))
        pieces = [b"".join(frames)] if self._chance.random() < 0.4 else frames
        await wire.send(CHAT_STREAM_HEAD)
        for piece in pieces:
            await wire.chunk(piece)
        if self._chance.random() < 0.2:
            await by_the_clock(0.05)  # a host may close its stream late, after the caller has continued
        await wire.end_chunks()

    def _respond(self, session: "Session") -> dict:
        mark = f"{self.tier}_{session.number}_{session.served}"
        output: list[dict] = [
            {"type": "reasoning", "id": f"rs_{mark}", "summary": [], "encrypted_content": f"made by {self.tier} {mark}"}
        ]
        if session.step.calls_tool:
            called = {"call_id": f"call_{mark}", "name": "shell", "arguments": "{}", "status": "completed"}
            output.append({"type": "function_call", "id": f"fc_{mark}", **called})
        else:
            text = [{"type": "output_text", "text": f"done by {self.tier}", "annotations": []}]
            output.append({"type": "message", "id": f"msg_{mark}", "role": "assistant", "content": text, "status": "completed"})
        usage = {"input_tokens": 90, "output_tokens": 9, "total_tokens": 99}
        head = {"id": f"resp_{mark}", "object": "response", "created_at": 1, "model": "m", "status": "completed"}
        return {**head, "output": output, "usage": usage}


def write_frames(whole: dict) -> Iterator[bytes]:
    def frame(kind: str, **more: object) -> bytes:
        return f"event: {kind}\ndata: {json.dumps({'type': kind, **more})}\n\n".encode()

    yield frame("response.created", response={**whole, "status": "in_progress", "output": [], "usage": None})
    for index, item in enumerate(whole["output"]):
        place = {"output_index": index, "item_id": item["id"]}
        begun = {name: [] if name in ("content", "summary") else value for name, value in item.items()}
        yield frame("response.output_item.added", output_index=index, item={**begun, "arguments": ""})
        if item["type"] == "function_call":
            yield frame("response.function_call_arguments.delta", **place, delta=item["arguments"])
            yield frame("response.function_call_arguments.done", **place, arguments=item["arguments"])
        elif item["type"] == "message":
            part = item["content"][0]
            yield frame("response.content_part.added", **place, content_index=0, part={**part, "text": ""})
            yield frame("response.output_text.delta", **place, content_index=0, delta=part["text"])
            yield frame("response.output_text.done", **place, content_index=0, text=part["text"])
            yield frame("response.content_part.done", **place, content_index=0, part=part)
        yield frame("response.output_item.done", output_index=index, item=item)
    yield frame("response.completed", response=whole)


@dataclass
class Session:
    """A conversation in Responses. `step` is what it expects of the next answer."""

    number: int
    name: str
    """Empty for one identified by its beginning."""
    chance: random.Random
    trial: "Trial"
    items: list[dict] = field(default_factory=list)
    step: Step = Step("", "")
    served: int = 0
    served_by: str = ""
    path: ClassVar[str] = "/v1/responses"
    transports: ClassVar[tuple[str, ...]] = ("whole", "stream", "socket")
    end: ClassVar[bytes] = b"event: response.completed\n"
    understood: ClassVar[dict] = {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "Understood."}],
    }

    @property
    def headers(self) -> dict[str, str]:
        return {**({"x-tandem-session": self.name} if self.name else {}), **dict(self.step.headers)}

    def plan(self, count: int) -> list[Step]:
        return list(write_steps(self.chance, count, self.number, is_named=bool(self.name)))

    def note_served(self, tier: str, given: list[dict]) -> None:
        """Note the tier and whose reasoning it was sent."""
        self.served, self.served_by = self.served + 1, tier
        seen = [item["encrypted_content"].split()[2] for item in given if item.get("type") == "reasoning"]
        if any(maker != tier for maker in seen):
            self.complain(f"{tier} was sent reasoning of {Counter(seen)}")
        own = [item for item in self.items if item.get("type") == "reasoning" and f"made by {tier} " in str(item)]
        if seen.count(tier) < len(own):
            self.complain(f"{tier} was sent {seen.count(tier)} of its own {len(own)} pieces of reasoning")

    def complain(self, fault: str) -> None:
        self.trial.faults.append(f"session {self.number} ({type(self).__name__}, {self.name or 'guessed'}): {fault}")

    async def go(self, step: Step) -> None:
        """Send one request to a router, and read up to the terminal event."""
        await self.trial.pace()
        self.step, self.served_by = step, ""
        self.add(step.words)
        transport, router = self.chance.choice(self.transports), self.chance.choice(self.trial.routers)
        answer = await (self._ask_on_socket(router) if transport == "socket" else self._ask(router, transport))
        self.trial.requests += 1
        if self.served_by != step.tier:
            after = f"{transport}, {dict(step.headers)}, {step.words[:12] or 'tool result'!r}"
            self.complain(f"served by {self.served_by or 'the router'}, not {step.tier or 'the router'} ({after})")
        self.take(answer)

    async def _ask(self, router: Router | Running | Balancer, transport: str) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", router.port, limit=1 << 24)
        try:
            body = {**self.body(), "stream": transport == "stream"}
            writer.write(request_bytes(self.path, body, self.headers))
            async with asyncio.timeout(60):
                if transport == "whole":
                    reply = await read_reply(reader)
                    assert reply.status == 200, reply.body
                    return reply.body
                return await self._read_stream(reader)
        finally:
            writer.close()

    async def _read_stream(self, reader: asyncio.StreamReader) -> bytes:
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200"), head + await reader.read(2_000)
        body = b""
        while self.end not in body or not body.endswith(b"\n\n"):
            size = int(await reader.readuntil(b"\r\n"), 16)
            assert size, body
            body += (await reader.readexactly(size + 2))[:-2]
        return body

    async def _ask_on_socket(self, router: Router | Running | Balancer) -> bytes:
        async with open_socket(
            router.port, **{name.replace("-", "_"): value for name, value in self.headers.items()}
        ) as socket:
            await socket.send({"type": "response.create", **self.body()})
            last = await socket.answer()
            assert last["type"] == "response.completed", last
            return json.dumps(last["response"]).encode()

    def add(self, words: str) -> None:
        if words:
            self.items.append({"type": "message", "role": "user", "content": [{"type": "input_text", "text": words}]})

    def body(self) -> dict:
        tool = {"type": "function", "name": "shell", "description": f"session {self.number}", "parameters": {"type": "object"}}
        return {"model": "auto", "input": self.items, "tools": [tool], "store": False}

    def take(self, answer: bytes) -> None:
        if not answer.startswith(b"{"):
            answer = json.dumps(json.loads(answer[answer.rindex(b"data: ") + 6 :])["response"]).encode()
        output = json.loads(answer)["output"]
        self.items += output
        calls = [item for item in output if item["type"] == "function_call"]
        self.items += [{"type": "function_call_output", "call_id": item["call_id"], "output": "ok"} for item in calls]


class ChatSession(Session):
    """In Chat Completions, where no reasoning comes back."""

    path = "/v1/chat/completions"
    transports = ("whole", "stream")
    end = b"data: [DONE]\n"
    understood: ClassVar[dict] = {"role": "assistant", "content": "Understood."}

    def note_served(self, tier: str, given: list[dict]) -> None:
        self.served, self.served_by = self.served + 1, tier

    def add(self, words: str) -> None:
        if words:
            self.items.append({"role": "user", "content": words})

    def body(self) -> dict:
        function = {"name": "shell", "description": f"session {self.number}", "parameters": {"type": "object"}}
        return {"model": "auto", "messages": self.items, "tools": [{"type": "function", "function": function}]}

    def take(self, answer: bytes) -> None:
        if self.step.calls_tool:
            call_id = re.search(rb'"id": ?"(call_\w+)"', answer)[1].decode()
            called = {"id": call_id, "type": "function", "function": {"name": "shell", "arguments": "{}"}}
            self.items.append({"role": "assistant", "content": None, "tool_calls": [called]})
            self.items.append({"role": "tool", "tool_call_id": call_id, "content": "ok"})
        else:
            self.items.append({"role": "assistant", "content": f"done by {self.served_by}"})


class MessagesSession(ChatSession):
    path = "/v1/messages"
    end = b"event: message_stop\n"

    def body(self) -> dict:
        tool = {"name": "shell", "description": f"session {self.number}", "input_schema": {"type": "object"}}
        return {"model": "auto", "max_tokens": 999, "messages": self.items, "tools": [tool]}

    def take(self, answer: bytes) -> None:
        if self.step.calls_tool:
            call_id = re.search(rb'"id": ?"(call_\w+)"', answer)[1].decode()
            self.items.append(
                {"role": "assistant", "content": [{"type": "tool_use", "id": call_id, "name": "shell", "input": {}}]}
            )
            self.items.append({"role": "user", "content": [{"type": "tool_result", "tool_use_id": call_id, "content": "ok"}]})
        else:
            self.items.append({"role": "assistant", "content": f"done by {self.served_by}"})


async def at_once() -> None:
    """The pace of a client that does not wait."""


KINDS = (Session, Session, ChatSession, MessagesSession)


class Trial:
    def __init__(self, seed: int = 1, pace: Callable[[], Awaitable[None]] = at_once) -> None:
        self.pace = pace
        self.sessions: list[Session] = []
        self.routers: Sequence[Router | Running | Balancer] = ()
        self.faults: list[str] = []
        self.requests = 0
        self._chance = random.Random(seed)

    async def run(self, routers: Sequence[Router | Running | Balancer], sessions: int, steps: int = STEPS) -> None:
        self.routers = routers
        waiting = iter(range(sessions))

        async def walk() -> None:
            for _ in waiting:
                await self._walk(steps)

        await asyncio.gather(*(walk() for _ in range(AT_ONCE)))

    async def _walk(self, count: int) -> None:
        """A session. One without a name alternates with another that begins alike."""
        session = self._begin(len(self.sessions))
        planned = session.plan(count)
        if session.name:
            for step in planned:
                await session.go(step)
            return
        for step in planned[:2]:
            await session.go(step)
        twin = self._begin(session.number)
        for step, other in itertools.zip_longest(planned[2:], twin.plan(count)):
            if step is not None:
                await session.go(step)
            await twin.go(other)

    def _begin(self, first: int) -> Session:
        """Sessions without a name begin as session `first` does."""
        number, chance = len(self.sessions), random.Random(self._chance.random())
        kind = KINDS[first % len(KINDS)]
        session = kind(number, f"wanders-{number}" if first % 3 else "", chance, self)
        if not session.name:
            session.add(f"About part {first} of the code: remember it, and answer nothing.")
            session.items.append(kind.understood)
        self.sessions.append(session)
        return session


@contextlib.asynccontextmanager
async def hosts_of(trial: Trial):
    upstreams = [Upstream(), Upstream()]
    for upstream, tier in zip(upstreams, ("fast", "deep"), strict=True):
        upstream.scripts = [Host(tier, trial)]
        await upstream.start()
    try:
        yield [upstream.base_url for upstream in upstreams]
    finally:
        for upstream in upstreams:
            await upstream.stop()


@contextlib.asynccontextmanager
async def routers_here(count: int, folder: Path, config: str) -> AsyncIterator[list[Running]]:
    """Routers in this process, which share only what the config says."""
    async with contextlib.AsyncExitStack() as stack:
        routers = []
        for number in range(count):
            (own := folder / f"router-{number}").mkdir()
            routers.append(await stack.enter_async_context(running(config, own)))
        yield routers


async def try_sessions(folder: Path, url: str, sessions: int, routers: int = 3, steps: int = STEPS, seed: int = 1) -> Trial:
    """Run sessions over routers on the server at this address, or on none."""
    trial = Trial(seed)
    variables = {"TANDEM_VALKEY_URL": url, "TANDEM_SHARED_SECRET": SECRET} if url else {}
    async with (
        hosts_of(trial) as addresses,
        routers_of(
            routers, folder, CONFIG.format(*addresses) + (SHARED.format(timeout_ms=250) if url else ""), variables
        ) as fleet,
    ):
        await trial.run(fleet, sessions, steps)
    return trial


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=300)
    parser.add_argument("--routers", type=int, default=3)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--url", default="", help="a Valkey or Redis server that runs; by default one is started")
    parser.add_argument("--alone", action="store_true", help="routers that share nothing")
    asked = parser.parse_args()
    with contextlib.ExitStack() as stack:
        url = asked.url
        if not url and not asked.alone:
            server = ValkeyServer(find_server() or "redis-server")
            stack.callback(server.stop)
            server.start()
            url = server.url()
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        began = time.monotonic()
        trial = await try_sessions(folder, url, asked.sessions, asked.routers, asked.steps, asked.seed)
    for fault in trial.faults[:20]:
        print(fault)
    seconds = time.monotonic() - began
    print(f"{len(trial.faults)} wrong of {trial.requests} requests, {len(trial.sessions)} sessions, in {seconds:.1f} s")


if __name__ == "__main__":
    asyncio.run(main())
