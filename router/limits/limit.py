"""What every limit of a caller is asked."""

from contextlib import AbstractContextManager

from router.contract.exchange import Exchange
from router.contract.facts import Decided
from router.contract.relay import Headers
from router.contract.rights import Rights
from router.contract.target import Target


class CallerLimit:
    """Something of which a caller has only so much: requests a minute, or money."""

    async def reach(self, exchange: Exchange, decided: Decided | None, rights: Rights) -> None:
        """Where routers share a limit, ask for what a request needs. `hold` takes it, or says that there is too little.

        Raises `StoreUnavailable` where that is not known.
        """

    def hold(self, exchange: Exchange, decided: Decided | None, rights: Rights) -> AbstractContextManager[Headers]:
        """Take what a request needs, and settle what it took when it is over; says what its answer is to tell its caller.

        `decided` is None for a request that is passed on. Raises a `TandemError` where too little is left.
        """
        raise NotImplementedError

    async def reach_another(self, exchange: Exchange, target: Target) -> None:
        """Where routers share a limit, ask for what a further attempt at this target needs."""

    def allow_another(self, exchange: Exchange, target: Target) -> None:
        """Take what a further attempt at this target needs. Raises a `TandemError` where too little is left."""
