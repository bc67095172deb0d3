"""Tokens and speed of an answer, as reported or else as relayed."""

from math import ceil

from msgspec.structs import replace

from router.contract.errors import CallerKey, TandemError, UpstreamLost, UpstreamUnreachable
from router.contract.target import Price
from router.contract.usage import Usage
from router.contract.words import Operation

_LEAST_TOKENS = 4
_LEAST_PIECES = 8
_LEAST_COUNTED = 16
_LEAST_PACE_SECONDS = 0.01
_LEAST_SECONDS = 0.001
_USUAL_BYTES = 4.0
"""Of an output token: of English somewhat more, of code somewhat less."""
_LEAST_BYTES = 2.0
_PRIOR_TOKENS, _MOST_TOKENS = 50.0, 20_000.0
_ALL_STREAMS, _ONE_IN = 16, 16
_UNSENT = (UpstreamUnreachable, CallerKey)


class TokenSize:
    """How many bytes of text an output token of one target has, learned from whole streams with usage."""

    __slots__ = ("_bytes", "_seen", "_tokens")

    def __init__(self) -> None:
        self._bytes, self._tokens, self._seen = _USUAL_BYTES * _PRIOR_TOKENS, _PRIOR_TOKENS, 0

    def is_due(self) -> bool:
        """Whether to learn from one more stream: the first ones, then one in sixteen."""
        self._seen = seen = self._seen + 1
        return seen <= _ALL_STREAMS or not seen % _ONE_IN

    def learn(self, written_bytes: int, usage: Usage) -> None:
        """Reasoning counts as hidden if there is too little text for all tokens."""
        tokens = usage.output_tokens
        if written_bytes < tokens * _LEAST_BYTES:
            tokens -= usage.reasoning_tokens
        if written_bytes <= 0 or tokens <= 0:
            return
        fading = min(1.0, _MOST_TOKENS / (self._tokens + tokens))
        self._bytes, self._tokens = (self._bytes + written_bytes) * fading, (self._tokens + tokens) * fading

    def tokens_in(self, written_bytes: int) -> int:
        return ceil(written_bytes * self._tokens / self._bytes)


def is_billed(status: int | None, error: TandemError | None) -> bool:
    """Whether a call uses tokens. Providers do not bill refusals, but a silent one is reading the prompt."""
    if status is not None:
        return status // 100 == 2
    return not isinstance(error, _UNSENT) or isinstance(error, UpstreamLost)


def measure_usage(
    operation: Operation, told: Usage | None, prompt_tokens: int, seen_tokens: int, *, is_billed: bool
) -> Usage | None:
    """Usage of one attempt, as told or else by the text seen; None if it uses none, such as a count."""
    if operation is Operation.COUNT_TOKENS or not is_billed:
        return None
    if told is None:
        return Usage(prompt_tokens, seen_tokens, is_estimated=True)
    if told.output_tokens == 0:
        return replace(told, input_tokens=told.input_tokens or prompt_tokens, output_tokens=seen_tokens, is_estimated=True)
    return told


def cost_of(usage: Usage | None, price: Price | None) -> float | None:
    """USD; 0 if nothing is billed, None without a price."""
    return 0.0 if usage is None else price.cost(usage) if price is not None else None


def measure_speed(usage: Usage | None, first_token_at: float | None, now: float) -> float | None:
    """Tokens per second from the first token on; None if too few."""
    if usage is None or first_token_at is None or usage.output_tokens <= _LEAST_TOKENS:
        return None
    seconds = now - first_token_at
    return usage.output_tokens / seconds if seconds > _LEAST_SECONDS else None


def shows_pace(usage: Usage | None, pieces: int, seconds: float) -> bool:
    """Whether a stream shows its target's speed.

    A few pieces do not: a tool call sent whole was written before its first byte. Pieces counted for want of usage must be
    more, since some open or end a stream.
    """
    if usage is None or pieces < _LEAST_PIECES or seconds < _LEAST_PACE_SECONDS:
        return False
    return not usage.is_estimated or usage.output_tokens >= _LEAST_COUNTED
