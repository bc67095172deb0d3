"""Limits of callers that several routers share: what this router lacks is asked for before a request is counted."""

from collections.abc import Callable, Mapping

from router.contract.allowance import Allowance
from router.contract.caller import Caller
from router.contract.errors import StoreUnavailable
from router.contract.exchange import Exchange
from router.contract.facts import Decided
from router.contract.rights import Rights
from router.contract.target import Quota
from router.limits.rates import MINUTE_SECONDS, CallerRates, expect_tokens, quota_of
from router.limits.shared_quota import SharedMeter

RETRY_SECONDS = 2.0
"""When to try again while the store cannot be used: it is probed twice a second."""


class SharedRates(CallerRates):
    """The meters of all callers, each with this router's part of the caller's limits."""

    def __init__(self, allowance: Allowance, clock: Callable[[], float]) -> None:
        super().__init__(clock)
        self._allowance = allowance

    def make_meter(self, name: str, quota: Quota) -> SharedMeter:
        return SharedMeter(quota, self._allowance, ("caller", name), self.clock, _nobody_waits, MINUTE_SECONDS)

    def turn_away(self, rights: Mapping[str, Rights], caller: Caller) -> None:
        meter = self._meters.get(caller.name)
        if not isinstance(meter, SharedMeter) or not meter.is_blind:
            super().turn_away(rights, caller)

    async def reach(self, exchange: Exchange, decided: Decided | None, rights: Rights) -> None:
        if (quota := quota_of(rights)) is None:
            return
        meter = self.find(exchange.caller.name, quota)
        if not isinstance(meter, SharedMeter):
            return
        tokens = expect_tokens(meter, decided)
        await meter.reach_room(tokens)
        if meter.is_blind and not meter.has_room(tokens, self.clock()):
            raise unknown("how much of its limits this key has used")


def _nobody_waits() -> None:
    """A caller is refused at once."""


def unknown(what: str) -> StoreUnavailable:
    words = (
        f"{what} is not known: the store that the routers share cannot be used, and this router's part is used up. "
        f"Try again in {RETRY_SECONDS:g} s"
    )
    return StoreUnavailable(words, retry_after_seconds=RETRY_SECONDS)
