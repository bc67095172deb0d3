"""Host quirks as data, one row per host, and how hosts say "too long". From their documentation and field reports."""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple
from urllib.parse import urlsplit

from router.contract.words import Dialect, Vendor

STREAM_OPTIONS = "stream_options"
"""Asks for usage at the end of a stream. Some hosts refuse it and send usage anyway."""


class Quirks(NamedTuple):
    limit_field: str = "max_tokens"
    """The chat field for the answer's token limit."""
    refuses: frozenset[str] = frozenset()
    efforts: Mapping[str, str] = MappingProxyType({})
    """Its names for effort, if not the usual ones."""
    takes_openai_fields: bool = False
    """Whether it accepts fields that only OpenAI defines: `safety_identifier` and `service_tier`."""
    replays_reasoning: bool = False
    """Whether it wants its `reasoning_content` back inside a tool loop (chat)."""
    signs_calls: bool = False
    """Whether it wants its signature on the first call of each step (chat)."""
    reset_headers: tuple[str, ...] = ()
    """Headers that say when a limit resets, besides `retry-after`."""


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
_VENDORS: tuple[tuple[str, Vendor], ...] = (
    ("api.anthropic.com", Vendor.ANTHROPIC),
    ("api.openai.com", Vendor.OPENAI),
    (".api.openai.com", Vendor.OPENAI),
    ("chatgpt.com", Vendor.CHATGPT),
)
"""Hosts that take a vendor's credentials. A gateway's config names its vendors."""
PLAN_DIALECTS = {Vendor.ANTHROPIC: Dialect.MESSAGES, Vendor.CHATGPT: Dialect.RESPONSES}
"""Vendors with plans, and the dialect of their clients."""
_CACHES_WHEN_ASKED = "claude"
"""These models cache a prompt only up to a mark; all others by themselves or not at all."""
_HOSTS_OF_MARKS = frozenset({"openrouter.ai"})
"""Hosts that accept the mark in a chat request; some others refuse the field."""
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
_LIMIT_IS_TOO_LARGE = re.compile(r"max_(?:completion_|output_)?tokens\W{0,3} (?:is|are) too large")
"""The answer's limit is too large: a shorter prompt would not help."""

_NAMES_A_LIMIT = re.compile(r"max_(?:completion_|output_)?tokens")
_TOKENS = re.compile(r"\d{4,6}")


def quirks_of(base_url: str) -> Quirks:
    host = _host_of(base_url)
    return next((quirks for end, quirks in _HOSTS if _is_at(host, end)), ORDINARY)


def vendor_at(base_url: str) -> Vendor | None:
    """The vendor whose credentials an address takes, if it is the vendor's own."""
    host = _host_of(base_url)
    return next((vendor for end, vendor in _VENDORS if _is_at(host, end)), None)


def _is_at(host: str, end: str) -> bool:
    return host == end or (end[0] == "." and host.endswith(end))


def caches_when_asked(base_url: str, model: str, dialect: Dialect) -> bool:
    """Whether a model caches only up to a mark (`cache_control`), and accepts one here."""
    if dialect is not Dialect.MESSAGES and _host_of(base_url) not in _HOSTS_OF_MARKS:
        return False
    return _CACHES_WHEN_ASKED in model.lower()


def _host_of(base_url: str) -> str:
    return (urlsplit(base_url).hostname or "").lower()


def says_too_long(words: str) -> bool:
    """Whether an error means that the prompt is too long. `words` are its type, code and message."""
    words = words.lower()
    return any(mark in words for mark in _LENGTH_MARKS) and _LIMIT_IS_TOO_LARGE.search(words) is None


def find_longest_limit(words: str, refused: int) -> int | None:
    """A limit of an answer that a host may take, when it refuses this one; None if it refuses for another reason."""
    words = words.replace(",", "")
    if "context" in words.lower():  # too long together with the prompt: it names neither's part
        return refused // 4 if str(refused) in _TOKENS.findall(words) else None
    if _NAMES_A_LIMIT.search(words) is None:
        return None
    return max((tokens for tokens in map(int, _TOKENS.findall(words)) if tokens < refused), default=None)
