"""Calls of one target under way, and how long another would wait for them. Times are given."""

from router.contract.request import RequestView
from router.dialects.table import SPECS
from router.dispatch.live.lateness import Lateness, is_late
from router.dispatch.live.pace import Pace
from router.dispatch.live.slots import Slots
from router.limits.quota import seconds_left, wait_for_slot

_MOST_KNOWN_SECONDS = 60.0
"""How long a concurrency limit inferred from a refusal is trusted."""
_GUESSED_ANSWER_TOKENS = 400


class Queue:
    """Late first tokens reveal a queue, and ending calls the number of slots."""

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self.open: dict[str, float] = {}
        """Start of each call under way."""
        self.asked: dict[str, RequestView] = {}
        """The streams among them: only those show a late first token."""
        self.unanswered: dict[str, float] = {}
        """When the first token of each silent stream was due."""
        self.lateness, self.slots = Lateness(), Slots()
        self.most, self._most_at = 0, 0.0
        """Concurrency limit shown by a refusal, and when; 0 if unknown."""

    def stream(self, name: str, view: RequestView, prompt_tokens: int, now: float) -> None:
        self.asked[name] = view
        self.unanswered[name] = now + self._pace.usual_seconds(prompt_tokens)

    def begin(self, name: str, opened_at: float, now: float) -> bool:
        """A first token arrived. Returns whether it was prompt rather than queued."""
        due = self.unanswered.pop(name, now)
        usual = due - opened_at
        if is_late(now - due, usual):
            self.slots.begin(name, now, usual, now)
            if not self._waited_for_slot(self.slots.begin_late(opened_at, usual, now), now):
                self.lateness.begin_late(now - due, opened_at, now)
            return False
        self.slots.begin(name, opened_at, usual, now)
        self.lateness.begin_promptly(opened_at)
        # An earlier call that is still silent is slow for another reason.
        while self.unanswered and self.open.get(other := next(iter(self.unanswered)), opened_at) < opened_at:
            del self.unanswered[other]
        return True

    def leave(self, name: str, opened_at: float | None, now: float) -> None:
        """A stream ended before its first token. `opened_at` is given only if the caller gave up waiting."""
        due = self.unanswered.pop(name)
        del self.asked[name]
        if opened_at is None or not is_late(now - due, due - opened_at):
            return
        if not self._waited_for_slot(self.slots.leave_late(opened_at, due - opened_at, now), now):
            self.lateness.leave(now - due, opened_at, now)

    def end(self, name: str, now: float) -> None:
        del self.asked[name]
        if name in self.slots.begun:
            self.slots.end(name, now)

    def refuse(self, now: float) -> None:
        self.most, self._most_at = max(1, len(self.open)), now

    def forget(self) -> None:
        """Another model serves from now on; calls under way stay."""
        self.lateness, self.slots, self.most = Lateness(), Slots(), 0

    def is_full(self, now: float) -> bool:
        if self.most and now - self._most_at > _MOST_KNOWN_SECONDS:
            self.most = 0
        return 0 < self.most <= len(self.open)

    def wait(self, now: float) -> float:
        """Expected wait of a call opened now: from calls under way if the number of slots is known, else from late calls."""
        if self._fills_slots(now):
            return self._wait_for_slot(len(self.unanswered), self.slots.count, now)
        if not self.unanswered:
            return self.lateness.expect(now)
        name, due = next(iter(self.unanswered.items()))
        usual = due - self.open.get(name, due)
        wait = self.lateness.expect_behind(now - due, usual, now)
        if is_late(now - due, usual) and (count := self._seeming_slots(name, now)):
            return max(wait, self._wait_for_slot(len(self.unanswered), count, now))
        return wait

    def is_standing(self, now: float) -> bool:
        """Whether calls have been late for so long that the wait is permanent."""
        return self.lateness.is_standing(now) and not self._fills_slots(now)

    def wait_left(self, name: str, now: float) -> float:
        """Remaining wait of a silent call for those before it; 0 if it does not seem queued."""
        if name not in self.unanswered:
            return 0.0
        count = self.slots.count or self._seeming_slots(name, now)
        if not count or count > len(self.open) - len(self.unanswered):
            return 0.0
        return self._wait_for_slot(list(self.unanswered).index(name), count, now)

    def has_slots(self, now: float) -> bool:
        """Whether the number of slots is known. Old knowledge is doubted until a call waits again."""
        return self.slots.is_sure(now) or (self.slots.count > 0 and bool(self.unanswered))

    def has_last_slot(self, now: float) -> bool:
        return self.has_slots(now) and len(self.open) >= self.slots.count - 1

    def may_lack_slot(self, now: float) -> bool:
        """Whether a new call may have to wait: more are under way than were ever seen at once."""
        return (count := len(self.open)) > 1 and count > self.slots.at_least(now)

    def _fills_slots(self, now: float) -> bool:
        return self.has_slots(now) and self.slots.count <= len(self.open)

    def _seeming_slots(self, name: str, now: float) -> int:
        """Slots as they seem while this call waits: calls that do not wait. 0 if it waits for another reason."""
        running, opened_at = len(self.open) - len(self.unanswered), self.open.get(name, now)
        if running < self.slots.at_least(now):
            return 0
        return running if self.slots.keeps_waiting(opened_at, self.unanswered[name] - opened_at, now) else 0

    def _wait_for_slot(self, waiting: int, count: int, now: float) -> float:
        begun, speed = self.slots.begun, self._pace.speed.usual
        usual = self._pace.ttft.usual + (self.slots.seconds or _GUESSED_ANSWER_TOKENS / speed)
        left = []
        for name, opened_at in self.open.items():
            if name not in self.unanswered:
                own = min(usual, limit / speed) if (limit := _limit_of(self.asked.get(name))) else usual
                left.append(seconds_left(now - begun.get(name, opened_at), own))
        return wait_for_slot(left, waiting, count, usual)

    def _waited_for_slot(self, is_known: bool, now: float) -> bool:
        """Whether a call was late for want of a slot, which calls under way explain without a queue."""
        if is_known:
            self.lateness.begin_promptly(now)
        return is_known


def _limit_of(view: RequestView | None) -> int:
    return SPECS[view.dialect].read_limit(view.body) or 0 if view is not None else 0
