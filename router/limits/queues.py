"""The queues of all targets that have a quota, as the decision and whoever looks on see them.

They live with the live figures and outlive a plan: a new config changes a quota, not what was sent in the last minute.
"""

from collections.abc import Callable, Mapping

from msgspec.structs import replace

from router.contract.allowance import Allowance
from router.contract.caller import LOCAL, SessionKey
from router.contract.credential import credential_for
from router.contract.keys import digest_of
from router.contract.request import JsonObject, RequestView
from router.contract.signals import Signals
from router.contract.target import Quota, Target, TargetStatus
from router.limits.queue import TargetQueue
from router.limits.whole import ALONE

_MAX_QUEUES = 1_000
"""Keys of callers. Queues in which nothing was sent for a minute are forgotten first."""
_NO_QUOTA, _NEXT = Quota(), SessionKey(LOCAL, "")
"""The next request: of the only caller of a router without keys, else of one that has no request in the queue."""


class Queues:
    """The queues of all targets that have a quota. One that takes its callers' keys has one for each key."""

    def __init__(self, clock: Callable[[], float], allowance: Allowance = ALONE) -> None:
        self._clock, self._allowance = clock, allowance
        self.is_on = False
        """Whether any target has a quota: if none has, no request need ask."""
        self._queues: dict[tuple[str, int], TargetQueue] = {}

    def follow(self, targets: Mapping[str, Target]) -> None:
        """Take the quotas of another plan. What was sent under the one before still counts."""
        self.is_on = any(target.quota is not None for target in targets.values())
        for (name, _), queue in self._queues.items():
            target = targets.get(name)
            queue.follow((target.quota if target is not None else None) or _NO_QUOTA)

    def apply(self, signals: Signals, view: RequestView, now: float) -> Signals:
        """The same signals, with the wait that this request would have in each queue."""
        who, tokens = SessionKey(view.caller, signals.turn.session), signals.prompt.tokens
        statuses = {
            name: self._with_queue(status, self.queue_of(status.target, view), who, tokens, now)
            if status.target.quota
            else status
            for name, status in signals.statuses.items()
        }
        return replace(signals, statuses=statuses)

    def show(self, status: TargetStatus, now: float) -> TargetStatus:
        """A target with the wait of the next request in its queue; without it where each key has a queue of its own."""
        queue = self._queues.get((status.target.name, 0))
        return status if queue is None or status.target.takes_callers_key else self._with_queue(status, queue, _NEXT, 0, now)

    def queue_of(self, target: Target, view: RequestView) -> TargetQueue:
        key = hash(credential_for(target, view.headers, view.dialect)) if target.takes_callers_key else 0
        queue = self._queues.get((target.name, key))
        if queue is None:
            if len(self._queues) >= _MAX_QUEUES:
                self._forget_idle()
            quota = target.quota or _NO_QUOTA
            queue = TargetQueue(target.name, quota, self._clock, self._allowance, _digest(target, view))
            self._queues[target.name, key] = queue
        return queue

    def _forget_idle(self) -> None:
        for key, known in tuple(self._queues.items()):
            if known.is_idle:
                del self._queues[key]
                known.meter.close()

    def waiting_for(self, name: str) -> int:
        return sum(queue.length for (target, _), queue in self._queues.items() if target == name)

    def left_of(self, target: Target, now: float) -> Mapping[str, int]:
        """What is left of a target's quota, by limit. Empty without one, and where each key of a caller has its own."""
        if target.quota is None or target.takes_callers_key:
            return {}
        queue = self._queues.get((target.name, 0)) or TargetQueue(target.name, target.quota, self._clock)
        return queue.left(now)

    @staticmethod
    def _with_queue(status: TargetStatus, queue: TargetQueue, who: SessionKey, tokens: int, now: float) -> TargetStatus:
        target = status.target
        if status.closed_seconds:
            return status
        expected = queue.expect(who, tokens, now)
        if expected.seconds <= status.wait_seconds:
            return status
        status, max_wait = status.with_wait(expected.seconds, f"{target.name} {expected.because}"), target.max_wait_seconds
        if max_wait is None or expected.seconds <= max_wait:
            return status
        # In a queue of ours the wait is known, and bounded at deep as well.
        return replace(status, closed_seconds=expected.seconds - max_wait, is_over_max_wait=True)

    def picture(self, targets: Mapping[str, Target], now: float) -> JsonObject:
        """The meters and the queue of each target that has a quota. Keys of callers are numbered, and not told."""
        told: JsonObject = {}
        for name, target in targets.items():
            known = [queue for (own, _), queue in self._queues.items() if own == name]
            if target.quota is not None and not known and not target.takes_callers_key:
                known = [TargetQueue(name, target.quota, self._clock)]
            for number, queue in enumerate(known, 1):
                told[f"{name} (key {number})" if target.takes_callers_key else name] = queue.picture(now)
        return told


def _digest(target: Target, view: RequestView) -> str:
    """What names a caller's key to other routers, and does not tell it; empty where all callers have the target's own key."""
    key = credential_for(target, view.headers, view.dialect) if target.takes_callers_key else None
    return digest_of(key.text).hex()[:32] if key else ""
