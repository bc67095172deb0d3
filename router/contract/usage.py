"""Tokens of an answer."""

from msgspec import Struct


class Usage(Struct, frozen=True, omit_defaults=True):
    """`input_tokens` includes cached ones. Estimated where the upstream said nothing."""

    input_tokens: int
    output_tokens: int
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    is_estimated: bool = False


class Timings(Struct, frozen=True):
    """An engine's own report. A speed is None where too little was written or read."""

    usage: Usage
    tokens_per_second: float | None = None
    prefill_tokens_per_second: float | None = None
