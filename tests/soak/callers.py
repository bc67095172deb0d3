"""Callers of a soak: conversations in three dialects over connections that stay open, of whom a tenth leaves early."""

import asyncio
import contextlib
import itertools
import random
from collections import Counter
from collections.abc import Iterator

from tests.tools.http import Reply, call, read_reply, request_bytes
from tests.tools.sockets import open_socket

PATHS = {"chat": "/v1/chat/completions", "responses": "/v1/responses", "messages": "/v1/messages"}
ASKS = ("fix the typo in line {}", "rename the variable x{} everywhere", "implement parser number {} with tests, step by step")
_SESSIONS_AT_ONCE = 400
_TURNS = 6
_LEAVING = 10
"""One in this many leaves."""
_PER_CONNECTION = 20
_LONGEST_SECONDS = 60.0
_STORED = 4
"""One Responses session in this many has its answers stored: from fast they have ids of their own and fill the store, from deep
they all have one, and which tier answers is up to chance.
"""


class Account:
    """What was asked, and what each request must have left in the ledger."""

    def __init__(self) -> None:
        self.answered: dict[str, int] = {}
        """The status of each request that was admitted and answered, by its id."""
        self.left: set[str] = set()
        """The names, as models, of requests whose callers did not wait for the id."""
        self.seen: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.sessions = 0
        self._numbers = itertools.count()

    def name(self) -> str:
        """A model's name that only one request has."""
        name = f"soak-{next(self._numbers)}"
        self.left.add(name)
        return name

    def admitted(self, what: str, reply: Reply) -> None:
        """A request that passed admission was answered, well or badly."""
        self.seen[f"{what}: {reply.status}{'' if reply.is_whole else ', cut'}"] += 1
        request_id = reply.headers.get("x-tandem-request-id", "")
        if not request_id or request_id in self.answered:
            self.wrong.append(f"{what}: status {reply.status} with the id {request_id!r}")
        self.answered[request_id] = reply.status

    def turned_away(self, what: str, reply: Reply, *statuses: int) -> None:
        """A request that must not pass admission was answered."""
        self.seen[f"{what}: {reply.status}"] += 1
        if reply.status not in statuses:
            self.wrong.append(f"{what}: status {reply.status}, not {statuses}")


class Conversations:
    """Sessions that grow by a turn at a time, and are followed by others."""

    def __init__(self, account: Account, seed: int) -> None:
        self._account, self._random = account, random.Random(seed)
        self._open = [self._begin() for _ in range(_SESSIONS_AT_ONCE)]

    def _begin(self) -> Iterator[tuple[str, str, dict]]:
        self._account.sessions += 1
        return self._turns(f"session-{self._account.sessions}", self._random.choice([*PATHS]))

    def _turns(self, session: str, dialect: str) -> Iterator[tuple[str, str, dict]]:
        said: list[dict] = []
        more = {"store": False} if dialect == "responses" and self._account.sessions % _STORED else {}
        for turn in range(self._random.randint(1, _TURNS)):
            said.append({"role": "user", "content": self._random.choice(ASKS).format(f"{turn} of {session}")})
            yield session, dialect, ask_in(dialect, list(said), stream=self._random.random() < 0.5, **more)
            said.append({"role": "assistant", "content": "a small answer to a small question " * self._random.randint(1, 20)})

    def next(self) -> tuple[str, str, dict]:
        """The next turn of one of them: its session, its dialect and its body."""
        place = self._random.randrange(len(self._open))
        while (turn := next(self._open[place], None)) is None:
            self._open[place] = self._begin()
        return turn


def ask_in(dialect: str, messages: list[dict], **more: object) -> dict:
    own = {
        "chat": {"messages": messages},
        "responses": {"input": messages},
        "messages": {"messages": messages, "max_tokens": 99},
    }
    return {"model": "auto", **own[dialect], **more}


class Callers:
    """A number of connections, over which requests are sent at one pace for all."""

    def __init__(self, port: int, key: str, account: Account, per_second: float) -> None:
        self._port, self.account = port, account
        self.headers = {"authorization": f"Bearer {key}"}
        self._pause = 1 / per_second
        self._turns, self._random = Conversations(account, 1), random.Random(2)
        self._pace = asyncio.Lock()
        self._next_at = 0.0
        self.is_over = False
        """Whether to ask no more: a cancellation may be lost in `wait_for`, before Python 3.12."""

    async def ask_once(self) -> None:
        """Ask for what is loaded with its first use: a create call, the control plane and a socket."""
        body = ask_in("chat", [{"role": "user", "content": "hello"}])
        self.account.admitted("asked", await call(self._port, PATHS["chat"], body, self.headers))
        await call(self._port, "/v1/models", headers=self.headers)
        async with open_socket(self._port, **self.headers) as socket:
            await socket.ask(model=self.account.name())

    async def run(self, count: int) -> None:
        """Ask until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(count):
                tasks.create_task(self._ask_over_connections())
            tasks.create_task(self._ask_over_a_socket())

    async def _wait_for_turn(self) -> None:
        loop = asyncio.get_running_loop()
        async with self._pace:
            self._next_at = max(self._next_at + self._pause, loop.time() - 1)
            await asyncio.sleep(self._next_at - loop.time())

    async def _ask_over_connections(self) -> None:
        while not self.is_over:
            await self._wait_for_turn()
            try:
                await self._use_a_connection()
            except (ConnectionError, asyncio.IncompleteReadError, TimeoutError) as error:
                self.account.wrong.append(f"a connection broke: {error!r}")

    async def _use_a_connection(self) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port, limit=1 << 24)
        with contextlib.closing(writer):
            for _ in range(self._random.randint(1, _PER_CONNECTION)):
                session, dialect, body = self._turns.next()
                headers = {**self.headers, "x-tandem-session": session}
                if self._random.randrange(_LEAVING) == 0:
                    await self.leave(dialect, body, headers, reader, writer)
                    return
                writer.write(request_bytes(PATHS[dialect], body, headers))
                reply = await asyncio.wait_for(read_reply(reader), _LONGEST_SECONDS)
                self.account.admitted("asked", reply)
                if self.is_over or not reply.is_whole or reply.headers.get("connection") == "close":
                    return
                await self._wait_for_turn()

    async def leave(
        self, dialect: str, body: dict, headers: dict, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Ask for a slow answer, and hang up before it, or in it."""
        words = [{"role": "user", "content": f"{self._random.choice(ASKS)}, soak:slow"}]
        slow = ask_in(dialect, words, stream=body.get("stream"))
        writer.write(request_bytes(PATHS[dialect], {**slow, "model": self.account.name()}, headers))
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(reader.read(1), self._random.uniform(0.2, 0.6))
        self.account.seen["left"] += 1

    async def _ask_over_a_socket(self) -> None:
        """One socket after another, for a few turns each. The last turn of each is not waited for."""
        while not self.is_over:
            async with open_socket(self._port, **self.headers) as socket:
                for _ in range(self._random.randint(1, 30)):
                    if self.is_over:
                        return
                    await asyncio.sleep(1)
                    await socket.say("fix the typo", model=self.account.name())
                    self.account.seen[f"asked over a socket: {(await socket.answer())['type']}"] += 1
                await socket.say("fix the typo, soak:slow", model=self.account.name())
                await asyncio.sleep(0.5)
