"""The tokens of one answer, as they are counted and priced."""

from msgspec import Struct


class Usage(Struct, frozen=True, omit_defaults=True):
    """Tokens of one answer. `input_tokens` includes the cached ones. Estimated where the upstream said nothing."""

    input_tokens: int
    output_tokens: int
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    is_estimated: bool = False
