"""The afternoon: what the developer types, what their agent does for it, and the tiers that answer. Nothing else is canned.

What fast cannot do is part of the script, since a simulated model has no skill of its own: tests of a `hard` turn pass only
after an edit that deep made. Which tier makes it is for the router to decide.
"""

from dataclasses import dataclass

import yaml

from router.contract.request import JsonObject

_TTFT_SECONDS = {"fast": 0.2, "deep": 0.9}
_TOKENS_PER_SECOND = {"fast": 1000, "deep": 65}
_ANSWER_TOKENS = 80
"""The same on both tiers: they differ only in speed."""
_BUSY: JsonObject = {"kind": "rate_limit", "when": "copyright year", "every": 2}
_BUSY_SECONDS = 2.0
"""Fast answers 429 to every second request with these words, with this `retry-after`."""


@dataclass(frozen=True, slots=True)
class Turn:
    """What is typed, and how an agent goes about it: looks, edits, test runs, then words. Red tests lead to another edit."""

    words: str
    looks: int = 0
    edits: int = 0
    is_tested: bool = False
    is_hard: bool = False
    """Whether its tests stay red until deep has made an edit."""
    hangs_up_after_seconds: float | None = None
    """How long after the first token of its last answer the developer has seen enough. What it did is thrown away."""


Conversation = tuple[Turn, ...]
AFTERNOON: tuple[Conversation, ...] = (
    (
        Turn("fix the typo in README.md: recieve"),
        Turn("rename get_user to fetch_user in api.py", looks=1, edits=1),
    ),
    (Turn("update the copyright year in LICENSE"),),
    (Turn("migrate the storage layer to async, with tests", looks=3, edits=3, is_tested=True, is_hard=True),),
    (
        Turn("extract the session cache into its own package, with tests", looks=1, hangs_up_after_seconds=0.4),
        Turn("no, just rename it to SessionStore", edits=1),
    ),
    (Turn("update the copyright year in docs/conf.py"),),
    (Turn("fix the off-by-one in paginate()", edits=1, is_tested=True, is_hard=True),),
    (Turn("tier: fast\nsketch how you would split billing.py into modules"),),
)


def write_config(ledger: str, speed: float = 1.0) -> str:
    """The config of one router: two simulated tiers, a ledger, and defaults otherwise. `speed` divides every time."""
    config: JsonObject = {
        "ledger": {"path": ledger},
        "limits": {"drain_seconds": 1},
        "decision": {"hop_seconds": 1.0 / speed},
        "tiers": {tier: {"targets": [_target(tier, speed)]} for tier in _TOKENS_PER_SECOND},
    }
    return yaml.safe_dump(config)


def _target(tier: str, speed: float) -> JsonObject:
    options: JsonObject = {
        "ttft_seconds": _TTFT_SECONDS[tier] / speed,
        "tokens_per_second": _TOKENS_PER_SECOND[tier] * speed,
        "answer_tokens": _ANSWER_TOKENS,
    }
    if tier == "fast":
        options["faults"] = [{**_BUSY, "retry_after_seconds": _BUSY_SECONDS / speed}]
    return {"name": f"simulated-{tier}", "adapter": "simulated", "options": options}


def say_speeds(speed: float = 1.0) -> str:
    """How fast both tiers are, in words."""
    return ", ".join(f"{tier} {tokens * speed:g} tokens/s" for tier, tokens in _TOKENS_PER_SECOND.items())
