"""A store of sessions that answers late, and in another order than it is asked: as one that several processes share."""

import asyncio
import random

from router.contract.stores import StoreUnusable, Versioned
from tests.tools.later import later


class SlowSessions:
    """Each call takes effect after some turns of the loop, and is answered after some more."""

    is_shared = False

    def __init__(self, seed: int = 0) -> None:
        self._random, self.records = random.Random(seed), {}

    async def load(self, key: str) -> Versioned:
        await self._wait()
        found = self.records.get(key, Versioned())
        await self._wait()
        return found

    async def load_all(self, keys) -> list[Versioned]:
        return [await self.load(key) for key in keys]

    async def swap(self, key: str, version: int, at: float, state: bytes) -> bool:
        await self._wait()
        is_same = self.records.get(key, Versioned()).version == version
        if is_same:
            self.records[key] = Versioned(state, version + 1)
        await self._wait()
        return is_same

    async def close(self) -> None: ...

    async def _wait(self) -> None:
        for _ in range(self._random.randrange(6)):
            await asyncio.sleep(0)


async def save(store, key: str, at: float, state: bytes) -> None:
    """Replace a record, whatever it is."""
    while not await swap(store, key, (await store.load(key)).version, at, state):
        pass


async def swap(store, *given) -> bool:
    """What a store answers, at once or later."""
    answer = store.swap(*given)
    return answer if isinstance(answer, bool) else await answer


class SharedSessions(SlowSessions):
    """The same as several routers share it: answered in order, taking back what it lost, and sometimes away."""

    is_shared = True

    def __init__(self, seed: int = 0) -> None:
        super().__init__(seed)
        self.is_away, self.trips, self._last = False, 0, None

    async def load(self, key: str) -> Versioned:
        (found,) = await self.load_all((key,))
        return found

    async def load_all(self, keys) -> list[Versioned]:
        return await self._answer(lambda: [self.records.get(key, Versioned()) for key in keys])

    def swap(self, key: str, version: int, at: float, state: bytes) -> "asyncio.Future[bool]":
        def replace() -> bool:
            is_same = key not in self.records or self.records[key].version == version
            if is_same:
                self.records[key] = Versioned(state, version + 1)
            return is_same

        return self._answer(replace)

    def _answer(self, act) -> asyncio.Future:
        if self.is_away:
            raise StoreUnusable("away")
        self.trips += 1
        self._last = later(self._answer_after(self._last, act))
        return self._last

    async def _answer_after(self, before: "asyncio.Future | None", act):
        if before is not None:
            await asyncio.wait([before])
        await self._wait()
        if self.is_away:
            raise StoreUnusable("away")
        return act()
