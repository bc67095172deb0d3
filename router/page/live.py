"""The route of the live feed: who may read what, and until when."""

from collections.abc import AsyncIterator, Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from time import time
from typing import TYPE_CHECKING

from router.contract.errors import BadRequest, NotFound, Unavailable
from router.contract.exchange import Part
from router.contract.keys import rights_of
from router.contract.lasting import Held
from router.contract.notices import Notice
from router.contract.request import JsonObject
from router.edge.control.panel import Answer, Asked, Page
from router.edge.logins import Logins
from router.house import House
from router.page.feed import Feed, Reader
from router.telemetry.ring import Ring

if TYPE_CHECKING:
    from router.page.others import OtherRouters

_MAX_DIGITS = 18
_NO_CACHE = {"cache-control": "no-store", "x-accel-buffering": "no"}


class LiveFeed:
    def __init__(
        self,
        house: House,
        is_ready: Callable[[], bool],
        logins: Logins,
        notices: Callable[[], Sequence[Notice]] = tuple,
        others: "OtherRouters | None" = None,
    ) -> None:
        self._house, self._is_ready, self._notices, self._logins = house, is_ready, notices, logins
        self._feed = Feed(house.state.ring, house.state.running, notices, house.clock, others)
        self.pages = (Page("/tandem/feed", self._serve),)

    async def _serve(self, asked: Asked) -> Answer:
        check_on(self._house)
        if not self._is_ready():
            raise Unavailable("the router is shutting down")
        plan, rights, caller = self._house.plan, asked.rights, asked.caller
        reader = Reader(caller.name, rights.is_admin, asked.query.get("words") == "1" and plan.keeps_text)
        hello: JsonObject = {
            "caller": caller.name,
            "admin": rights.is_admin,
            "keys": plan.keys is not None,
            "keeps_text": plan.keeps_text,
            "version": _find_version(),
            "now": time(),
        }
        is_known = _Known(self._house, self._logins, asked)

        def goes_on() -> bool:
            """False after a stop, when the page is turned off, or when the reader loses its key or its rights change."""
            return (
                self._is_ready()
                and is_on(self._house)
                and is_known()
                and rights_of(self._house.plan.keys, caller, asked.key, time()) == rights
            )

        pieces = self._feed.read(reader, _read_place(asked, self._house.state.ring), hello, goes_on)
        return Answer(self._hold(asked, pieces), "text/event-stream", headers=dict(_NO_CACHE))

    async def _hold(self, asked: Asked, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        held = self._house.state.lasting.hold(Held("feeds", asked.caller, asked.key))
        try:
            async for piece in pieces:
                yield piece
        finally:
            self._house.state.lasting.release(held)


class _Known:
    """Whether a reader may still read: its key and its login, if needed, are valid."""

    def __init__(self, house: House, logins: Logins, asked: Asked) -> None:
        self._house, self._logins, self._cookies = house, logins, asked.headers.get("cookie", "")
        keys = house.plan.keys
        self._key = next((key for key in keys if key.id == asked.key), None) if keys is not None else None
        self._has_login = keys is not None and logins.find(self._cookies, keys, time()) is not None

    def __call__(self) -> bool:
        keys = self._house.plan.keys
        if keys is None:
            return True
        if self._key is None or keys.renew(self._key, time()) is None:
            return False
        return not self._has_login or self._logins.find(self._cookies, keys, time()) is not None


def is_on(house: House) -> bool:
    return house.state.observers.is_on(Part.PAGE)


def check_on(house: House) -> None:
    if not is_on(house):
        raise NotFound("the live page is off (page: off in the config)")


def _read_place(asked: Asked, ring: Ring) -> int | None:
    """The reader's last row, from the header of browsers that reconnect; None if from before a restart."""
    given = asked.headers.get("last-event-id") or asked.query.get("after")
    if not given:
        return None
    epoch, _, number = given.rpartition("-")
    if epoch:
        given = number if epoch == ring.epoch else "0"
    if not (given.isascii() and given.isdigit() and len(given) <= _MAX_DIGITS):
        raise BadRequest("after: must be the number of a row, as the id of an event has it", param="after")
    return int(given)


def _find_version() -> str:
    try:
        return version("tandem-router")
    except PackageNotFoundError:
        return ""
