"""Tokens and speed of an answer, from what its target said of them or, where it said nothing, from what was relayed."""

from router.contract.usage import Usage
from router.contract.words import Operation

_LEAST_TOKENS = 4
_LEAST_SECONDS = 0.001


def measure_usage(
    operation: Operation, told: Usage | None, prompt_tokens: int, relayed_tokens: int, *, has_reached_caller: bool
) -> Usage | None:
    """The usage of one attempt. A count of tokens costs nothing and writes nothing."""
    if operation is Operation.COUNT_TOKENS:
        return None
    if has_reached_caller and (told is None or told.output_tokens == 0):
        known = told.input_tokens if told else 0
        return Usage(known or prompt_tokens, relayed_tokens, is_estimated=True)
    return told


def measure_speed(usage: Usage | None, first_token_at: float | None, now: float) -> float | None:
    """Tokens a second of a stream, from its first token on; None where too little came to tell."""
    if usage is None or first_token_at is None or usage.output_tokens <= _LEAST_TOKENS:
        return None
    seconds = now - first_token_at
    return usage.output_tokens / seconds if seconds > _LEAST_SECONDS else None
