"""Responses that a later request may continue from: this router's copies, and those in shared stores.

Shared stores (`places.py`) are asked about every response, so that one deleted at any router is served by none. Own copies
count where a store has no record of an id, or is away. While a store is away an unknown id may exist there, so the caller gets
`StoreUnavailable` (try again), not "not found".
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from router.contract.caller import Caller
from router.contract.errors import StoreUnavailable
from router.contract.stores import RETRY_AFTER_SECONDS, StoredResponse, StoreUnusable
from router.loop.supervisor import supervise
from router.loop.tasks import spawn
from router.stores.memory.responses import MemoryResponses
from router.stores.outbox import Outbox
from router.stores.places import UNKNOWN, Key, Known, Place
from router.telemetry import events

if TYPE_CHECKING:
    from router.stores.postgres.responses import PostgresResponses
    from router.stores.sqlite.responses import SqliteResponses
    from router.stores.valkey.responses import ValkeyResponses

_COME_BACK_SECONDS = 1.0
_RETRY_SECONDS = 1.0
_SETTLE_SECONDS = 5.0
"""Grace period after Valkey recovers, or a router reports unwritten responses, in which a missing one may still be uploaded."""
_LOOK_AGAIN_SECONDS = 0.2
"""Short, because an answer waits for its writes (`responses/acknowledged.py`)."""
_REPORT_SECONDS = 60.0
_SORTED_AT_ONCE = 100
_KIND = "responses"
_Load = Callable[[str, Caller], Awaitable[StoredResponse | None]]


class Responses:
    """Keeps responses here, for an hour in Valkey, and those with `store: true` in Postgres, where configured."""

    def __init__(
        self,
        own: MemoryResponses,
        valkey: "ValkeyResponses | None" = None,
        postgres: "PostgresResponses | None" = None,
        disk: "SqliteResponses | None" = None,
    ) -> None:
        """`disk` is below `own`; with Postgres, it holds what Postgres could not take."""
        self._own, self._valkey, self._postgres, self._disk = own, valkey, postgres, disk
        self._places: list[Place] = [place for place in (valkey, postgres) if place is not None]
        self._writing: dict[Key, asyncio.Future[None]] = {}
        self._late = Outbox(self._write_late, _size, self._note_dropped)
        self._unwritten = Outbox(self._write_again, _size)
        self._sending: asyncio.Task[None] | None = None
        self._lost, self._reported_at = 0, 0.0
        self._settled_at = 0.0
        if valkey is not None:
            valkey.on_gone, valkey.on_unwritten = self._note_gone, self._begin_settling
            valkey.link.on_back(self._begin_settling, self._restore)

    def start(self) -> None:
        """Called once, before the first request."""
        if self._disk is not None and self._postgres is not None and self._sending is None:
            self._sending = supervise(partial(self._send_from_disk, self._disk, self._postgres), name="send stored responses")

    def keep(self, response: StoredResponse, *, for_long: bool) -> "asyncio.Future[Any] | None":
        is_durable = for_long and self._postgres is not None
        if self._valkey is not None or not is_durable:
            # Without Valkey, this router would not hear that a stored response was deleted.
            self._own.keep(response, for_long=for_long and not is_durable)
        sent = self._send(response)
        if is_durable:
            key = response.caller, response.id
            written = spawn(self._write(response, self._writing.get(key)), name=f"{response.id} keep")
            self._writing[key] = written
            written.add_done_callback(_look_at)
            sent = asyncio.gather(sent, written) if sent is not None else written
        if sent is not None:
            sent.add_done_callback(_look_at)
        return sent

    async def find(self, response_id: str, caller: Caller) -> StoredResponse | None:
        """Unknown ids are looked up twice: an answer may leave just before it is written."""
        for is_first in (True, False):
            known, is_away = await self._look(response_id, caller)
            if known.response is not None or known.is_deleted:
                return known.response
            with _asked(f"response '{response_id[:80]}' cannot be looked up now"):
                found = await self._own.find(response_id, caller)
            if found is not None:
                return found
            if is_away:
                raise self._unavailable(f"response '{response_id[:80]}' cannot be looked up now")
            if known.is_others:
                return None
            if is_first and self._places:
                await asyncio.sleep(_LOOK_AGAIN_SECONDS)
        return None

    async def find_holder(self, item_ids: Collection[str], caller: Caller) -> StoredResponse | None:
        """The newest in a shared store, else one of this router's own."""
        is_away, found = self._is_settling(), list[tuple[StoredResponse, Place | None]]()
        await self._written(*self._writing)
        for place in self._places:
            try:
                if (holder := await place.find_holder(item_ids, caller)) is not None:
                    found.append((holder, place))
            except StoreUnusable:
                is_away = True
        if not found:
            with _asked("the items that the request names cannot be looked up now"):
                own = await self._own.find_holder(item_ids, caller)
            found += [(own, None)] if own is not None else []
        for response, found_in in sorted(found, key=lambda one: one[0].at, reverse=True):
            is_sure = found_in is not None and found_in is self._places[0]  # also the first to be asked about the id
            if is_sure or not (await self._look(response.id, caller))[0].is_deleted:
                return response
        if is_away:
            raise self._unavailable("the items that the request names cannot be looked up now")
        return None

    async def forget(self, response_id: str, caller: Caller) -> bool:
        """Delete it everywhere, or raise. The longest-lived store comes first, so that a retry finds the rest."""
        if not self._places:
            with _asked(f"response '{response_id[:80]}' cannot be deleted now"):
                return await self._own.forget(response_id, caller)
        await self._written(*(key for key in self._writing if key[1] == response_id))
        try:
            known = [await place.find(response_id, caller) for place in self._places]
            if not any(one.response for one in known):
                if any(one.is_deleted for one in known):
                    return False
                if await self._own.find(response_id, caller) is None:
                    if self._is_settling():
                        raise StoreUnusable("it may be on its way")
                    return False
            for place in reversed(self._places):
                await place.delete(response_id, caller)
        except StoreUnusable as error:
            self._count_blind()
            raise self._unavailable(f"response '{response_id[:80]}' cannot be deleted now") from error
        self._drop_waiting((caller, response_id))
        await self._own.forget(response_id, caller)
        return True

    async def is_denied(self, response_id: str, caller: Caller) -> bool:
        known, is_away = await self._look(response_id, caller)
        if known.is_deleted or known.is_others:
            return True
        with _asked(f"response '{response_id[:80]}' cannot be looked up now"):
            if await self._own.is_denied(response_id, caller):
                return True
        if known.response is None and is_away:
            raise self._unavailable(f"response '{response_id[:80]}' cannot be looked up now")
        return False

    async def close(self) -> None:
        await self._written(*self._writing)
        if self._sending is not None:
            self._sending.cancel()
            await asyncio.wait([self._sending])
        await self._unwritten.close()
        await self._late.close()
        self._lost += len(self._late) if self._disk is None else 0
        self._report_lost()
        await self._own.close()

    async def _look(self, response_id: str, caller: Caller) -> tuple[Known, bool]:
        """The find, and whether a store that might know more is away."""
        is_away, best = self._is_settling(), UNKNOWN
        await self._written(*(key for key in self._writing if key[1] == response_id))
        for place in self._places:
            try:
                known = await place.find(response_id, caller)
            except StoreUnusable:
                is_away = True
                continue
            if known.response is not None or known.is_deleted:
                return known, False
            best = known if known.is_others else best
        if is_away:
            self._count_blind()
        return best, is_away

    def _count_blind(self) -> None:
        if self._valkey is not None:
            self._valkey.link.blind[_KIND] += 1

    @staticmethod
    def _unavailable(what: str) -> StoreUnavailable:
        return StoreUnavailable(
            f"{what}: the store that the routers share cannot be asked", retry_after_seconds=_COME_BACK_SECONDS
        )

    def _send(self, response: StoredResponse) -> "asyncio.Future[Any] | None":
        if self._valkey is None:
            return None
        self._unwritten.remove((response.caller, response.id))
        try:
            sent = self._valkey.send(response)
        except StoreUnusable:
            self._count_blind()
            return None
        sent.add_done_callback(partial(self._note_sent, self._valkey, response))
        return sent

    def _note_sent(self, valkey: "ValkeyResponses", response: StoredResponse, sent: "asyncio.Future[Any]") -> None:
        """Until it is written, other routers must not report it as missing."""
        if sent.cancelled() or sent.exception() is None:
            self._unwritten.remove((response.caller, response.id))  # an older version may have been refused since
        else:
            self._unwritten.add((response.caller, response.id), response)
            valkey.report_unwritten()

    async def _write_again(self, key: Key, response: StoredResponse) -> None:
        assert self._valkey is not None
        if self._valkey.is_over(response):
            return
        try:
            await self._valkey.keep(response)
        except StoreUnusable:
            self._valkey.report_unwritten()
            raise

    def _drop_waiting(self, key: Key) -> None:
        self._late.remove(key)
        self._unwritten.remove(key)

    async def _write(self, response: StoredResponse, before: "asyncio.Future[None] | None") -> None:
        key = response.caller, response.id
        assert self._postgres is not None
        try:
            if before is not None:
                await asyncio.wait([before])
            self._late.remove(key)
            await self._postgres.keep(response)
        except StoreUnusable:
            self._own.keep(response, for_long=True)  # on disk until it can be shared
            self._late.add(key, response)
            raise
        finally:
            if self._writing.get(key) is asyncio.current_task():
                del self._writing[key]

    async def _written(self, *keys: Key) -> None:
        writing = [self._writing[key] for key in keys if key in self._writing]
        if writing:
            await asyncio.wait(writing)

    async def _write_late(self, key: Key, response: StoredResponse) -> None:
        assert self._postgres is not None
        await self._postgres.keep(response, is_late=True)

    def _note_dropped(self) -> None:
        """The queue is full: send from disk, if any; the rest is lost."""
        if self._disk is not None:
            self.start()
            return
        self._lost += 1
        if asyncio.get_running_loop().time() >= self._reported_at:
            self._report_lost()

    def _report_lost(self) -> None:
        if self._lost:
            events.responses_lost(count=self._lost)
            self._lost, self._reported_at = 0, asyncio.get_running_loop().time() + _REPORT_SECONDS

    async def _send_from_disk(self, disk: "SqliteResponses", postgres: "PostgresResponses") -> None:
        """A few at a time, resuming where it failed."""
        after = 0
        while True:
            try:
                rows = await disk.list_rows(after, _SORTED_AT_ONCE)
                if not rows:
                    break
                await self._give_back(postgres, [key for _, key in rows], disk.load)
                after = rows[-1][0]
            except StoreUnusable:
                await asyncio.sleep(_RETRY_SECONDS)
        self._sending = None

    def _note_gone(self, response_id: str, caller: Caller) -> None:
        """Called for deletions at any router, this one too."""
        self._drop_waiting((caller, response_id))
        spawn(self._forget_own(response_id, caller), name=f"{response_id[:40]} forget")

    async def _forget_own(self, response_id: str, caller: Caller) -> None:
        with suppress(StoreUnusable):
            await self._own.forget(response_id, caller)

    def _begin_settling(self) -> None:
        self._settled_at = asyncio.get_running_loop().time() + _SETTLE_SECONDS

    def _is_settling(self) -> bool:
        return asyncio.get_running_loop().time() < self._settled_at

    async def _restore(self) -> None:
        """Upload what the server lost or never had, and forget what was deleted while this router was cut off."""
        assert self._valkey is not None
        kept = [(each.caller, each.id) for each in self._own.list_kept() if self._valkey.takes(each)]
        for start in range(0, len(kept), _SORTED_AT_ONCE):
            await self._give_back(self._valkey, kept[start : start + _SORTED_AT_ONCE], self._own.find)

    async def _give_back(self, place: Place, keys: Collection[Key], load: _Load) -> None:
        missing, deleted = await place.sort_out(keys)
        for caller, name in missing:
            if (response := await load(name, caller)) is not None:
                await place.keep(response, is_late=True)  # one at a time: the connection is shared
        for caller, name in deleted:
            await self._forget_own(name, caller)


@contextmanager
def _asked(what: str) -> Iterator[None]:
    """Ask this router's own file, which may be away."""
    try:
        yield
    except StoreUnusable as error:
        raise StoreUnavailable(f"{what}: {error}", retry_after_seconds=RETRY_AFTER_SECONDS) from error


def _size(response: StoredResponse) -> int:
    return len(response.raw)


def _look_at(written: "asyncio.Future[Any]") -> None:
    """Retrieve the exception of a failed write, which is already queued for retry."""
    if not written.cancelled():
        written.exception()
