"""A target's speed: time to first token, output speed, prompt reading speed. Times are given."""

from collections.abc import Mapping

from router.contract.facts import AttemptEnded
from router.contract.target import Speed
from router.dispatch.live.lateness import is_late
from router.dispatch.live.past import LONG_PROMPT_TOKENS, PastPace, prefill_speed
from router.dispatch.live.samples import FADED_SECONDS, Samples


class Pace:
    """Measured speed, or the configured one until then."""

    def __init__(self, typical: Speed) -> None:
        self.typical = typical
        self._figures = self.ttft, self.speed, self.prefill = tuple(map(Samples, typical))
        self.fades_until = 0.0
        """When the last measurement has faded into the usual value."""
        self.has_recalled = False
        self._has_samples = False
        self._is_counted = True
        """Whether speed comes from counted pieces alone: no usage was reported yet."""
        self.reading: dict[str, float] = {}
        """Time to first token of each long prompt under way; how much was cached is known at its end."""

    def current(self, now: float) -> Speed:
        if not self._has_samples:
            return self.typical
        return Speed(self.ttft.current(now), self.speed.current(now), self.prefill.current(now))

    def usual_seconds(self, prompt_tokens: int) -> float:
        """Usual time to first token; it includes the reading of a short prompt."""
        reading = prompt_tokens / self.prefill.usual if prompt_tokens >= LONG_PROMPT_TOKENS else 0.0
        return self.ttft.usual + reading

    @property
    def seen_at(self) -> float:
        return max(
            (figure.newest_at for figure in (self.ttft, self.speed, self.prefill) if figure.values), default=float("-inf")
        )

    def begin(self, name: str, prompt_tokens: int, seconds: float, now: float) -> None:
        """A first token without a queue; after a long prompt it shows the reading speed."""
        if prompt_tokens >= LONG_PROMPT_TOKENS:
            self.reading[name] = seconds
        else:
            self._add(self.ttft, seconds, now)

    def end(self, name: str, ended: AttemptEnded) -> None:
        """Learn from an answer. Cached prompt tokens do not count as read."""
        pace, usage, now = ended.attempt.pace, ended.usage, ended.at
        assert pace is not None
        reading = self.reading.pop(name, None) if self.reading else None
        if pace.tokens_per_second is not None:
            self.add_speed(pace.tokens_per_second, now, is_counted=usage is None or usage.is_estimated)
        prefill = pace.prefill_tokens_per_second
        if prefill is None and reading is not None and usage is not None and not usage.is_estimated:
            prefill = prefill_speed(usage.input_tokens - usage.cached_tokens, reading, self.ttft.current(now))
        if prefill is not None:
            self._add(self.prefill, prefill, now)

    def add_speed(self, value: float, now: float, *, is_counted: bool) -> None:
        """Counted pieces are not exactly tokens: they count until usage is reported."""
        if is_counted != self._is_counted:
            if is_counted:
                return
            self._is_counted = False
            self.speed.forget()
        self._add(self.speed, value, now)

    def _add(self, samples: Samples, value: float, now: float) -> None:
        samples.add(value, now)
        self._has_samples, self.fades_until = True, now + FADED_SECONDS

    def recall(self, past: PastPace, newest_at: float) -> None:
        """Take figures from the ledger. Calls that waited are left out."""
        self.has_recalled = True
        speed, usual = past.speed, self.ttft.usual
        ttft = [seconds for seconds in past.ttft if not is_late(seconds - usual, usual)]
        if self._is_counted and speed and not past.is_counted:
            self._is_counted = False
            self.speed.forget()
        elif past.is_counted and not self._is_counted:
            speed = ()
        for samples, minutes in zip(self._figures, (ttft, speed, past.prefill), strict=True):
            if minutes:
                samples.recall(minutes, newest_at)
                self._has_samples = True

    def settle(self, now: float) -> None:
        for samples in self._figures:
            samples.settle(now)

    def follow(self, typical: Speed, *, is_other_model: bool) -> None:
        """Keep the figures under a new config, unless the model changed."""
        self.typical = typical
        for samples, figure in zip(self._figures, typical, strict=True):
            if is_other_model:
                samples.forget()
            samples.follow(figure)
        if is_other_model:
            self._is_counted, self.has_recalled = True, False

    @property
    def sources(self) -> Mapping[str, str]:
        """Configured, learned, or estimated from counted pieces."""
        figures = zip(Speed._fields, self._figures, strict=True)
        sources = {name: "learned" if samples.is_learned else "config" for name, samples in figures}
        if self._is_counted and self.speed.is_learned:
            sources["tokens_per_second"] = "estimated"
        return sources
