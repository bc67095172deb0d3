"""How hosts word a failure."""

import orjson
from msgspec import Struct

from router.contract.errors import TooLong
from router.contract.request import Json, JsonObject
from router.dialects.fields import as_object
from router.dialects.hosts import says_too_long

_MAX_WORDS = 2_000


class Failure(Struct, frozen=True):
    code: str
    message: str


def read_failure(value: Json) -> Failure:
    """An error as hosts write it. Errors for length get the code that callers know."""
    error = as_object(value)
    code = str(error.get("code") or error.get("type") or "upstream_error")[:80]
    message = _words_of(value) or "the target reported an error"
    if says_too_long(f"{error.get('type')} {code} {message}"):
        return Failure(TooLong.code, message + _lengths_of(error, message))
    return Failure(code, message)


def _lengths_of(error: JsonObject, message: str) -> str:
    """The numbers that llama.cpp sends in separate fields, unless its message has them."""
    asked, window = error.get("n_prompt_tokens"), error.get("n_ctx")
    if not isinstance(window, int) or str(window) in message:
        return ""
    return f" (n_ctx {window}, {asked} tokens)" if isinstance(asked, int) else f" (n_ctx {window})"


def _words_of(value: Json) -> str:
    error = as_object(value)
    for words in (error.get("message"), error.get("detail"), error.get("error"), error.get("msg"), value):
        if isinstance(words, str) and words.strip():
            return words[:_MAX_WORDS]
    found = error.get("message") or error.get("detail") or value
    if not found:
        return ""
    try:
        return orjson.dumps(found)[:_MAX_WORDS].decode("utf-8", "replace")
    except orjson.JSONEncodeError:
        return ""
