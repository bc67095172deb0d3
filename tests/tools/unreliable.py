"""Links to real servers that behave as a network lets them."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

import asyncpg

from router.contract.errors import StoreUnavailable
from router.contract.shared import ValkeyTerms
from router.contract.stores import StoreUnusable
from router.stores.postgres.link import Link as DatabaseLink
from router.stores.valkey.link import Link, ignore
from tests.tools.waiting import later

_T = TypeVar("_T")
FAULTS = ("late", "out of order", "twice")
DATABASE_FAULTS = ("late", "lost", "cut")


class UnreliableLink(Link):
    """Commands are answered `late`, `out of order`, or carried out `twice`; with none of these, as usual.

    With `never`, every eighth command costs the connection: it is carried out or not, and never answered.
    """

    def __init__(self, terms: ValkeyTerms, fault: str = "", seed: int = 0) -> None:
        super().__init__(terms)
        self.fault, self._random = fault, random.Random(seed)
        self._last: asyncio.Future[Any] | None = None

    def ask(self, *words: Any) -> "asyncio.Future[Any]":
        answer = super().ask(*words)
        if not self.fault:
            return answer
        if self.fault == "twice":
            super().ask(*words).add_done_callback(ignore)
        if self.fault == "never" and self._wire is not None and not self._random.randrange(8):
            asyncio.get_running_loop().call_soon(self._wire.end, "the test cuts it")
        passed = self._last = later(self._pass_on(answer, None if self.fault == "out of order" else self._last))
        passed.add_done_callback(ignore)
        return passed

    async def _pass_on(self, answer: "asyncio.Future[Any]", before: "asyncio.Future[Any] | None") -> Any:
        await asyncio.wait([answer] if before is None else [answer, before])
        for _ in range(self._random.randrange(6)):
            await asyncio.sleep(0)
        return answer.result()


class UnreliableDatabase(DatabaseLink):
    """Work is answered `late`; or, one time in three, done and its answer `lost`, or `cut` off before one of its statements."""

    is_calm = False
    """Whether the network is well again, for all links."""

    def __init__(self, *given: Any, fault: str, seed: int = 0, **more: Any) -> None:
        super().__init__(*given, **more)
        self.fault, self._random = fault, random.Random(seed)

    @asynccontextmanager
    async def borrow(self) -> AsyncIterator[Any]:
        has_fault = not self.is_calm and not self._random.randrange(3)
        async with super().borrow() as connection:
            if self.fault == "late":
                await self._wait()
            yield _Cut(connection, self._random.randrange(3)) if self.fault == "cut" and has_fault else connection
            if self.fault == "late":
                await self._wait()
            elif self.fault == "lost" and has_fault:
                connection.terminate()
                raise asyncpg.ConnectionDoesNotExistError("the test lost the answer")

    async def _wait(self) -> None:
        for _ in range(self._random.randrange(6)):
            await asyncio.sleep(0)


class _Cut:
    """A connection that ends before a further statement."""

    def __init__(self, connection: Any, statements: int) -> None:
        self._connection, self._left = connection, statements

    def __getattr__(self, name: str) -> Any:
        if name != "transaction":
            self._left -= 1
            if self._left < 0:
                self._connection.terminate()
        return getattr(self._connection, name)


async def insist(work: Callable[..., Awaitable[_T]], *values: Any) -> _T:
    """Repeat a call until it is answered, as callers and owners of jobs do."""
    while True:
        with suppress(StoreUnusable, StoreUnavailable):
            return await work(*values)
