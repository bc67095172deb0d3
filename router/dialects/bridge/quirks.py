"""What hosts do differently, as data: one row for a host, matched by the end of its name.

The rows come from the hosts' documentation and from field reports.
"""

from typing import NamedTuple
from urllib.parse import urlsplit


class Quirks(NamedTuple):
    """How one host differs from what most do."""

    limit_field: str = "max_tokens"
    """What a chat host calls the most tokens that an answer may have."""
    refuses: frozenset[str] = frozenset()
    """Fields of a request that it answers with an error."""
    replays_reasoning: bool = False
    """Whether a chat host wants its `reasoning_content` back inside a tool loop."""
    reset_headers: tuple[str, ...] = ()
    """Where it says, in seconds, when a limit opens again, if not in `retry-after`."""
    forces_tools: bool = True
    """Whether a tool can be forced."""


_PENALTIES = frozenset({"frequency_penalty", "presence_penalty", "logit_bias"})
_HOSTS: tuple[tuple[str, Quirks], ...] = (
    ("api.openai.com", Quirks(limit_field="max_completion_tokens")),
    (".openai.azure.com", Quirks(limit_field="max_completion_tokens")),
    (
        "api.cerebras.ai",
        Quirks(
            limit_field="max_completion_tokens",
            refuses=_PENALTIES | {"prompt_cache_key", "service_tier", "store", "metadata", "verbosity", "safety_identifier"},
            reset_headers=("x-ratelimit-reset-tokens-minute",),
        ),
    ),
    (
        "api.groq.com",
        Quirks(
            limit_field="max_completion_tokens",
            refuses=frozenset({"logprobs", "top_logprobs", "logit_bias", "prompt_cache_key", "verbosity", "safety_identifier"}),
            reset_headers=("x-ratelimit-reset-tokens", "x-ratelimit-reset-requests"),
        ),
    ),
    ("generativelanguage.googleapis.com", Quirks(refuses=_PENALTIES | {"prompt_cache_key", "metadata", "store", "verbosity"})),
    ("api.deepseek.com", Quirks(replays_reasoning=True)),
    ("api.x.ai", Quirks(limit_field="max_completion_tokens", refuses=frozenset({"frequency_penalty", "presence_penalty"}))),
)
ORDINARY = Quirks()


def quirks_of(base_url: str) -> Quirks:
    """The row of the host that an address leads to."""
    host = (urlsplit(base_url).hostname or "").lower()
    return next((quirks for end, quirks in _HOSTS if host == end or (end[0] == "." and host.endswith(end))), ORDINARY)
