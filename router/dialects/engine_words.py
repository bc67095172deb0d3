"""What hosts say of themselves when they refuse a request: how large their context window is, or that they are loading."""

import re

from router.contract.request import Json
from router.dialects.error_bodies import read_error
from router.dialects.hosts import says_too_long

LEAST_TOKENS = 256
"""No model's window is smaller: a lower number is about something else."""
_MAX_CHARS = 600
"""Hosts name the window at the beginning. Further on, some quote the request, whose words must not count."""
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
        r"\bn_ctx\W{1,4}",  # llama.cpp before it named both numbers in its words
        r"context length(?: is| of)?(?: only)? \(?",  # LM Studio, SGLang
        r"exceeds the context window of ",
        r"maximum number of tokens allowed \(?",  # Gemini
        r"`max_new_tokens` must be <= ",  # text-generation-inference
        r"too large for model with ",  # Mistral
    )
)
"""Compiled when a request is refused for its length: most routers never see one."""
_LOADING = r"\bloading (?:the )?model\b|\bmodel (?:\S+ )?is (?:currently |still )?(?:being loaded|loading)\b|\bstill loading\b"
"""llama.cpp ("Loading model"), Hugging Face ("Model X is currently loading")."""
_MAX_LOADING_CHARS = 200


def read_window(body: bytes, request: Json = None) -> int | None:
    """The window that a refusal names; None for a refusal that is not about length, or that names no plausible number.

    Nor does a number count that the refusal quotes from the request.
    """
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
    """Whether the same words are somewhere in a request, as its caller may have meant them to be."""
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
    """The words of a refusal which says that the model is being loaded; empty for any other."""
    _, words = read_error(body)
    return words.strip() if len(words) <= _MAX_LOADING_CHARS and re.search(_LOADING, words, re.IGNORECASE) else ""
