"""Whether what routers share can be used, for the people who are told of it. Read when somebody asks."""

import time
from collections.abc import Callable

from router.contract.notices import Notice, Trouble
from router.stores.open_shared import Shared

_VALKEY = "the shared Valkey server is away: this router serves by what it knows itself, and limits are its own share"
_REFUSES = "the shared Valkey server refuses commands ({}): what it refuses is known to this router alone"
_POSTGRES = "the shared database does not take the ledger's rows: they wait in this router's file"
_LATE_SECONDS = 10.0
_HINT = "tandem check --live"


def find_troubles(shared: Shared, time_of_day: float, clock: Callable[[], float] = time.monotonic) -> list[Notice]:
    """One notice while the Valkey server cannot be used, and one while the copy of the ledger is far behind."""
    found = []
    lost_at = shared.link.lost_at if shared.link is not None else None
    refusing = shared.link.refusals.look() if shared.link is not None else None
    if lost_at is not None:
        found.append(Notice(Trouble.STORE_AWAY, "valkey", time_of_day - (clock() - lost_at), _VALKEY, _HINT))
    elif refusing is not None:
        text = _REFUSES.format(refusing.reason)
        found.append(Notice(Trouble.STORE_AWAY, "valkey", time_of_day - (clock() - refusing.since), text, _HINT))
    waiting_since = shared.forwarder.waiting_since if shared.forwarder is not None else None
    if waiting_since is not None and time_of_day - waiting_since >= _LATE_SECONDS:
        found.append(Notice(Trouble.STORE_AWAY, "postgres", waiting_since, _POSTGRES, _HINT))
    return found
