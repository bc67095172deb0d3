"""What every limit answers: a `Reservation`, or a `TandemError` that says why not and in how many seconds to ask again.

`await limit.hold(amount)` takes a part of a limit before it is used. Where nothing has to be waited for, it does not suspend.
"""

from collections.abc import Sequence

from router.contract.errors import StoreUnavailable
from router.contract.facts import Fact

RETRY_SECONDS = 2.0
"""When to try again while the store cannot be used: it is probed twice a second."""


class Reservation:
    """A part of a limit, held for one request or one attempt. The first of `settle` and `release` counts."""

    __slots__ = ("is_open",)

    def __init__(self) -> None:
        self.is_open = True

    def settle(self, facts: Sequence[Fact], now: float) -> None:
        """Count what was used, by the facts that were noted since it was held."""
        if self.is_open:
            self.is_open = False
            self._settle(facts, now)

    def release(self, now: float) -> None:
        """Give it back: nothing of it was used."""
        if self.is_open:
            self.is_open = False
            self._release(now)

    def _settle(self, facts: Sequence[Fact], now: float) -> None:
        raise NotImplementedError

    def _release(self, now: float) -> None:
        raise NotImplementedError


def unknown(what: str) -> StoreUnavailable:
    words = (
        f"{what} is not known: the store that the routers share cannot be used, and this router's part is used up. "
        f"Try again in {RETRY_SECONDS:g} s"
    )
    return StoreUnavailable(words, retry_after_seconds=RETRY_SECONDS)
