"""The road of a request. Read this file first: `serve` is the whole product in one function."""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from router.contract.decision import Decision
from router.contract.entry import Dispatched, Ledger
from router.contract.errors import TandemError, UpstreamAuth, UpstreamModel
from router.contract.relay import Headers, Sink
from router.contract.request import JsonObject, RequestView
from router.contract.signals import Signals, TokenCount
from router.contract.target import Target
from router.contract.words import Outcome
from router.decide.choose import Rules, decide
from router.decide.wording import explain
from router.dialects.headers import answer_headers
from router.dialects.requests import Arrival, read_request
from router.dispatch.attempts import Dispatcher
from router.dispatch.live import LiveStatistics
from router.dispatch.refuse import refuse
from router.ledger.entries import write_entry
from router.sense.calibration import Calibration
from router.sense.models import ModelNames
from router.sense.signals import is_near_a_limit, read_signals
from router.sense.tokens import estimate_prompt
from router.sessions.scoped import ScopedWishes
from router.sessions.turns import read_turn
from router.telemetry import events


class TokenCounter(Protocol):
    """Counts exactly, off the event loop, or answers None."""

    async def count(self, view: RequestView) -> TokenCount | None: ...


@dataclass(slots=True)
class Passage:
    """One request on its way: what is known of it so far."""

    arrival: Arrival
    began: float
    view: RequestView | None = None
    decision: Decision | None = None
    decided: float | None = None


@dataclass(frozen=True, slots=True)
class House:
    """Everything that a request passes, built by `wiring` from one config. A new config is a new house."""

    rules: Rules
    models: ModelNames
    targets: Mapping[str, Target]
    live: LiveStatistics
    dispatcher: Dispatcher
    ledger: Ledger
    counter: TokenCounter
    scoped: ScopedWishes
    calibration: Calibration
    keeps_text: bool = False
    clock: Callable[[], float] = time.perf_counter

    async def serve(self, arrival: Arrival, sink: Sink) -> None:
        """Take an admitted request from its bytes to its ledger entry."""
        passage = Passage(arrival, self.clock())
        record = Dispatched(answer=[] if self.keeps_text else None)
        try:
            view = passage.view = read_request(arrival)
            signals = await self._sense(view)
            decision = passage.decision = self._decide(view, signals)
            self.scoped.note(view.caller, signals.turn.session, view.wishes)
            passage.decided = self.clock()
            await self.dispatcher.send(view, decision, sink, self._head(passage, view, decision), record)
        except TandemError as error:
            refuse(error, arrival.dialect, arrival.id, sink, record)
        except asyncio.CancelledError as leaving:
            if leaving.args:  # only a server that stops gives its reason; a caller that hangs up has none
                record.outcome = Outcome.CUT_SHORT
            raise
        except Exception:
            record.outcome, record.status = Outcome.FAILED, 500
            raise
        finally:
            self._settle(passage, record)

    async def explain(self, arrival: Arrival) -> JsonObject:
        """Decide without asking anyone, and without remembering anything."""
        view, decision = await self.decide(arrival)
        return {**explain(decision), "drops": self._drops(view, decision.targets)}

    def _drops(self, view: RequestView, targets: Iterable[str]) -> JsonObject:
        """What a request would lose on its way to each target. Those to which it goes whole are left out."""
        return {name: list(lost) for name in targets if (lost := self.dispatcher.find_losses(view, name))}

    async def decide(self, arrival: Arrival) -> tuple[RequestView, Decision]:
        """The first half of the road alone: read, sense, decide."""
        view = read_request(arrival)
        return view, self._decide(view, await self._sense(view))

    async def _sense(self, view: RequestView) -> Signals:
        """Whose turn it is, and what can be measured. Tokens are only counted exactly where an estimate cannot decide."""
        turn = read_turn(view)
        wish = self.scoped.recall(view.caller, turn.session)
        if wish is not None:
            turn = turn._replace(tier_wish=wish)
        alias, standings = self.models.resolve(view.model), self.live.standings(self.clock())
        signals = read_signals(view, turn, alias, standings, self.calibration)
        if is_near_a_limit(signals) and self._hangs_on_the_count(view, signals):
            exact = await self.counter.count(view)
            if exact is not None:
                self.calibration.note(view.caller, turn.session, estimate_prompt(view).tokens, exact.tokens)
                signals = signals._replace(prompt=exact)
        return signals

    def _hangs_on_the_count(self, view: RequestView, signals: Signals) -> bool:
        """Whether the two ends of the estimate's band decide differently: only then is an exact count worth its time."""
        try:
            low, high = (
                decide(self.rules, view, signals._replace(prompt=TokenCount(end, end, end)))
                for end in (signals.prompt.low, signals.prompt.high)
            )
        except TandemError:
            return True
        return low.tier is not high.tier or low.targets[:1] != high.targets[:1]

    def _decide(self, view: RequestView, signals: Signals) -> Decision:
        decision = decide(self.rules, view, signals)
        for skipped in decision.skipped:
            events.policy_skipped(policy=skipped.policy, reason=skipped.reason)
        return decision

    def _head(self, passage: Passage, view: RequestView, decision: Decision) -> Callable[[Target, str], Headers]:
        """The headers that say who serves and why, written once it is known who does."""
        overhead_ms = ((passage.decided or passage.began) - passage.began) * 1000
        if not view.wishes.explain_fully:
            return lambda target, failed: answer_headers(view.id, decision, target, failed, overhead_ms, None)
        whole = explain(decision)

        def explained(target: Target, failed: str) -> Headers:
            drops: JsonObject = {"drops": self._drops(view, (target.name,))}
            return answer_headers(view.id, decision, target, failed, overhead_ms, whole | drops)

        return explained

    def _settle(self, passage: Passage, record: Dispatched) -> None:
        """One entry for each admitted request, whatever became of it."""
        ended, arrival, decision = self.clock(), passage.arrival, passage.decision
        for attempt in record.attempts:
            if attempt.error in (UpstreamAuth.code, UpstreamModel.code):
                events.target_misconfigured(target=attempt.target, code=attempt.error)
        entry = write_entry(
            request_id=arrival.id,
            caller=arrival.caller,
            dialect=arrival.dialect,
            view=passage.view,
            decision=decision,
            record=record,
            began=passage.began,
            decided=passage.decided or ended,
            ended=ended,
            targets=self.targets,
            keeps_text=self.keeps_text,
        )
        self.ledger.record(entry)
        events.request_settled(entry)
