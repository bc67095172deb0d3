"""What hosts do differently, as data: one row for a host, matched by the end of its name, and how they say "too long".

The rows come from the hosts' documentation and from field reports.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple
from urllib.parse import urlsplit

from router.contract.words import Dialect

STREAM_OPTIONS = "stream_options"
"""How usage is asked for at the end of a stream. Some hosts refuse it, and tell usage all the same."""


class Quirks(NamedTuple):
    """How one host differs from what most do."""

    limit_field: str = "max_tokens"
    """What a chat host calls the most tokens that an answer may have."""
    refuses: frozenset[str] = frozenset()
    efforts: Mapping[str, str] = MappingProxyType({})
    """Its own words for effort, where it does not take the usual ones."""
    takes_openai_fields: bool = False
    """Whether it takes what only OpenAI defines: `safety_identifier` and `service_tier`."""
    replays_reasoning: bool = False
    """Whether a chat host wants its `reasoning_content` back inside a tool loop."""
    signs_calls: bool = False
    """Whether a chat host wants a signature of its own on the first call of each step."""
    reset_headers: tuple[str, ...] = ()
    """Where it says when a limit opens again, if not in `retry-after`."""


_PENALTIES = frozenset({"frequency_penalty", "presence_penalty", "logit_bias"})
_THREE_EFFORTS = MappingProxyType({"none": "low", "minimal": "low", "xhigh": "high", "max": "high", "ultra": "high"})
_HIGH_AT_MOST = MappingProxyType({"xhigh": "high", "max": "high", "ultra": "high"})
_OPENAI = Quirks(
    limit_field="max_completion_tokens",
    takes_openai_fields=True,
    reset_headers=("x-ratelimit-reset-tokens", "x-ratelimit-reset-requests"),
)
_HOSTS: tuple[tuple[str, Quirks], ...] = (
    ("api.openai.com", _OPENAI),
    (".openai.azure.com", _OPENAI),
    (
        "api.cerebras.ai",
        Quirks(
            limit_field="max_completion_tokens",
            refuses=_PENALTIES | {"prompt_cache_key", "service_tier", "store", "metadata", "verbosity", "safety_identifier"},
            efforts=_THREE_EFFORTS,
            reset_headers=("x-ratelimit-reset-tokens-minute", "x-ratelimit-reset-requests-day"),
        ),
    ),
    (
        "api.groq.com",
        Quirks(
            limit_field="max_completion_tokens",
            refuses=frozenset({"logprobs", "top_logprobs", "logit_bias", "prompt_cache_key", "verbosity", "safety_identifier"}),
            efforts=MappingProxyType({"minimal": "low", **_HIGH_AT_MOST}),
            reset_headers=("x-ratelimit-reset-tokens", "x-ratelimit-reset-requests"),
        ),
    ),
    (
        "generativelanguage.googleapis.com",
        Quirks(
            refuses=_PENALTIES | {"prompt_cache_key", "metadata", "store", "verbosity", "safety_identifier", "service_tier"},
            efforts=_HIGH_AT_MOST,
            signs_calls=True,
        ),
    ),
    ("api.deepseek.com", Quirks(replays_reasoning=True)),
    ("api.mistral.ai", Quirks(refuses=frozenset({STREAM_OPTIONS}))),
    (
        "api.x.ai",
        Quirks(
            limit_field="max_completion_tokens",
            refuses=frozenset({"frequency_penalty", "presence_penalty"}),
            efforts=MappingProxyType({"minimal": "low", **_HIGH_AT_MOST}),
        ),
    ),
)
ORDINARY = Quirks()
_CACHES_WHEN_ASKED = "claude"
"""Models of this name keep a prompt only up to a mark. All others keep it by themselves, or not at all."""
_HOSTS_OF_MARKS = frozenset({"openrouter.ai"})
"""Hosts that take such a mark in a chat request. To most others it is an unknown field, which some refuse."""
_LENGTH_MARKS = (
    "context_length_exceeded",
    "prompt is too long",
    "prompt_too_long",
    "maximum context length",
    "exceed_context_size",
    "exceeds the available context size",
    "exceed context limit",
    "exceeds the context window",
    "exceeds the maximum number of tokens",
    "exceeds the context length",
    "exceeds maximum context length",
    "greater than the context length",
    "longer than the maximum model length",
    "maximum prompt length is",
    "input is too long for requested model",
    "`inputs` tokens + `max_new_tokens` must be",
    "request too large for model",
)
"""How hosts say that a prompt does not fit."""
_LIMIT_IS_TOO_LARGE = re.compile(r"max_(?:completion_|output_)?tokens\W{0,3} (?:is|are) too large")
"""How they say that the answer's own limit does not, which a shorter prompt would not fix."""


def quirks_of(base_url: str) -> Quirks:
    """The row of the host that an address leads to."""
    host = _host_of(base_url)
    return next((quirks for end, quirks in _HOSTS if host == end or (end[0] == "." and host.endswith(end))), ORDINARY)


def caches_when_asked(base_url: str, model: str, dialect: Dialect) -> bool:
    """Whether a model keeps the prompt for the next request only up to a mark (`cache_control`), and may be sent one there.

    Messages have a place for the mark, wherever they go.
    """
    if dialect is not Dialect.MESSAGES and _host_of(base_url) not in _HOSTS_OF_MARKS:
        return False
    return _CACHES_WHEN_ASKED in model.lower()


def _host_of(base_url: str) -> str:
    return (urlsplit(base_url).hostname or "").lower()


def says_too_long(words: str) -> bool:
    """Whether a host's error means that the prompt does not fit. `words` are its type, code and message together."""
    words = words.lower()
    return any(mark in words for mark in _LENGTH_MARKS) and _LIMIT_IS_TOO_LARGE.search(words) is None
