"""All targets by name, with figures from before the start and the windows they named."""

from collections.abc import Mapping
from types import MappingProxyType

from router.contract.economics import FailureRates
from router.contract.errors import TandemError, UpstreamRefused
from router.contract.facts import Decided
from router.contract.target import NOTHING_LEARNED, Target, WorkRatio
from router.dialects.engine_words import read_window
from router.dialects.table import SPECS
from router.dispatch.live.past import NO_PAST, Paces
from router.dispatch.live.target import LiveTarget

_FADE_SECONDS = 60.0
_MAX_TOKENS_EACH = 2
"""A target may count this many times the estimated prompt tokens."""
_TEMPLATE_TOKENS = 64


class LiveTargets:
    """Every target that a plan listed or a request used. Targets outlive plans."""

    def __init__(self) -> None:
        self._live: dict[str, LiveTarget] = {}
        self._moving: dict[str, LiveTarget] = {}
        """Targets that may have changed since the last look: recently called, or returned by `of`. Most have not."""
        self._ratios: Mapping[str, WorkRatio] = {}
        self._failures: Mapping[str, Mapping[str, FailureRates]] = {}
        self._past: Paces | None = None
        self._past_offset = 0.0
        """Our clock minus the time of day."""
        self._settle_at = self._fade_at = 0.0
        self.windows: Mapping[str, int] = {}
        """Windows named in refusals, if smaller than configured. Replaced on change."""

    def of(self, target: Target) -> LiveTarget:
        """Find by name; an earlier plan's target changes nothing. Its status is recomputed: the caller may change it."""
        live = self._live.get(target.name)
        if live is None:
            live = self._live[target.name] = LiveTarget(target)
            self._teach(live)
            self._settle_at = 0.0  # its past is applied at the next look
        self._moving[target.name] = live
        return live

    def _follow(self, target: Target) -> LiveTarget:
        live = self.of(target)
        if live.target is not target and live.window.known is not target:
            live.follow(target)
            self._list_windows()
            if not live.pace.has_recalled:
                self._settle_at = 0.0
        return live

    def known(self, target: Target) -> Target:
        """The target with the window it named, if any. One from an earlier plan may differ."""
        live = self._live.get(target.name) if target.name in self.windows else None
        return live.window.known if live is not None and live.target == target else target

    def learn(
        self,
        ratios: Mapping[str, WorkRatio],
        failures: Mapping[str, Mapping[str, FailureRates]] = MappingProxyType({}),
    ) -> None:
        """Take each target's work per turn and each fast one's failure rate from the ledger."""
        self._ratios, self._failures = ratios, failures
        self._moving.update(self._live)
        for live in self._live.values():
            self._teach(live)

    def recall(self, past: Paces, now: float, time_of_day: float) -> None:
        """Take the speeds from before the start, by name and model. Each target takes them once."""
        self._past, self._past_offset = past, now - time_of_day
        self._settle(now)

    def _settle(self, now: float) -> None:
        """Apply past figures to new targets; fade unseen ones once a minute."""
        known, is_fading = self._past, now >= self._fade_at
        if is_fading:
            self._fade_at = now + _FADE_SECONDS
        self._settle_at = self._fade_at
        self._moving.update(self._live)
        for live in self._live.values():
            if known is not None and not live.pace.has_recalled:
                past = known.get((live.target.name, live.target.model), NO_PAST)
                live.pace.recall(past, past.at + self._past_offset)
                live.pace.settle(now)
            elif is_fading:
                live.pace.settle(now)

    def _teach(self, live: LiveTarget) -> None:
        live.ratio = self._ratios.get(live.target.name, WorkRatio())
        live.failures = self._failures.get(live.target.name, NOTHING_LEARNED)

    def _list_windows(self) -> None:
        told = [live.window.known for live in self._live.values() if live.window.is_told]
        self.windows = {known.name: known.window_tokens for known in told}


def told_window(error: TandemError, decided: Decided | None) -> int | None:
    """The window named in a refusal, if the request can have exceeded it.

    Prompts are estimated, and models count differently. A number above the most that prompt and answer can have is not the
    cause, nor is one quoted from the request: a caller's text must not shrink the window for all.
    """
    if decided is None or not isinstance(error, UpstreamRefused):
        return None
    window = read_window(error.body, decided.view.body)
    if window is None:
        return None
    answer = SPECS[decided.view.dialect].read_limit(decided.view.body) or 0
    return window if window < decided.decision.prompt_tokens * _MAX_TOKENS_EACH + _TEMPLATE_TOKENS + answer else None
