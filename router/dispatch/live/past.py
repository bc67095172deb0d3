"""A target's pace from the ledger, for a router that has just started. Times are given."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from statistics import median
from typing import NamedTuple

from router.contract.entry import PastCall

LONG_PROMPT_TOKENS = 8_000
"""From this length on, time to first token shows reading speed; below, start-up."""
_KEPT_MINUTES = 30
"""Half of what a running router keeps: new measurements outvote it within half an hour of use."""
_LEAST_SECONDS = 0.001


class PastPace(NamedTuple):
    """A target's figures by minute of use, oldest first."""

    ttft: tuple[float, ...] = ()
    speed: tuple[float, ...] = ()
    prefill: tuple[float, ...] = ()
    at: float = 0.0
    """Newest measurement, in seconds since 1970."""
    is_counted: bool = False
    """Whether tokens were only counted by pieces."""


NO_PAST = PastPace()
Paces = Mapping[tuple[str, str], PastPace]
"""By target name and model: another model at an address is another target."""


def sum_up(calls: Iterable[PastCall]) -> Paces:
    by_target: dict[tuple[str, str], list[PastCall]] = defaultdict(list)
    for call in calls:
        by_target[call.attempt.target, call.pace.model].append(call)
    return {key: _sum_up(sorted(found, key=lambda call: call.at)) for key, found in by_target.items()}


def _sum_up(calls: list[PastCall]) -> PastPace:
    told = [call for call in calls if _is_told(call)]
    short = _by_minute((call.at, call.pace.ttft_seconds) for call in calls if fresh_tokens(call) < LONG_PROMPT_TOKENS)
    usual = median(short) if short else 0.0
    return PastPace(
        short,
        _by_minute((call.at, call.pace.tokens_per_second) for call in told or calls),
        _by_minute((call.at, _prefill_of(call, usual)) for call in told),
        calls[-1].at,
        is_counted=not told,
    )


def _is_told(call: PastCall) -> bool:
    usage = call.attempt.usage
    return usage is not None and not usage.is_estimated


def fresh_tokens(call: PastCall) -> int:
    usage = call.attempt.usage
    return 0 if usage is None else usage.input_tokens - usage.cached_tokens


def prefill_speed(tokens: int, seconds: float, ttft_seconds: float) -> float | None:
    """None for a short prompt, which does not show it."""
    return tokens / max(seconds - ttft_seconds, _LEAST_SECONDS) if tokens >= LONG_PROMPT_TOKENS else None


def _prefill_of(call: PastCall, usual_ttft: float) -> float | None:
    pace = call.pace
    if pace.prefill_tokens_per_second is not None or pace.ttft_seconds is None:
        return pace.prefill_tokens_per_second
    return prefill_speed(fresh_tokens(call), pace.ttft_seconds, usual_ttft)


def _by_minute(seen: Iterable[tuple[float, float | None]]) -> tuple[float, ...]:
    minutes: dict[int, list[float]] = defaultdict(list)
    for at, value in seen:
        if value is not None and value > 0:
            minutes[int(at // 60)].append(value)
    return tuple(median(values) for values in list(minutes.values())[-_KEPT_MINUTES:])
