"""Everything that makes requests cheaper without changing an answer, in one object that a house is built with."""

import asyncio
from collections.abc import Callable, Mapping

from router.loop.memory import FreeMemory
from router.loop.off_loop import OffLoop
from router.loop.tasks import spawn, spawn_started
from router.loop.together import Gathering, Outbox

PLAIN = "TANDEM_PLAIN"
"""The environment variable that turns all of it off."""


def is_plain_asked(environment: Mapping[str, str]) -> bool:
    return environment.get(PLAIN, "") not in ("", "0")


class Speedups:
    """What a house does to be fast. In plain mode none of it is done, so that a bug hunt can rule it out."""

    def __init__(self, *, plain: bool = False) -> None:
        self.is_plain = plain
        self.off_loop = OffLoop(plain=plain)
        self.memory = FreeMemory(plain=plain)
        self.gathering = Gathering(plain=plain)
        self.start: Callable[..., asyncio.Task[None] | None] = spawn if plain else spawn_started
        """Starts a request that is alone."""

    def new_outbox(self) -> Outbox:
        return Outbox(self.gathering)
