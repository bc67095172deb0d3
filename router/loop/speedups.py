"""Everything that makes requests cheaper without changing an answer, in one object that a house is built with."""

import asyncio
import sys
from collections.abc import Callable, Mapping
from functools import partial

from router.loop.memory import FreeMemory
from router.loop.off_loop import OffLoop
from router.loop.tasks import spawn, spawn_started
from router.loop.together import DirectOutbox, Gathering, Outbox

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
        self.gathering = Gathering()
        self.gathers_from = sys.maxsize if plain else 2
        """With this many requests in flight, new ones take their steps together."""
        self.start: Callable[..., asyncio.Task[None] | None] = spawn if plain else spawn_started
        """Starts a request that is alone."""
        self.new_outbox: Callable[[], Outbox] = DirectOutbox if plain else partial(Outbox, self.gathering)
