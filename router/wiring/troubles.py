"""What is broken now, from every part that can have troubles, and which stores can be used."""

import asyncio
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
from router.wiring.key_watch import LOOK_SECONDS, KeyWatch
from router.wiring.own_policies import list_troubles
from router.wiring.registry import LearnedPolicy
from router.wiring.reloader import Reloader

_HINT = "tandem check"
_LEDGER = "ledger"
_NAMES = {_LEDGER: "the ledger", "responses": "the store of responses", "jobs": "the store of background jobs"}
_MEANWHILE = {
    _LEDGER: "its rows wait in memory",
    "responses": "new ones wait in memory, and those that cannot be read are answered with 503",
    "jobs": "requests with background: true are answered with 503",
}


class TableWatch:
    """Notices a personal table that cannot be read, and has it taken once it can be."""

    def __init__(self, house: House, reloader: Reloader | None) -> None:
        self._house, self._reloader = house, reloader
        self._since = 0.0

    @property
    def is_on(self) -> bool:
        return bool(self._find())

    @property
    def notice(self) -> Notice | None:
        fault = next((policy.fault for policy in self._find() if policy.fault), "")
        if not fault:
            self._since = 0.0
            return None
        self._since = self._since or time.time()
        return Notice(Trouble.STORE_AWAY, "personal", self._since, f"what your marks taught is missing: {fault}", _HINT)

    async def watch(self) -> None:
        """Look every two seconds, as long as the router runs."""
        while self._reloader is not None:
            await asyncio.sleep(LOOK_SECONDS)
            faulty = [policy for policy in self._find() if policy.fault]
            if faulty and not await asyncio.to_thread(faulty[0].look_again):
                await self._reloader.build_again()

    def _find(self) -> list[LearnedPolicy]:
        return [policy for policy in self._house.plan.rules.policies if isinstance(policy, LearnedPolicy)]


def list_notices(house: House, keys: KeyWatch | None = None, table: TableWatch | None = None) -> NoticeBoard:
    """All current troubles, from every part that can have some."""
    state = house.state

    def of_targets() -> list[Notice]:
        return find_target_troubles(state.live, house.plan.targets, house.clock(), time.time())

    def of_budgets() -> list[Notice]:
        return state.budgets.find_troubles()

    def of_stores() -> list[Notice]:
        others = [watch.notice for watch in (keys, table) if watch is not None]
        found = find_file_troubles(state.files, time.time(), has_budgets=state.budgets.is_needed)
        return [*found, *(notice for notice in others if notice is not None)]

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


def find_usable(house: House, keys: KeyWatch | None, table: TableWatch | None) -> dict[str, bool]:
    """Which of this router's own stores can be used now."""
    found = {name: (failing := writer.failing) is None or not failing.is_outage for name, writer in house.state.files.items()}
    if keys is not None:
        found["keys"] = keys.notice is None
    if table is not None and table.is_on:
        found["personal"] = table.notice is None
    return found
