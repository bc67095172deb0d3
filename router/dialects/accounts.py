"""Refusals that only the operator can fix: the account, its key, its region or the configured model.

Hosts send some with a status that blames the request, so they are recognised by code or by how the message begins, never by
words inside it: a refusal may quote the prompt.
"""

import re
from typing import NamedTuple
from urllib.parse import unquote

from router.contract.request import JsonObject
from router.contract.words import AccountFault
from router.dialects.error_bodies import read_error
from router.dialects.fields import as_list, as_object

_MAX_WORDS = 300
_BY_STATUS = {
    401: AccountFault.KEY,
    402: AccountFault.CREDIT,
    403: AccountFault.KEY,
    404: AccountFault.MODEL,
    410: AccountFault.MODEL,
}
_MAY_BE_ACCOUNT = frozenset({400, 422, 429, *_BY_STATUS})
_CODES = {
    "invalid_api_key": AccountFault.KEY,
    "API_KEY_INVALID": AccountFault.KEY,
    "API_KEY_SERVICE_BLOCKED": AccountFault.KEY,
    "billing_error": AccountFault.CREDIT,
    "billing_hard_limit_reached": AccountFault.CREDIT,
    "billing_not_active": AccountFault.CREDIT,
    "credit_balance_exhausted": AccountFault.CREDIT,
    "exceeded_current_quota_error": AccountFault.CREDIT,
    "insufficient_quota": AccountFault.CREDIT,
    "unsupported_country_region_territory": AccountFault.REGION,
    "DeploymentNotFound": AccountFault.MODEL,
    "invalid_model": AccountFault.MODEL,
    "model_decommissioned": AccountFault.MODEL,
    "model_not_available": AccountFault.MODEL,
    "model_not_found": AccountFault.MODEL,
}
_BEGINNINGS = (
    (r"api key (?:not (?:valid|found)|expired)", AccountFault.KEY),  # Gemini
    (r"(?:incorrect|invalid) api key", AccountFault.KEY),  # xAI
    (r"your credit balance is too low", AccountFault.CREDIT),  # Anthropic
    (r"insufficient balance", AccountFault.CREDIT),  # DeepSeek, GLM
    (r"user location is not supported", AccountFault.REGION),  # Gemini
    (r"the model `?[\w./:@-]+`? (?:has been|is) (?:decommissioned|deprecated|retired)", AccountFault.MODEL),  # Groq
    (r"the provided model identifier is invalid", AccountFault.MODEL),  # Bedrock
    (r"[\w./:@-]+ is not a valid model id\b", AccountFault.MODEL),  # OpenRouter
)
"""How messages begin at hosts that send no code."""


class AccountRefusal(NamedTuple):
    fault: AccountFault
    words: str = ""


def read_account_refusal(status: int, body: bytes) -> AccountRefusal | None:
    """The account fault in a refusal; None if it blames the request or is temporary."""
    if status not in _MAY_BE_ACCOUNT:
        return None
    error, words = read_error(body)
    message = unquote(words)  # one host percent-encodes it
    fault = _fault_in(error, message) if error else None
    if fault is not None:
        return AccountRefusal(fault, message[:_MAX_WORDS])
    return AccountRefusal(_BY_STATUS[status]) if status in _BY_STATUS else None


def account_code(error: JsonObject) -> str | None:
    """The code that names an account fault, wherever the host puts it."""
    details = [as_object(detail).get("reason") for detail in as_list(error.get("details"))]
    codes = (code for code in (error.get("code"), error.get("type"), *details) if isinstance(code, str))
    return next((code for code in codes if code in _CODES), None)


def _fault_in(error: JsonObject, message: str) -> AccountFault | None:
    code, begins = account_code(error), message.strip().lower()
    if code is not None:
        return _CODES[code]
    return next((fault for beginning, fault in _BEGINNINGS if re.match(beginning, begins)), None)
