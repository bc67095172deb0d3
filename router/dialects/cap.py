"""The cap of an answer's tokens, for callers with a budget: how a request states it in its target's own field."""

from typing import NamedTuple

from router.contract.request import JsonObject
from router.contract.words import Dialect
from router.dialects.fields import as_object
from router.dialects.hosts import Quirks

LEAST_THINKING_TOKENS = 1_024
"""Hosts refuse a smaller `thinking.budget_tokens`."""
_THINKING, _BUDGET = "thinking", "budget_tokens"


class Cap(NamedTuple):
    tokens: int
    because: str = ""
    """Why it is less than the request's own limit; empty where it is that."""

    @property
    def words(self) -> tuple[str, ...]:
        """What the caller is told of it."""
        return (f"capped at {self.tokens} tokens {self.because}",) if self.because else ()


def read_thinking_budget(dialect: Dialect, body: JsonObject) -> int:
    """What a request allows for thinking; 0 where it sets nothing. It must be less than the limit of the answer."""
    budget = as_object(body.get(_THINKING)).get(_BUDGET) if dialect is Dialect.MESSAGES and _THINKING in body else None
    return budget if isinstance(budget, int) else 0


def state_cap(
    body: JsonObject, dialect: Dialect, limit_fields: tuple[str, ...], quirks: Quirks, cap: Cap, changes: JsonObject
) -> tuple[str, ...]:
    """Add what makes the cap a request's only limit. Returns what the caller is told."""
    taken = quirks.limit_field if quirks.limit_field in limit_fields else limit_fields[-1]
    for name in limit_fields:
        if name != taken and body.get(name) is not None:
            changes[name] = None
    if type(body.get(taken)) is not int or body[taken] != cap.tokens:
        changes[taken] = cap.tokens
    budget = read_thinking_budget(dialect, body)
    if budget < cap.tokens or _THINKING in changes or not cap.because:
        return cap.words
    lowered = max(LEAST_THINKING_TOKENS, cap.tokens // 2)
    changes[_THINKING] = {**as_object(body[_THINKING]), _BUDGET: lowered}
    return (*cap.words, f"thinking.budget_tokens lowered to {lowered}")
