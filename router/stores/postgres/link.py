"""Database connections. All work has a time limit, and fails as `StoreUnusable`.

A connection whose work was cut off is closed, so that a server that wakes later rolls back. A statement that would do harm when
executed late is therefore sent in a transaction.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from math import inf
from typing import Any

import asyncpg  # from the extra `shared`

from router.contract.shared import PostgresTerms
from router.contract.stores import StoreUnusable
from router.stores.postgres.schema import LIMIT_SECONDS, SchemaUnusable, prepare

_CLOSE_SECONDS = 0.5
_REPORT_SECONDS = 60.0
_TABLES_GONE = (asyncpg.UndefinedTableError, asyncpg.InvalidSchemaNameError, asyncpg.UndefinedColumnError)
_FAILURES = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError, TimeoutError)
_REASONS: tuple[tuple[type[BaseException] | tuple[type[BaseException], ...], str], ...] = (
    ((TimeoutError, asyncpg.QueryCanceledError), "the database did not answer in time"),
    (asyncpg.InvalidAuthorizationSpecificationError, "the database refused the user name or the password"),
    (asyncpg.InvalidCatalogNameError, "the server has no database of this name"),
    (asyncpg.TooManyConnectionsError, "the database does not accept more connections"),
    (asyncpg.InsufficientPrivilegeError, "the database user lacks a right that is needed"),
    (asyncpg.ReadOnlySQLTransactionError, "the database is read-only"),
    (asyncpg.DiskFullError, "the disk of the database is full"),
    (_TABLES_GONE, "the tables in the database are gone"),
    (
        (
            asyncpg.PostgresConnectionError,
            asyncpg.OperatorInterventionError,
            asyncpg.InterfaceError,
            OSError,
        ),
        "the database cannot be reached",
    ),
)


def explain(error: BaseException) -> str:
    """Shows neither the address nor the data sent."""
    found = next((words for kinds, words in _REASONS if isinstance(error, kinds)), "the database reported an error")
    code = getattr(error, "sqlstate", None) or type(error).__name__
    return f"{found} ({code})"


class Link:
    """A small pool of connections, opened on demand. The first prepares the tables, if wanted."""

    def __init__(self, terms: PostgresTerms, on_failure: Callable[[str], None], *, prepares: bool = True) -> None:
        self._terms, self._on_failure = terms, on_failure
        self._seconds = terms.timeout_seconds
        self._free = asyncio.Semaphore(max(1, terms.connections - 1))
        """One allowed connection is reserved for listening."""
        self._idle: list[Any] = []
        self._is_prepared, self._is_closed = not prepares, False
        self._reported_at: float | None = None
        self._failed_at = -inf

    @property
    def works_since_seconds(self) -> float:
        """Since the last failure."""
        return time.monotonic() - self._failed_at

    @asynccontextmanager
    async def borrow(self) -> AsyncIterator[Any]:
        """Limits the time of the block."""
        with self._reporting():
            async with asyncio.timeout(self._seconds) as limit, self._free:
                while self._idle and self._idle[-1].is_closed():
                    self._idle.pop()
                connection = self._idle.pop() if self._idle else await self._connect(limit)
                try:
                    yield connection
                except (asyncpg.PostgresError, StoreUnusable):
                    self._put_back(connection)
                    raise
                except BaseException:
                    connection.terminate()
                    raise
                self._put_back(connection)

    @asynccontextmanager
    async def listen(self, channel: str, hear: Callable[[str], None]) -> AsyncIterator[Callable[[float], Awaitable[None]]]:
        """Yields a function that waits, then checks the connection."""
        lost = asyncio.Event()

        async def check(after_seconds: float) -> None:
            with suppress(TimeoutError):
                await asyncio.wait_for(lost.wait(), after_seconds)
            async with asyncio.timeout(self._seconds):
                await connection.fetchval("SELECT 1")

        with self._reporting():
            async with asyncio.timeout(self._seconds) as limit:
                connection = await self._connect(limit)
            try:
                connection.add_termination_listener(lambda _: lost.set())
                async with asyncio.timeout(self._seconds):
                    await connection.add_listener(channel, lambda *heard: hear(heard[-1]))
                yield check
            finally:
                connection.terminate()

    async def close(self) -> None:
        self._is_closed = True
        idle, self._idle = self._idle, []
        for connection in idle:
            with suppress(*_FAILURES):
                await connection.close(timeout=_CLOSE_SECONDS)

    async def _connect(self, limit: asyncio.Timeout) -> Any:
        if self._is_closed:
            raise StoreUnusable("the link to the database is closed")
        milliseconds = str(int(self._seconds * 1_000))
        settings = {
            "application_name": "tandem",
            "statement_timeout": milliseconds,
            "idle_in_transaction_session_timeout": milliseconds,
        }
        try:
            connection = await asyncpg.connect(self._terms.url.reveal(), server_settings=settings, timeout=self._seconds)
        except (ValueError, LookupError) as error:  # about the address, which must not be shown
            raise SchemaUnusable(f"the address cannot be used ({type(error).__name__})") from None
        try:
            if not self._is_prepared:
                limit.reschedule(asyncio.get_running_loop().time() + LIMIT_SECONDS)
                await prepare(connection)
                self._is_prepared = True
                limit.reschedule(asyncio.get_running_loop().time() + self._seconds)
        except BaseException:
            connection.terminate()
            raise
        return connection

    def _put_back(self, connection: Any) -> None:
        if connection.is_closed():
            return
        if self._is_closed or connection.is_in_transaction():
            connection.terminate()
        else:
            self._idle.append(connection)

    def _drop_idle(self) -> None:
        idle, self._idle = self._idle, []
        for connection in idle:
            connection.terminate()

    def _reporting(self) -> "_Reporting":
        return _Reporting(self)

    def note_failure(self, error: BaseException) -> None:
        """Reported at once, then every minute."""
        if isinstance(error, _TABLES_GONE):
            self._is_prepared = False
            self._drop_idle()
        self._failed_at = now = time.monotonic()
        if not self._is_closed and (self._reported_at is None or now >= self._reported_at + _REPORT_SECONDS):
            self._reported_at = now
            self._on_failure(str(error) if isinstance(error, StoreUnusable) else explain(error))

    def note_success(self) -> None:
        self._reported_at = None


class _Reporting:
    """Turns connection errors into `StoreUnusable`, and reports them."""

    def __init__(self, link: Link) -> None:
        self._link = link

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None:
            self._link.note_success()
        elif isinstance(error, StoreUnusable):
            self._link.note_failure(error)
        elif isinstance(error, _FAILURES):
            self._link.note_failure(error)
            raise StoreUnusable(explain(error)) from error
