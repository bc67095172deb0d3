"""Calls of one target under way, and how long another would wait for them. Times are given."""

from router.dispatch.live.lateness import Lateness, is_late
from router.dispatch.live.pace import Pace

_MOST_KNOWN_SECONDS = 60.0
"""How long a concurrency limit inferred from a refusal is trusted."""


class Queue:
    """A queue inside the target, which late first tokens reveal."""

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self.open: dict[str, float] = {}
        """Start of each call under way."""
        self.unanswered: dict[str, float] = {}
        """When the first token of each silent stream was due. Only streams show a late first token."""
        self.lateness = Lateness()
        self.most, self._most_at = 0, 0.0
        """Concurrency limit shown by a refusal, and when; 0 if unknown."""

    def stream(self, name: str, prompt_tokens: int, now: float) -> None:
        self.unanswered[name] = now + self._pace.usual_seconds(prompt_tokens)

    def begin(self, name: str, opened_at: float, now: float) -> bool:
        """A first token arrived. Returns whether it was prompt rather than queued."""
        due = self.unanswered.pop(name, now)
        if is_late(now - due, due - opened_at):
            self.lateness.begin_late(now - due, opened_at, now)
            return False
        self.lateness.begin_promptly(opened_at)
        # An earlier call that is still silent is slow for another reason.
        while self.unanswered and self.open.get(other := next(iter(self.unanswered)), opened_at) < opened_at:
            del self.unanswered[other]
        return True

    def leave(self, name: str, opened_at: float | None, now: float) -> None:
        """A stream ended before its first token. `opened_at` is given only if the caller gave up waiting."""
        due = self.unanswered.pop(name)
        if opened_at is not None and is_late(now - due, due - opened_at):
            self.lateness.leave(now - due, opened_at, now)

    def refuse(self, now: float) -> None:
        self.most, self._most_at = max(1, len(self.open)), now

    def forget(self) -> None:
        """Another model serves from now on; calls under way stay."""
        self.lateness, self.most = Lateness(), 0

    def is_full(self, now: float) -> bool:
        if self.most and now - self._most_at > _MOST_KNOWN_SECONDS:
            self.most = 0
        return 0 < self.most <= len(self.open)

    def wait(self, now: float) -> float:
        """Expected wait of a call opened now."""
        if not self.unanswered:
            return self.lateness.expect(now)
        name, due = next(iter(self.unanswered.items()))
        return self.lateness.expect_behind(now - due, due - self.open.get(name, due), now)
