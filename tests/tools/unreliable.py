"""A link to a real Valkey or Redis server that behaves as a network lets it."""

import asyncio
import random
from typing import Any

from router.contract.shared import ValkeyTerms
from router.stores.valkey.link import Link, ignore
from tests.tools.waiting import later

FAULTS = ("late", "out of order", "twice")


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
