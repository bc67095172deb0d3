"""Opens the stores that several routers share. A router that shares nothing imports none of them."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from router.contract.extras import how_to_install
from router.contract.notices import Notice, Trouble
from router.contract.shared import SharedTerms, ValkeyTerms
from router.contract.stores import SharedUnusable, StoreUnusable
from router.stores.memory.responses import MemoryResponses
from router.stores.responses import Responses
from router.telemetry import events

if TYPE_CHECKING:
    from router.contract.allowance import Allowance
    from router.stores.postgres.forward import Forwarder
    from router.stores.postgres.link import Link as Database
    from router.stores.sqlite.responses import SqliteResponses
    from router.stores.sqlite.writer import SqliteWriter
    from router.stores.valkey.allowance import ValkeyAllowance
    from router.stores.valkey.link import Link
    from router.stores.valkey.messages import ValkeyMessages
    from router.stores.valkey.repeats import ValkeyRepeats
    from router.stores.valkey.revoked import ValkeyRevokedKeys
    from router.stores.valkey.sessions import ValkeySessions


def say_missing(who_needs: str, package: str | None) -> str:
    return f"{who_needs} a package that is not installed: {package}\n  hint: {how_to_install('shared')}"


@contextmanager
def _needs(setting: str) -> Iterator[None]:
    """Name the missing package of the extra `shared`. Raises `SharedUnusable`."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise SharedUnusable(say_missing(f"{setting} needs", error.name)) from error


class Shared:
    """Made before there is a loop, connected before the first request."""

    def __init__(self, terms: SharedTerms) -> None:
        self.terms = terms
        self.unconfirmed: Counter[str] | None = Counter() if terms.valkey is not None or terms.postgres is not None else None
        """Answers that left before a write was confirmed, by kind of write; None where nothing is shared."""
        self.link: Link | None = None
        self.sessions: ValkeySessions | None = None
        self.messages: ValkeyMessages | None = None
        self.revoked_keys: ValkeyRevokedKeys | None = None
        self.repeats: ValkeyRepeats | None = None
        self._database: Database | None = None
        self._responses: Responses | None = None
        self.forwarder: Forwarder | None = None
        self._allowance: ValkeyAllowance | None = None
        self.has_limits = False
        """Whether to announce this router at start."""
        if terms.valkey is not None:
            self._share_server(terms.valkey)

    def _share_server(self, terms: ValkeyTerms) -> None:
        with _needs("shared.valkey"):
            from router.stores.valkey.link import Link  # needs hiredis from the extra `shared`
            from router.stores.valkey.messages import ValkeyMessages
            from router.stores.valkey.repeats import ValkeyRepeats
            from router.stores.valkey.revoked import ValkeyRevokedKeys
            from router.stores.valkey.sessions import ValkeySessions
        self.link = link = Link(terms)
        self.sessions, self.messages = ValkeySessions(link), ValkeyMessages(link, self.terms.replica)
        self.revoked_keys, self.repeats = ValkeyRevokedKeys(link, self.messages), ValkeyRepeats(link)

    def share_responses(self, own: MemoryResponses, disk: "SqliteResponses | None" = None) -> Responses:
        """`own` keeps this router's copies, on `disk` if there is one."""
        valkey = postgres = None
        if self.link is not None:
            from router.stores.valkey.responses import ValkeyResponses

            valkey = ValkeyResponses(self.link)
        if self.terms.postgres is not None:
            with _needs("shared.postgres"):
                from router.stores.postgres.link import Link as Database  # needs asyncpg from the extra `shared`
                from router.stores.postgres.responses import PostgresResponses
            self._database = Database(
                self.terms.postgres.for_responses, lambda reason: events.store_lost(store="postgres", reason=reason)
            )
            postgres = PostgresResponses(self._database)
        self._responses = Responses(own, valkey, postgres, disk)
        return self._responses

    @property
    def replicas(self) -> int:
        """Processes on this Valkey server, this one included; the last known number while it is away."""
        return self.messages.count if self.messages is not None else 1

    def copy_ledger(self, ledger: "SqliteWriter", keep_days: int) -> None:
        if self.terms.postgres is not None:
            with _needs("shared.postgres"):
                from router.stores.postgres.forward import Forwarder
            self.forwarder = Forwarder(self.terms.postgres, ledger, keep_days=keep_days)

    def open_allowance(self, name_ledger: Callable[[], str]) -> "Allowance | None":
        """None where limits are not shared. The ledger is named on first use."""
        if self.link is None:
            return None
        from router.stores.valkey.allowance import ValkeyAllowance

        self._allowance = ValkeyAllowance(self.link, self.terms.on_store_outage, self.terms.replica, name_ledger)
        return self._allowance

    async def connect(self) -> None:
        """Connect to Valkey, retrying in the background while it is away.

        Raises `SharedUnusable` where only the operator can help: a wrong password, or another kind of server.
        """
        if self.link is not None:
            try:
                await self.link.open()
            except StoreUnusable as error:
                raise SharedUnusable(f"shared.valkey: {error}") from error
            if self._allowance is not None and self.has_limits:
                self._allowance.begin()
        if self._database is not None:
            with suppress(StoreUnusable):  # reported, and retried on use
                async with self._database.borrow():
                    pass
        if self._responses is not None:
            self._responses.start()
        if self.forwarder is not None:
            self.forwarder.start()

    async def stop_copying(self) -> None:
        """Called once the ledger is no longer written."""
        if self.forwarder is not None:
            await self.forwarder.close()

    async def close(self) -> None:
        if self._allowance is not None:
            await self._allowance.close()
        if self.messages is not None:
            self.messages.close()
        if self.link is not None:
            await self.link.close()
        if self._database is not None:
            await self._database.close()


def open_shared(terms: SharedTerms | None) -> Shared | None:
    """None where the config shares nothing. Raises `SharedUnusable` where a package is missing."""
    return Shared(terms) if terms is not None else None


_VALKEY = "the shared Valkey server is away: this router serves by what it knows itself, and limits are its own share"
_REFUSES = "the shared Valkey server refuses commands ({}): what it refuses is known to this router alone"
_POSTGRES = "the shared database does not take the ledger's rows: they wait in this router's file"
_LATE_SECONDS = 10.0
_HINT = "tandem check --live"


def find_troubles(shared: Shared, time_of_day: float, clock: Callable[[], float] = time.monotonic) -> list[Notice]:
    found = []
    lost_at = shared.link.lost_at if shared.link is not None else None
    refusing = shared.link.refusals.current() if shared.link is not None else None
    if lost_at is not None:
        found.append(Notice(Trouble.STORE_AWAY, "valkey", time_of_day - (clock() - lost_at), _VALKEY, _HINT))
    elif refusing is not None:
        text = _REFUSES.format(refusing.reason)
        found.append(Notice(Trouble.STORE_AWAY, "valkey", time_of_day - (clock() - refusing.since), text, _HINT))
    waiting_since = shared.forwarder.waiting_since if shared.forwarder is not None else None
    if waiting_since is not None and time_of_day - waiting_since >= _LATE_SECONDS:
        found.append(Notice(Trouble.STORE_AWAY, "postgres", waiting_since, _POSTGRES, _HINT))
    return found
