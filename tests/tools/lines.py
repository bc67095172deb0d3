"""Finished requests for tests of what counts them."""

import msgspec

from router.contract.entry import Attempt, Entry, Line
from router.contract.facts import Recorded

_LINE = {
    "id": "req_test",
    "at": 1_794_000_000.0,
    "caller": "local",
    "key": None,
    "job": None,
    "session": "session",
    "turn_kind": "ask",
    "client": "unknown",
    "dialect": "chat",
    "model": "auto",
    "streaming": True,
    "outcome": "SERVED",
    "status": 200,
    "error": None,
    "tier": "fast",
    "target": "spark",
    "because": "looks like a quick edit",
    "score": 0.1,
    "overhead_ms": 0.3,
    "ttft_ms": 200.0,
    "duration_ms": 1_500.0,
    "tokens_per_second": 120.0,
    "input_tokens": 100,
    "cached_tokens": 40,
    "output_tokens": 20,
    "reasoning_tokens": 5,
    "tokens_estimated": False,
    "cost_usd": 0.0012,
    "attempts": 1,
}
UNDECIDED = dict.fromkeys(
    "tier target because score ttft_ms tokens_per_second input_tokens cached_tokens output_tokens reasoning_tokens cost_usd".split()
)
"""Missing in a request that was refused before a tier was chosen."""


def make_recorded(*attempts: Attempt, **changed) -> Recorded:
    """A served request with changes; by default one good attempt at its target."""
    values = {**_LINE, **changed}
    made = attempts or ((Attempt(values["target"], 200, None, 1.0),) if values["target"] else ())
    line = Line(**{**values, "attempts": len(made)})
    return Recorded(Entry(line, None, msgspec.json.encode(list(made)).decode()))
