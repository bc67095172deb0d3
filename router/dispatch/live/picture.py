"""The live picture as JSON, for an operator: each target's pace, queue and limits, and what would pass it over now."""

from collections.abc import Mapping

from router.contract.request import Json, JsonObject
from router.contract.target import LimitWindow, Target, TargetStatus
from router.dispatch.live.statistics import LiveStatistics


def draw(live: LiveStatistics, targets: Mapping[str, Target], now: float) -> JsonObject:
    """Every target by its name. Limits of callers' own keys are counted, and not shown."""
    return {name: _draw_target(live, targets[name], status, now) for name, status in live.statuses(targets, now).items()}


def _draw_target(live: LiveStatistics, configured: Target, status: TargetStatus, now: float) -> JsonObject:
    status = live.queues.show(status, now)
    name, speed = status.target.name, status.speed
    told = live.limits.told
    return {
        "tier": str(status.target.tier),
        "in_flight": status.in_flight,
        "loading": status.loading or None,
        "window_tokens": status.target.window_tokens,
        "configured_window_tokens": configured.window_tokens,
        "serves_at_once": live.of(status.target).serves_at_once,
        "wait_seconds": round(status.wait_seconds, 1),
        "wait_because": status.wait_because or ("a queue" if status.wait_seconds else None),
        "max_wait_seconds": status.target.max_wait_seconds,
        "is_over_max_wait": status.is_over_max_wait,
        "left_alone_seconds": 0.0 if status.is_over_max_wait or status.loading else round(status.closed_seconds, 1),
        "ttft_seconds": round(speed.ttft_seconds, 3),
        "tokens_per_second": round(speed.tokens_per_second, 1),
        "prefill_tokens_per_second": round(speed.prefill_tokens_per_second),
        "figures_from": {**live.of(status.target).sources},
        "limits": [_draw_window(window, now) for window in told.get((name, 0), ()) if window.resets_at > now],
        "callers_with_limits": sum(target == name and key != 0 for target, key in told),
    }


def _draw_window(window: LimitWindow, now: float) -> Json:
    return {
        "of": "prompt tokens" if window.counts_prompt else "requests or answer tokens",
        "left": max(0.0, window.left),
        "limit": window.limit,
        "resets_in_seconds": round(window.resets_at - now, 1),
    }
