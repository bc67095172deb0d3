"""Errors of failed responses. OpenAI's list of their codes is closed: typed clients refuse a response with any other."""

from router.contract.errors import BudgetHeld, BudgetSpent, RateLimited, TiersBusy, TooLong
from router.contract.request import Json, JsonObject
from router.dialects.error_bodies import find_told
from router.dialects.failures import read_failure
from router.dialects.fields import as_object, as_text

_SERVER, _LIMIT, _PROMPT = "server_error", "rate_limit_exceeded", "invalid_prompt"
_CODES = frozenset(
    """
    server_error rate_limit_exceeded invalid_prompt data_residency_mismatch bio_policy vector_store_timeout invalid_image
    invalid_image_format invalid_base64_image invalid_image_url image_too_large image_too_small image_parse_error
    image_content_policy_violation invalid_image_mode image_file_too_large unsupported_image_media_type empty_image_file
    failed_to_download_image image_file_not_found
    """.split()
)
_LIMITS = (RateLimited.code, BudgetSpent.code, BudgetHeld.code, TiersBusy.code, "rate_limit_error", "insufficient_quota")
_OTHERS = {
    **dict.fromkeys(_LIMITS, _LIMIT),
    **dict.fromkeys((TooLong.code, "invalid_request_error"), _PROMPT),
}
_ACTED_ON = frozenset({TooLong.code, "insufficient_quota", "usage_not_included", "server_is_overloaded", "slow_down"})
"""Codes outside the list on which Codex compacts, stops or waits. OpenAI's own streams end with them too."""


def write_error(code: str, message: str, usual: str = _SERVER) -> JsonObject:
    """An error with a code of the list, `usual` if none fits better. The finer one, if there is one, is its `reason`."""
    known = code if code in _CODES else _OTHERS.get(code, usual)
    return {"code": known, "message": message, **({} if known == code else {"reason": code})}


def write_stream_error(code: str, message: str) -> JsonObject:
    """The error of a stream that fails while its client reads it."""
    return {"code": code, "message": message} if code in _ACTED_ON else write_error(code, message)


def read_error(told: Json) -> JsonObject:
    """An error as a target reports it."""
    failure = read_failure(told)
    return {**as_object(told), **write_error(failure.code, failure.message)}


def read_refusal(body: bytes) -> JsonObject:
    """The error of a request that was refused."""
    told = find_told(body)
    failure, kind = read_failure(told), as_text(as_object(told).get("type"))
    return write_error(failure.code, failure.message, _OTHERS.get(kind, _SERVER))
