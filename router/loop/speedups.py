"""All that makes requests cheaper without changing an answer, in one object that a house is built with."""

import sys

from router.loop.off_loop import OffLoop
from router.loop.together import Gathering


class Speedups:
    """What a house does to be fast. In plain mode all of it is off, so that a bug hunt can rule it out."""

    def __init__(self, *, plain: bool = False) -> None:
        self.is_plain = plain
        self.off_loop = OffLoop(plain=plain)
        self.gathering = Gathering()
        self.gathers_from = sys.maxsize if plain else 2
        """With this many requests in flight they take their steps together."""
