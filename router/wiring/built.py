"""A house as it stands, with what is done for it around its requests: learning, watching, closing."""

import asyncio
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct, field

from router.contract.clock import CLOCK
from router.contract.economics import FailureRates
from router.contract.notices import Notices
from router.contract.relay import Warmable
from router.contract.stores import StoreUnusable
from router.contract.target import WorkRatio
from router.decide.opinions import Rules
from router.decide.ratios import learn_failures, learn_ratios
from router.dispatch.live.past import Paces, sum_up
from router.house import House
from router.jobs.jobs import Jobs
from router.loop.memory import trim
from router.loop.supervisor import supervise
from router.loop.tasks import spawn
from router.notices.alerts import Alerts
from router.wiring.key_watch import KeyWatch
from router.wiring.reloader import Reloader
from router.wiring.secret_watch import SecretWatch
from router.wiring.troubles import find_usable

if TYPE_CHECKING:
    from router.page.others import OtherRouters
    from router.stores.sqlite.past import SqliteEntryReader

_LEARN_SECONDS = 600.0


class Built(Struct, frozen=True):
    """A house, and what must be done for it around its requests."""

    house: House
    ledger_path: Path | None = None
    own_key: str = ""
    """The key that commands of the router's own user send, where callers need one."""
    reloader: Reloader | None = None
    """Takes another config while requests are served; None where there is no file to read again."""
    notices: Notices = tuple
    """Asks what is broken now."""
    alerts: Alerts | None = None
    """Sends word of that, where the config names an address."""
    others: "OtherRouters | None" = None
    """What the page shows of other routers, where there are any."""
    jobs: Jobs = field(default_factory=Jobs)
    """Background work."""
    key_watch: KeyWatch | None = None
    """Takes changes of the key file; None where callers need no key."""
    secret_watch: SecretWatch | None = None
    """Takes changes of `.env` and the certificate; None where there is no file to read again."""
    closing: AsyncExitStack = field(default_factory=AsyncExitStack)
    """Closes what was opened, the last part first."""
    _tasks: list[asyncio.Task[None]] = field(default_factory=list)

    async def connect(self) -> None:
        """Connect to what this router shares with others. Raises `SharedUnusable`."""
        if self.house.state.shared is not None:
            await self.house.state.shared.connect()

    def begin(self) -> None:
        """Begin what is done around requests, now that they are served."""
        self.warm()
        self.watch_loop()
        self.resume_jobs()
        self._tasks.append(supervise(self.watch_keys, name="watch keys"))
        if self.secret_watch is not None:
            self._tasks.append(supervise(self.secret_watch.watch, name="watch secrets"))
        if self.ledger_path is not None:
            self._tasks.append(supervise(self.keep_learning, name="learn"))
        self._tasks.append(supervise(self.watch_troubles, name="watch troubles"))

    def warm(self) -> None:
        """Let adapters load what is costly to load."""
        for adapter in self.house.plan.dispatcher.adapters:
            if isinstance(adapter, Warmable):
                adapter.warm()

    def watch_loop(self) -> None:
        CLOCK.on_pause.append(self.house.move_deadlines)
        self.closing.callback(CLOCK.on_pause.remove, self.house.move_deadlines)
        self.closing.callback(self.house.state.loop_watch.close)
        self.house.state.loop_watch.start()

    def resume_jobs(self) -> None:
        """Go on with background work that an earlier process left, now that requests are served."""
        self.jobs.resume(self.house)

    def release_jobs(self) -> None:
        """On shutdown, release jobs at once instead of after in-flight requests."""
        spawn(self.jobs.stop(), name="release jobs")

    def learn(self, path: Path | None) -> None:
        """Take from a ledger, which need not be written here, what it says of targets and callers."""
        self._apply(_read_ledger(path, self.house.plan.rules))

    async def watch_keys(self) -> None:
        """Take changes of the key file, as long as the router runs; at once over where callers need no key."""
        if self.key_watch is not None:
            await self.key_watch.watch()

    def find_usable(self) -> dict[str, bool]:
        """Which of this router's own stores can be used now."""
        return find_usable(self.house, self.key_watch)

    async def watch_troubles(self) -> None:
        """Send word of what breaks, as long as the router runs."""
        if self.alerts is not None:
            await self.alerts.watch()

    async def keep_learning(self) -> None:
        """Learn every ten minutes, with the file read in a thread."""
        while True:
            self._apply(await asyncio.to_thread(_read_ledger, self.ledger_path, self.house.plan.rules))
            with suppress(StoreUnusable, OSError):
                await self.recall_budgets()
            await asyncio.to_thread(trim)  # what was read is gone
            await asyncio.sleep(_LEARN_SECONDS)

    async def recall_budgets(self) -> None:
        """Count what the ledger says that callers have spent, where that is more than is known here: after another plan.

        Raises `StoreUnusable`.
        """
        if (budgets := self.house.state.budgets).is_needed:
            budgets.recall(await asyncio.to_thread(budgets.read_spending))

    @property
    def ledger(self) -> "SqliteEntryReader | None":
        """Answers questions about the ledger, if one is kept."""
        return _open_ledger(self.ledger_path)

    def _apply(self, learned: "_Learned") -> None:
        live = self.house.state.live
        live.learn(learned.ratios, learned.failures)
        live.recall(learned.paces, time.perf_counter(), time.time())

    async def close(self) -> None:
        """Stop what `begin` began, then close all parts. Another router in this process goes on."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.closing.aclose()


class _Learned(NamedTuple):
    """What a ledger says of targets: their work, how often it is redone, and their pace."""

    ratios: Mapping[str, WorkRatio]
    failures: Mapping[str, Mapping[str, FailureRates]]
    paces: Paces


def _open_ledger(path: Path | None) -> "SqliteEntryReader | None":
    from router.stores.sqlite.past import SqliteEntryReader  # no request needs it

    return SqliteEntryReader(path) if path is not None else None


def _read_ledger(path: Path | None, rules: Rules) -> _Learned:
    """Nothing where there is no ledger, or it cannot be read: estimates can do without."""
    with suppress(StoreUnusable, OSError):  # without a free file handle, the reader cannot even be loaded
        from router.past.work import read_work

        if (ledger := _open_ledger(path)) is not None:
            work = read_work(ledger, time.time())
            return _Learned(learn_ratios(work, rules.economics), learn_failures(work), sum_up(ledger.read_past_calls()))
    return _Learned({}, {}, {})
