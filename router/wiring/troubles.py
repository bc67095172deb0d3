"""What is broken now, from every part that can have troubles, and which stores can be used."""

import time
from collections.abc import Mapping

from router.contract.combine import LookWhen
from router.contract.notices import Notice, Trouble
from router.dispatch.live.troubles import find_troubles as find_target_troubles
from router.house import House
from router.notices.alerts import NoticeBoard
from router.stores.sqlite.alarm import Failing
from router.stores.sqlite.files import DAMAGED
from router.stores.sqlite.writer import SqliteWriter
from router.wiring.key_watch import KeyWatch
from router.wiring.own_policies import list_troubles

_HINT = "tandem check"
_LEDGER = "ledger"
_NAMES = {_LEDGER: "the ledger", "responses": "the store of responses", "jobs": "the store of background jobs"}
_MEANWHILE = {
    _LEDGER: "its rows wait in memory",
    "responses": "new ones wait in memory, and those that cannot be read are answered with 503",
    "jobs": "requests with background: true are answered with 503",
}


def list_notices(house: House, keys: KeyWatch | None = None) -> NoticeBoard:
    """All current troubles, from every part that can have some."""
    state = house.state

    def of_targets() -> list[Notice]:
        return find_target_troubles(state.live, house.plan.targets, house.clock(), time.time())

    def of_budgets() -> list[Notice]:
        return state.budgets.find_troubles()

    def of_stores() -> list[Notice]:
        found = find_file_troubles(state.files, time.time(), has_budgets=state.budgets.is_needed)
        return [*found, keys.notice] if keys is not None and keys.notice is not None else found

    def of_shared() -> list[Notice]:
        if state.shared is None:
            return []
        from router.stores.shared import find_troubles as find_shared_troubles  # only routers that share need it

        return find_shared_troubles(state.shared, time.time())

    def of_policies() -> list[Notice]:
        return list_troubles(house.plan.rules.policies)

    def of_looks() -> list[Notice]:
        return state.looks.find_troubles() if house.plan.combine.look.when is not LookWhen.OFF else []

    return NoticeBoard(of_targets, of_budgets, of_stores, of_shared, of_policies, of_looks)


def find_file_troubles(files: Mapping[str, SqliteWriter], time_of_day: float, *, has_budgets: bool = False) -> list[Notice]:
    """One notice for each file that cannot be written to, or that loses rows."""
    found = []
    for store, writer in files.items():
        if (failing := writer.failing) is not None:
            kind, subject = (Trouble.LEDGER_LOSING, "") if store == _LEDGER else (Trouble.STORE_AWAY, store)
            text = _describe(store, failing, writer.lost)
            if has_budgets and store == _LEDGER and not writer.was_open:
                text += ", and callers with a budget are answered with 503"
            found.append(Notice(kind, subject, time_of_day - failing.for_seconds, text, _HINT))
    return found


def _describe(store: str, failing: Failing, lost: int) -> str:
    name = _NAMES[store]
    if failing.kind == DAMAGED:
        return f"{name}'s file is damaged"
    if failing.is_outage:
        return f"{name} cannot be written ({failing.cause}): {f'lost rows: {lost}' if lost else _MEANWHILE[store]}"
    if not lost:
        return f"{name}'s file was moved or deleted while it was in use ({failing.kind})"
    return f"{name} loses rows ({failing.kind}): {lost} so far"


def find_usable(house: House, keys: KeyWatch | None) -> dict[str, bool]:
    """Which of this router's own stores can be used now."""
    found = {name: (failing := writer.failing) is None or not failing.is_outage for name, writer in house.state.files.items()}
    if keys is not None:
        found["keys"] = keys.notice is None
    return found
