"""How many bytecodes of Python one request costs, by room. Unlike time they are the same on every machine and under any load.

`python -m tests.bench.bytecodes` prints them. A server of ours runs in a thread of its own, traced; its caller and its target
are in other threads, which are not. The ledger's thread is counted apart, for many requests that it writes as one batch. What C
does (the kernel, parsers of HTTP and JSON, SQLite) is not counted.
"""

import argparse
import asyncio
import itertools
import json
import socket
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from router.contract.keys import NewKey, make_key
from router.dispatch import dispatch
from router.dispatch.live import statistics
from router.edge.server import run
from router.settle import record
from router.telemetry import events
from router.upstream.connection import Connection
from tests.bench.agent import agent_requests, templates
from tests.bench.load import body_of, request_of
from tests.bench.once import ONCE
from tests.bench.upstream import Upstream
from tests.tools.running import running

ROOT = Path(__file__).resolve().parents[2]
WARM_REQUESTS, COUNTED_REQUESTS, BATCHED_REQUESTS = 40, 5, 100
EVERY = 8
"""One request of so many is counted: sessions are of eight or sixteen calls, so that all that are counted are as far in one."""
CONFIG = """
ledger: {{path: bytecodes.db}}
tiers:
  fast:
    targets:
      - {{name: quick, adapter: openai_http, dialect: chat, base_url: "{url}", model: small, price: {{input: 1, output: 2}}}}
  deep:
    targets:
      - {{name: thorough, adapter: openai_http, dialect: chat, base_url: "{url}", model: large, window_tokens: 400000,
         price: {{input: 2, output: 8}}}}
"""
WITH_A_KEY = "with a key"
TEN_TARGETS, FIFTY_TARGETS, MANY_RULES = "ten targets", "fifty targets", "200 rules"
KEYS = """
callers:
  ada: {{keys: [{{id: "{id}", sha256: {digest}, created: 2026-01-01}}]}}
"""


class Counts:
    """The bytecodes of one request, by function, and those that came before its target was written to."""

    def __init__(self, by_code: Counter[CodeType] | None = None) -> None:
        self.by_code: Counter[CodeType] = Counter() if by_code is None else by_code
        self.before: Counts | None = None

    @property
    def before_write(self) -> int:
        return 0 if self.before is None else self.before.total

    @property
    def total(self) -> int:
        return self.by_code.total()

    def by_room(self) -> Counter[str]:
        """The same by room: `router/edge`, `policies`, …; everything else is `libraries`."""
        rooms: Counter[str] = Counter()
        for code, count in self.by_code.items():
            rooms[room_of(code)] += count
        return rooms

    def by_function(self) -> Counter[str]:
        names: Counter[str] = Counter()
        for code, count in self.by_code.items():
            names[f"{_place(code)}:{code.co_qualname}"] += count
        return names


def _place(code: CodeType) -> str:
    return code.co_filename.removeprefix(f"{ROOT}/") if code.co_filename.startswith(f"{ROOT}/") else Path(code.co_filename).name


def room_of(code: CodeType) -> str:
    """Where a function is at home."""
    parts = _place(code).split("/")
    if parts[0] in ("policies", "adapters") and len(parts) > 1:
        return parts[0]
    if parts[0] == "router" and len(parts) > 1:
        return "/".join(parts[:2]).removesuffix(".py")
    return "libraries"


def _trace_into(counts: Counts) -> Callable[[FrameType, str, Any], Any]:
    by_code, write = counts.by_code, Connection.send.__code__

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        code = frame.f_code
        if code.co_filename in (__file__, threading.__file__):
            return None  # how the server was told to count
        if code is write and counts.before is None:
            counts.before = Counts(by_code.copy())
        frame.f_trace_opcodes, frame.f_trace_lines = True, False

        def count(frame: FrameType, event: str, argument: Any) -> Any:
            if event == "opcode":
                by_code[code] += 1
            return count

        return count

    return trace


class _Quiet:
    def msg(self, line: bytes) -> None: ...


@contextmanager
def serving(folder: Path, config: str = CONFIG) -> Iterator["Bench"]:
    """A Tandem and a target, each in a thread. Figures of targets are looked at for every request, as for a lone caller.

    Connections are made ahead once, and not every second: on a busy machine every request that is counted could meet that.
    """
    bench = Bench(folder, config)
    fresh, statistics._FRESH_SECONDS = statistics._FRESH_SECONDS, 0.0
    look, dispatch._LOOK_SECONDS = dispatch._LOOK_SECONDS, float("inf")
    log, events._writer = events._writer, _Quiet()  # type: ignore[assignment]
    events.set_up_logging()
    events._writer = _Quiet()  # type: ignore[assignment]
    try:
        bench.start()
        yield bench
    finally:
        bench.stop()
        events._writer, statistics._FRESH_SECONDS, dispatch._LOOK_SECONDS = log, fresh, look


