"""Facts in hosts' refusals: the size of their context window, or that the model is loading."""

import re

from router.contract.request import Json
from router.dialects.error_bodies import read_error
from router.dialects.hosts import says_too_long

LEAST_TOKENS = 256
_MAX_CHARS = 600
"""Hosts name the window early. Later text may quote the request, whose words must not count."""
_NUMBER = r"(\d[\d,]{2,11})\b"
_NAMED = "|".join(
    start + _NUMBER
    for start in (
        r"prompt is too long: [\d,]+ tokens > ",  # Anthropic
        r"exceed context limit: [\d,]+ \+ [\d,]+ > ",  # Anthropic, with the answer's own limit
        r"maximum context length (?:is|of|\()\s?",  # OpenAI, Azure, vLLM, SGLang, OpenRouter, DeepSeek
        r"maximum model length (?:is|of) ",  # vLLM
        r"maximum prompt length is ",  # xAI
        r"available context size \(",  # llama.cpp
        r"\bn_ctx\W{1,4}",  # older llama.cpp
        r"context length(?: is| of)?(?: only)? \(?",  # LM Studio, SGLang
        r"exceeds the context window of ",
        r"maximum number of tokens allowed \(?",  # Gemini
        r"`max_new_tokens` must be <= ",  # text-generation-inference
        r"too large for model with ",  # Mistral
    )
)
"""Compiled on use: most routers never see a refusal for length."""
_LOADING = r"\bloading (?:the )?model\b|\bmodel (?:\S+ )?is (?:currently |still )?(?:being loaded|loading)\b|\bstill loading\b"
"""llama.cpp ("Loading model"), Hugging Face ("Model X is currently loading")."""
_MAX_LOADING_CHARS = 200


def read_window(body: bytes, request: Json = None) -> int | None:
    """The context window that a refusal names; None if implausible or quoted from the request."""
    error, words = read_error(body)
    words = words[:_MAX_CHARS]
    if not says_too_long(f"{error.get('type')} {error.get('code')} {words}"):
        return None
    window = error.get("n_ctx")
    if not isinstance(window, int):
        found = re.search(_NAMED, words, re.IGNORECASE)
        if found is None or _is_quoted(found, request):
            return None
        window = int(_number_in(found).replace(",", ""))
    return window if window >= LEAST_TOKENS else None


def _number_in(found: re.Match[str]) -> str:
    number: str = next(filter(None, found.groups()))
    return number


def _is_quoted(found: re.Match[str], request: Json) -> bool:
    number, said = _number_in(found), re.compile(r"\W+".join(re.findall(r"\w+", found[0])), re.IGNORECASE)
    rest = [request]
    while rest:
        value = rest.pop()
        if isinstance(value, str):
            if number in value and said.search(value):
                return True
        elif isinstance(value, dict):
            rest += (*value, *value.values())
        elif isinstance(value, list):
            rest += value
    return False


def read_loading(body: bytes) -> str:
    """The message of a refusal while the model is loading; empty for any other."""
    _, words = read_error(body)
    return words.strip() if len(words) <= _MAX_LOADING_CHARS and re.search(_LOADING, words, re.IGNORECASE) else ""
