"""A provider's error from litellm's exception, with its status, words and wait as far as litellm keeps them."""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import orjson

from adapters.litellm_answers import pick_headers
from adapters.litellm_causes import chain_of
from router.contract.relay import Headers
from router.dialects.error_bodies import find_error

_PREFIX = re.compile(r"^(?:litellm\.)?\w*(?:Error|Exception|Timeout)(?: (?:\w+Error|Invalid Authentication))?\s*(?::|-)\s*")
_SUFFIX = re.compile(r"\.? Handle with `litellm\.\w+`\.?$")

_OF_A_BODY = frozenset({"content-type", "content-length"})


class Refusal(NamedTuple):
    status: int
    headers: Headers
    body: bytes


class _Told(NamedTuple):
    status: int
    headers: Mapping[str, Any]
    body: Any = None


def read_refusal(error: Exception, key: str) -> Refusal | None:
    told = find_answer(error) or _as_litellm_tells_it(error)
    if told is None:
        return None
    words = strip_prefixes(str(getattr(error, "message", "")))
    said = find_error(told.body) or find_error(getattr(error, "body", None)) or find_error(_parse_tail(words))
    code = said.get("code")
    if type(error).__name__ == "ContextWindowExceededError":
        code = "context_length_exceeded"
    message = _message_of(said) or words
    if key:
        message = message.replace(key, "***")  # some providers quote the refused key
    kind = said.get("type") or ("invalid_request_error" if told.status < 500 else "server_error")
    refused = {"message": message, "type": kind, "param": said.get("param"), "code": code}
    if isinstance(said.get("details"), list):
        refused["details"] = said["details"]
    body = orjson.dumps({"error": refused}, default=str)
    return Refusal(told.status, (("content-type", "application/json"), *pick_headers(told.headers)), body)


def find_answer(error: BaseException) -> _Told | None:
    """The provider's answer: litellm's exceptions change some statuses and lose some headers.

    Responses that litellm makes up have only the headers of a body.
    """
    found = None
    for cause in chain_of(error):
        response = getattr(cause, "response", None)
        status, headers = getattr(response, "status_code", None), getattr(response, "headers", None)
        if isinstance(status, int) and 400 <= status < 600 and headers is not None and set(headers) - _OF_A_BODY:
            found = _Told(status, headers, _parse(getattr(cause, "text", None)) or (found.body if found else None))
    return found


def _as_litellm_tells_it(error: Exception) -> _Told | None:
    status = getattr(error, "status_code", None)
    if not isinstance(status, int) or not 400 <= status < 600:
        return None
    return _Told(status, getattr(error, "litellm_response_headers", None) or {})


def _parse(text: object) -> Any:
    try:
        return orjson.loads(text) if isinstance(text, (str, bytes)) else None
    except orjson.JSONDecodeError:
        return None


def _message_of(said: dict[str, Any]) -> str:
    words = next((said[name] for name in ("message", "error", "detail") if said.get(name)), "")
    return words if isinstance(words, str) else orjson.dumps(words, default=str).decode()


def _parse_tail(words: str) -> Any:
    """The JSON at a message's end: litellm passes some bodies on as text or Python bytes."""
    start = words.find("{")
    return _parse(words[start:].rstrip("'")) if start >= 0 else None


def strip_prefixes(message: str) -> str:
    stripped = _PREFIX.sub("", message)
    while stripped != message:
        message, stripped = stripped, _PREFIX.sub("", stripped)
    return _SUFFIX.sub("", stripped)
