"""The one question of a look: which target gets it, what may be spent on it, and how it ended. It is never sent twice."""

import dataclasses
from collections.abc import Callable, Mapping
from datetime import UTC, tzinfo
from typing import NamedTuple

from router.contract.caller import SessionKey
from router.contract.combine import LookEnd
from router.contract.credential import credential_for
from router.contract.errors import TandemError
from router.contract.exchange import Exchange
from router.contract.facts import Decided, QuestionEnded
from router.contract.opinions import BUDGET
from router.contract.secret import UPSTREAM_KEY
from router.contract.spending import as_units
from router.contract.stores import StoreUnusable
from router.contract.target import Target, TargetStatus
from router.contract.words import Tier
from router.decide.estimate import weighing_of
from router.dispatch import question
from router.dispatch.outgoing import Reachable
from router.limits.bounds import RequestSize, bound_of
from router.limits.callers import CallerLimits, check_hooks
from router.limits.queue import Permit
from router.limits.queues import Queues
from router.look.looks import Looks
from router.look.verdict import FAILED, LATE, OVER_BUDGET, REFUSED
from router.sense.tokens import estimate_tokens

TOKENS_OUT = 500
_MORE = 2
"""Times the estimate of a prompt: what is held covers any."""


class Answered(NamedTuple):
    """`text` is deep's; empty unless it answered in time, and then `end` is left open."""

    end: LookEnd
    text: str = ""


class Asker:
    """Asks the deep targets of one plan, without their tier's own instructions."""

    def __init__(
        self,
        reachable: Mapping[str, Reachable],
        limits: CallerLimits,
        looks: Looks,
        daily_usd: float,
        clock: Callable[[], float],
        zone: tzinfo = UTC,
    ) -> None:
        deep = {name: each for name, each in reachable.items() if each.target.tier is Tier.DEEP}
        self._reachable = {
            name: dataclasses.replace(each, fit=each.fit._replace(instructions="")) for name, each in deep.items()
        }
        self._limits, self._looks, self._daily, self._clock, self._zone = limits, looks, as_units(daily_usd), clock, zone

    def choose(self, decided: Decided, max_seconds: float) -> TargetStatus | None:
        """The deep target that the turn would have gone to, or another one that may see it now.

        A plan may not: it gets only what its client sent.
        """
        decision = decided.decision
        # A look is shorter than an answer: windows and budgets that have no room for one may have room for it.
        ruled_out = {out.target for policy, out in decision.opinions.ruled_out if out.tokens is None and policy != BUDGET}
        open_now = {
            name: status
            for name, status in decision.signals.statuses.items()
            if name in self._reachable
            and name not in ruled_out
            and not status.target.is_plan
            and not status.closed_seconds
            and status.wait_seconds < max_seconds
            and (not status.target.takes_callers_key or self._find_key(decided, status.target))
        }
        usual = weighing_of(decision).deep
        first = open_now.get(usual.target) if usual is not None else None
        return first or next(iter(open_now.values()), None)

    def _find_key(self, decided: Decided, target: Target) -> str:
        found = credential_for(target, decided.view.headers, decided.view.dialect)
        return found.text if found is not None else ""

    async def ask(
        self, exchange: Exchange, decided: Decided, target: Target, words: str, within_seconds: float, queues: Queues
    ) -> Answered:
        """Ask within the caller's budget, that of all looks, and the target's quota, without waiting for any of them."""
        tokens = estimate_tokens(words.encode("utf-8", "replace"))
        units, until = self._bound(target, _MORE * tokens), self._clock() + within_seconds
        try:
            check_hooks(self._limits.hooks, decided.view, target)
            budget = await self._looks.hold(units, self._daily, self._zone)
        except (TandemError, StoreUnusable):
            return Answered(LookEnd(target.name, REFUSED))
        if budget is None:
            return Answered(LookEnd(target.name, OVER_BUDGET))
        spent = 0
        try:
            with self._limits.budgets.hold_question(exchange, target, words, TOKENS_OUT) as has_room:
                if not has_room:
                    return Answered(LookEnd(target.name, OVER_BUDGET))
                permit = None
                if target.quota is not None:
                    who, queue = (
                        SessionKey(exchange.caller, decided.decision.turn.session),
                        queues.queue_of(target, decided.view),
                    )
                    if (permit := queue.hold_now(who, tokens)) is None:
                        return Answered(LookEnd(target.name, REFUSED))
                spent = units  # until it is known what it came to
                asked = await self._call(exchange, decided, target, words, until - self._clock(), permit)
                spent = _cost_of(asked.ended, units)
        except TandemError:
            return Answered(LookEnd(target.name, REFUSED))
        finally:
            budget.settle(units, spent)
        return _conclude(asked)

    async def _call(
        self, exchange: Exchange, decided: Decided, target: Target, words: str, seconds: float, permit: Permit | None
    ) -> question.Asked:
        headers = {UPSTREAM_KEY: self._find_key(decided, target)} if target.takes_callers_key else {}
        return await question.ask(
            exchange,
            self._reachable[target.name],
            words,
            seconds,
            self._clock,
            permit,
            max_tokens=TOKENS_OUT,
            headers=headers,
        )

    def _bound(self, target: Target, prompt_tokens: int) -> int:
        """The most that the question may cost; nothing is counted for a target without a price."""
        if target.price is None:
            return 0
        return bound_of(RequestSize(prompt_tokens, TOKENS_OUT), target, TOKENS_OUT).units(TOKENS_OUT)


def _cost_of(ended: QuestionEnded, held: int) -> int:
    """An answer that was not awaited may have been written whole."""
    is_unsure = ended.usage is not None and ended.usage.is_estimated
    return max(held, as_units(ended.attempt.cost_usd or 0.0)) if is_unsure else as_units(ended.attempt.cost_usd or 0.0)


def _conclude(asked: question.Asked) -> Answered:
    attempt = asked.ended.attempt
    end = "" if attempt.error is None else LATE if attempt.error == question.LATE else FAILED
    return Answered(LookEnd(attempt.target, end, cost_usd=attempt.cost_usd), asked.text)
