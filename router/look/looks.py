"""What outlives a plan: the turns that were looked at, what looks cost today, and what people made of objections."""

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable
from datetime import UTC, tzinfo

from router.contract.allowance import Allowance
from router.contract.caller import SessionKey
from router.contract.combine import ACTED_ON
from router.contract.exchange import Exchange
from router.contract.facts import Decided
from router.contract.notices import Notice, Trouble
from router.contract.spending import Period, Span, span_of
from router.limits.accounts import Budget
from router.limits.whole import ALONE
from router.look.worth import find_right_share
from router.sessions.marks import mark_turn

_MAX_TURNS = 4_096
_LATELY = 50
"""Answers to objections that tell how often a look is right."""
_WAVED_OFF_IN_A_ROW = 10
_NAME = ":look"
"""Of the budget: no caller has this name."""
_TurnKey = tuple[SessionKey, str, int]
"""Session, mark of the ask, and how many of the person's turns came before it."""


KeepJob = Callable[[Exchange, str, str, str], Awaitable[None]]
"""Keeps a text as the result of a background job of the caller, for a session to be told of: session, title, text."""


async def keep_no_job(exchange: Exchange, session: str, title: str, text: str) -> None:
    """For a plan that serves nobody."""


def key_of(decided: Decided) -> _TurnKey:
    turn = decided.decision.turn
    return decided.session.key, mark_turn(turn), turn.history.turns


class Looks:
    """`read_spent` is what the ledger says that looks of a day came to, in units of money. It blocks."""

    def __init__(
        self,
        read_spent: Callable[[Span], int] | None = None,
        now: Callable[[], float] = time.time,
        allowance: Allowance = ALONE,
    ) -> None:
        self._read_spent, self._now, self._allowance = read_spent, now, allowance
        self._turns: OrderedDict[_TurnKey, None] = OrderedDict()
        self._budget: Budget | None = None
        self._opening = asyncio.Lock()
        self._fates: deque[bool] = deque(maxlen=_LATELY)
        """Whether people acted on objections, newest last."""
        self._waved_off = 0
        self._since = 0.0

    def was_looked_at(self, key: _TurnKey) -> bool:
        return key in self._turns

    def begin(self, key: _TurnKey) -> bool:
        """False if the turn is or was looked at."""
        if key in self._turns:
            return False
        self._turns[key] = None
        if len(self._turns) > _MAX_TURNS:
            self._turns.popitem(last=False)
        return True

    async def hold(self, units: int, limit: int, zone: tzinfo = UTC) -> Budget | None:
        """Hold what a look may cost of today's money; None if there is too little. `Budget.settle` counts what it came to.

        Raises `StoreUnusable` where nobody knows what was spent today.
        """
        budget = await self._find_budget(zone)
        return budget if await budget.hold(limit, units) else None

    async def _find_budget(self, zone: tzinfo) -> Budget:
        async with self._opening:
            now, budget = self._now(), self._budget
            if budget is None or not budget.span.begins <= now < budget.span.ends:
                span = span_of(Period.DAY, now, zone)
                spent = await asyncio.to_thread(self._read_spent, span) if self._read_spent is not None else 0
                if budget is not None:
                    budget.close()
                budget = self._budget = Budget(_NAME, Period.DAY, span, spent, self._allowance)
            return budget

    @property
    def right_share(self) -> float:
        """How often an objection was right lately."""
        return find_right_share(sum(self._fates), len(self._fates) - sum(self._fates))

    def note_fate(self, fate: str) -> None:
        """What a person did about an answer's objections: `acted on` or `waved off`."""
        is_right = fate == ACTED_ON
        self._fates.append(is_right)
        self._waved_off = 0 if is_right else self._waved_off + 1
        if self._waved_off == _WAVED_OFF_IN_A_ROW:
            self._since = self._now()

    def find_troubles(self) -> list[Notice]:
        """One notice after ten objections that nobody acted on, until somebody does."""
        if self._waved_off < _WAVED_OFF_IN_A_ROW:
            return []
        text = f"the last {self._waved_off} objections of deep were waved off"
        return [
            Notice(Trouble.LOOKS_WAVED_OFF, "", self._since, text, "combine: {look: off} in the config, then tandem reload")
        ]
