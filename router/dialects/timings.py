"""llama.cpp's `timings`: tokens and speed by the engine's clock, sent even if usage was not requested."""

from router.contract.request import Json
from router.contract.usage import Timings, Usage
from router.dialects.fields import as_count

MARK = b'"timings"'
_LEAST_WRITTEN, _LEAST_READ = 5, 500
"""With fewer tokens, a step's fixed cost hides the pace."""


def read_timings(value: Json) -> Timings | None:
    if not isinstance(value, dict) or "predicted_n" not in value:
        return None
    written, read, cached = as_count(value.get("predicted_n")), as_count(value.get("prompt_n")), as_count(value.get("cache_n"))
    return Timings(
        Usage(cached + read, written, cached),
        _speed(value.get("predicted_per_second"), written, value.get("predicted_ms")) if written >= _LEAST_WRITTEN else None,
        _speed(value.get("prompt_per_second"), read, value.get("prompt_ms")) if read >= _LEAST_READ else None,
    )


def _speed(told: Json, tokens: int, milliseconds: Json) -> float | None:
    if isinstance(told, (int, float)) and told > 0:
        return float(told)
    return 1000 * tokens / milliseconds if isinstance(milliseconds, (int, float)) and milliseconds > 0 else None