class Bench:
    """Sends requests over one connection, and counts what the server does for the last of them."""

    def __init__(self, folder: Path, config: str) -> None:
        self._folder, self._config = folder, config
        self._target, self._tandem = _LoopThread(self._be_target), _LoopThread(self._be_tandem)

    def start(self) -> None:
        self._target.start()
        self._tandem.start()
        self._socket = socket.create_connection(("127.0.0.1", self._tandem.port))

    def stop(self) -> None:
        self._socket.close()
        self._tandem.stop()
        self._target.stop()

    async def _be_target(self, thread: "_LoopThread") -> None:
        server = await asyncio.get_running_loop().create_server(Upstream, "127.0.0.1", 0)
        await thread.serve_on(server.sockets[0].getsockname()[1])
        server.close()
        await asyncio.sleep(0.05)  # the connections of the server that has stopped are closed meanwhile

    async def _be_tandem(self, thread: "_LoopThread") -> None:
        async with running(self._config.format(url=f"http://127.0.0.1:{self._target.port}/v1"), self._folder) as tandem:
            self._state = tandem.built.house.state
            self._ledger = self._state.files["ledger"]
            await thread.serve_on(tandem.port)

    def send(self, request: bytes) -> None:
        """Send a request and read its answer, whole or streamed, and let the server settle it."""
        self._socket.sendall(request)
        received = b""
        while not _is_whole(received):
            piece = self._socket.recv(65_536)
            assert piece, received[-500:]
            received += piece
        assert received.startswith(b"HTTP/1.1 200"), received[:500]
        self._settle()

    def _settle(self) -> None:
        """Wait until the request's entry is written, which is done a little later."""
        done = threading.Event()
        self._tandem.loop.call_soon_threadsafe(self._tandem.loop.call_later, 3 * record._LATER_SECONDS, self._look, done)
        assert done.wait(20)

    def _look(self, done: threading.Event) -> None:
        """In the server's thread: it may still be at work, on a busy machine."""
        if self._state.running or self._state.entries._ended:
            self._tandem.loop.call_later(3 * record._LATER_SECONDS, self._look, done)
        else:
            done.set()

    def count(self, requests: Iterator[bytes]) -> Counts:
        """Send requests until everything is warm, and count some more. The least of them counts.

        Now and then one meets what is done for many: random bytes are drawn by the page, sessions are forgotten in heaps.
        """
        counted = list[Counts]()
        for apart in (WARM_REQUESTS, *[EVERY - 1] * (COUNTED_REQUESTS - 1)):
            for request in itertools.islice(requests, apart):
                self.send(request)
            counted.append(self._count_one(next(requests)))
        least = min(counted, key=lambda counts: counts.total)
        least.before = min(
            (counts.before for counts in counted if counts.before), key=lambda before: before.total, default=None
        )
        return least

    def _count_one(self, request: bytes) -> Counts:
        counts = Counts()
        self._trace(_trace_into(counts))
        self.send(request)
        self._trace(None)
        return counts

    def count_writer(self, requests: Iterator[bytes]) -> Counts:
        """What the ledger's thread does for requests that it writes as one batch: the sum of all."""
        counts, is_held, may_write = Counts(), threading.Event(), threading.Event()
        tracer = _trace_into(counts)
        self._ledger.submit(lambda _: (is_held.set(), may_write.wait(60), sys.settrace(tracer)))
        assert is_held.wait(5)
        for _ in range(BATCHED_REQUESTS):
            self.send(next(requests))
        ended = self._ledger.submit(lambda _: sys.settrace(None))
        may_write.set()
        ended.result(20)
        return counts

    def _trace(self, tracer: Any) -> None:
        done = threading.Event()
        self._tandem.loop.call_soon_threadsafe(lambda: (sys.settrace(tracer), done.set()))
        assert done.wait(5)


class _LoopThread(threading.Thread):
    """An event loop in a thread of its own, until it is stopped."""

    def __init__(self, main: Callable[["_LoopThread"], Coroutine[Any, Any, None]]) -> None:
        super().__init__(daemon=True)
        self._main, self._is_ready, self.port = main, threading.Event(), 0

    def start(self) -> None:
        super().start()
        assert self._is_ready.wait(20), "a server did not start"

    def run(self) -> None:
        run(lambda: self._main(self))

    async def serve_on(self, port: int) -> None:
        """Say that it serves, and go on until it is stopped."""
        self.loop, self._stopped, self.port = asyncio.get_running_loop(), asyncio.Event(), port
        self._is_ready.set()
        await self._stopped.wait()

    def stop(self) -> None:
        self.loop.call_soon_threadsafe(self._stopped.set)
        self.join(20)


def _is_whole(received: bytes) -> bool:
    head, end, body = received.partition(b"\r\n\r\n")
    if not end:
        return False
    if b"transfer-encoding: chunked" in head:
        return body.endswith(b"0\r\n\r\n")
    return len(body) >= int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])


