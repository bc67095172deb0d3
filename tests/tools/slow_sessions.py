"""A store of sessions that answers late, and in another order than it is asked: as one that several processes share."""

import asyncio
import random

from router.contract.stores import Versioned


class SlowSessions:
    """Each call takes effect after some turns of the loop, and is answered after some more."""

    def __init__(self, seed: int = 0) -> None:
        self._random, self.records = random.Random(seed), {}

    async def load(self, key: str) -> Versioned:
        await self._wait()
        found = self.records.get(key, Versioned())
        await self._wait()
        return found

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
