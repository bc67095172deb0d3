"""Whether the ledger loses rows, for the people who are told of it. Read when somebody asks."""

from router.contract.notices import Notice, Trouble
from router.stores.sqlite.alarm import Failing
from router.stores.sqlite.damage import DAMAGED
from router.stores.sqlite.writer import SqliteWriter

_HINT = "tandem check"


def find_troubles(ledger: SqliteWriter, time_of_day: float) -> list[Notice]:
    """One notice while the file cannot be written to, while rows are lost, or once the file was found damaged."""
    failing = ledger.failing
    if failing is not None and failing.kind != DAMAGED:
        since, text = time_of_day - failing.for_seconds, _describe(failing, ledger.lost)
    elif ledger.damaged_since is not None:
        since, text = ledger.damaged_since, "the ledger's file is damaged"
    else:
        return []
    return [Notice(Trouble.LEDGER_LOSING, "", since, text, _HINT)]


def _describe(failing: Failing, lost: int) -> str:
    if failing.is_outage:
        return f"the ledger cannot be written ({failing.kind}): {f'lost rows: {lost}' if lost else 'its rows wait in memory'}"
    if not lost:
        return f"the ledger's file was moved or deleted while it was in use ({failing.kind})"
    return f"the ledger loses rows ({failing.kind}): {lost} so far"
