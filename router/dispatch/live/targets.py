"""All targets by their names: what was learned of each before this router was started, and the windows that they named."""

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
"""How many times as many tokens a target may find in a prompt as were estimated."""
_TEMPLATE_TOKENS = 64
"""What a target's template adds to a prompt, at most."""


class LiveTargets:
    """Every target that a plan listed or a request was sent to. A target outlives the plan that listed it."""

    def __init__(self) -> None:
        self._live: dict[str, LiveTarget] = {}
        self._moving: dict[str, LiveTarget] = {}
        """Targets that may have changed since the last look: those that were called lately, and those that `of` was asked for.

        The others are not looked at again. Of many targets, that is most.
        """
        self._ratios: Mapping[str, WorkRatio] = {}
        self._failures: Mapping[str, Mapping[str, FailureRates]] = {}
        self._past: Paces | None = None
        self._past_offset = 0.0
        """What a time of day is by our clock, less that time of day."""
        self._settle_at = self._fade_at = 0.0
        self.windows: Mapping[str, int] = {}
        """The windows that targets named in refusals, where they are smaller than configured. Replaced after each."""

    def of(self, target: Target) -> LiveTarget:
        """What is known of a target, by its name. A target of an earlier plan changes nothing of one that is known.

        Its status is worked out again after this: who asks for it may change it.
        """
        live = self._live.get(target.name)
        if live is None:
            live = self._live[target.name] = LiveTarget(target)
            self._teach(live)
            self._settle_at = 0.0  # what is known of its past comes with the next look
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
        """A target with the window that it named itself, if it did. One of an earlier plan may differ."""
        live = self._live.get(target.name) if target.name in self.windows else None
        return live.window.known if live is not None and live.target == target else target

    def learn(
        self, ratios: Mapping[str, WorkRatio], failures: Mapping[str, Mapping[str, FailureRates]] = MappingProxyType({})
    ) -> None:
        """How much work each target makes of a turn, and how often each fast one fails, as the ledger shows it.

        Until it is known it is as expected.
        """
        self._ratios, self._failures = ratios, failures
        self._moving.update(self._live)
        for live in self._live.values():
            self._teach(live)

    def recall(self, past: Paces, now: float, time_of_day: float) -> None:
        """How fast each target was before this router was started, by its name and model. Each takes it once."""
        self._past, self._past_offset = past, now - time_of_day
        self._settle(now)

    def _settle(self, now: float) -> None:
        """Let targets take what is known of their past, and once a minute what was not seen for hours fade."""
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
    """The window that a refusal names, if the refused request can have been too long for it.

    Prompts are estimated, and every model counts differently. A number that is larger than the most that prompt and answer can
    have is not what the request was refused for. Nor is one that the refusal quotes from the request: what one caller writes
    must not shrink the window for all.
    """
    if decided is None or not isinstance(error, UpstreamRefused):
        return None
    window = read_window(error.body, decided.view.body)
    if window is None:
        return None
    answer = SPECS[decided.view.dialect].read_limit(decided.view.body) or 0
    return window if window < decided.decision.prompt_tokens * _MAX_TOKENS_EACH + _TEMPLATE_TOKENS + answer else None