def small_requests(*, is_streaming: bool = False) -> Iterator[bytes]:
    """A request of 600 B whose words are always the same."""
    request = request_of(body_of(600, tokens=8 if is_streaming else None))
    while True:
        yield request


def new_words() -> Iterator[bytes]:
    """The same with sixty words that were never read before."""
    number = 0
    while True:
        number += 1
        words = " ".join(f"rename{number}x{place} the helper in src/part_{number % 9}.py;" for place in range(12))
        yield request_of(json.dumps({"model": "auto", "messages": [{"role": "user", "content": words}]}).encode())


def agent_calls() -> Iterator[bytes]:
    """Tool loops in their middle, one call longer each time. The one that is counted goes on with a session that is known."""
    assert WARM_REQUESTS % len(templates()) == 0
    return itertools.islice(agent_requests(), len(templates()) // 2, None)


def with_key(request: bytes, key: NewKey) -> bytes:
    """The same from a caller who is known by a key."""
    line, _, rest = request.partition(b"\r\n")
    return b"%b\r\nauthorization: Bearer %b\r\n%b" % (line, key.text.encode(), rest)


def write_keys(folder: Path, key: NewKey) -> str:
    """A config in which callers need keys. One has this key, and no limits."""
    path = folder / "keys.yaml"
    path.touch(0o600)
    path.write_text(KEYS.format(id=key.id, digest=key.digest.hex()))
    return f"{CONFIG}keys: {{{{file: keys.yaml}}}}\n"


def with_targets(count: int) -> str:
    """The config with this many targets, half of them in each tier."""
    fast, deep = CONFIG.split("  deep:\n")
    return f"{fast}{_repeat(fast, 'quick', count // 2)}  deep:\n{deep}{_repeat(deep, 'thorough', count // 2)}"


def _repeat(tier: str, name: str, count: int) -> str:
    target = tier[tier.index("      - ") :]
    return "".join(target.replace(name, f"{name}-{number}") for number in range(2, count + 1))


def with_rules(count: int) -> str:
    """The config with this many rules, some of which look at more than words. None applies."""
    conditions = (
        "words: [word{}]",
        "words: [word{}], client: codex",
        "more_than_tokens: 1{}000",
        "words: [word{}], has: image",
    )
    rules = (conditions[number % len(conditions)].format(number) for number in range(count))
    return CONFIG + "rules:\n" + "".join(f"  - {{{{when: {{{{{condition}}}}}, lean: 0.5}}}}\n" for condition in rules)


CASES: dict[str, Callable[[], Iterator[bytes]]] = {
    "600 B": small_requests,
    "stream": lambda: small_requests(is_streaming=True),
    "new words": new_words,
    "agent": agent_calls,
    "agent, first seen": lambda: ONCE["agent_first"](itertools.count(1_000_000)),
    "Responses": lambda: ONCE["codex"](itertools.count(1)),
    "Responses, first seen": lambda: ONCE["codex_first"](itertools.count(1_000_000)),
    "500 KB, grown": lambda: ONCE["grown"](itertools.count(1)),
    WITH_A_KEY: small_requests,
    TEN_TARGETS: small_requests,
    FIFTY_TARGETS: small_requests,
    MANY_RULES: small_requests,
}
RESPONSES = CONFIG.replace("dialect: chat", "dialect: responses")
CONFIGS = {
    "Responses": RESPONSES,
    "Responses, first seen": RESPONSES,
    TEN_TARGETS: with_targets(10),
    FIFTY_TARGETS: with_targets(50),
    MANY_RULES: with_rules(200),
}


def count_case(name: str, folder: Path) -> Counts:
    """What one request of a kind costs a server of its own."""
    if name == WITH_A_KEY:
        key = make_key()
        with serving(folder, write_keys(folder, key)) as bench:
            return bench.count(with_key(request, key) for request in CASES[name]())
    with serving(folder, CONFIGS.get(name, CONFIG)) as bench:
        return bench.count(CASES[name]())


def count_writer(folder: Path) -> float:
    """Bytecodes of the ledger's thread for one of many small requests."""
    with serving(folder) as bench:
        requests = small_requests()
        for _ in range(WARM_REQUESTS):
            bench.send(next(requests))
        return bench.count_writer(requests).total / BATCHED_REQUESTS


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.bytecodes", description=__doc__)
    parser.add_argument("case", nargs="?", choices=CASES, help="one of them, function by function (default: all, by room)")
    chosen = parser.parse_args().case
    for name in [chosen] if chosen else CASES:
        with tempfile.TemporaryDirectory() as folder:
            counts = count_case(name, Path(folder))
        print(f"{name}: {counts.total} bytecodes, {counts.before_write} of them before the target is written to")
        for place, count in (counts.by_function() if chosen else counts.by_room()).most_common():
            print(f"  {count:>6}  {place}")
    with tempfile.TemporaryDirectory() as folder:
        print(f"the ledger's thread, one of {BATCHED_REQUESTS} requests of 600 B: {count_writer(Path(folder)):.0f} bytecodes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
