"""Refusals for which only the operator can do something: the account, its key, its region or the configured model.

Hosts send some of these with a status that blames the request, so they are known by their words. Those are matched by codes and
by how messages begin, never anywhere inside: a refusal may quote what a person wrote.
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
"""What a status means where the words say nothing else."""
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
"""What hosts write as the code, type or reason of such a refusal."""
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
"""How messages begin at hosts that send no such code."""


class AccountRefusal(NamedTuple):
    """What is at fault, and the host's own words for it: empty where only the status says it."""

    fault: AccountFault
    words: str = ""


def read_account_refusal(status: int, body: bytes) -> AccountRefusal | None:
    """What a refusal says about the account or the configured model; None where it is about the request or passes by itself."""
    if status not in _MAY_BE_ACCOUNT:
        return None
    error, words = read_error(body)
    message = unquote(words)  # one host writes it as in a URL
    fault = _fault_in(error, message) if error else None
    if fault is not None:
        return AccountRefusal(fault, message[:_MAX_WORDS])
    return AccountRefusal(_BY_STATUS[status]) if status in _BY_STATUS else None


def account_code(error: JsonObject) -> str | None:
    """The code of such a refusal, wherever in its error a host writes it."""
    details = [as_object(detail).get("reason") for detail in as_list(error.get("details"))]
    codes = (code for code in (error.get("code"), error.get("type"), *details) if isinstance(code, str))
    return next((code for code in codes if code in _CODES), None)


def _fault_in(error: JsonObject, message: str) -> AccountFault | None:
    code, begins = account_code(error), message.strip().lower()
    if code is not None:
        return _CODES[code]
    return next((fault for beginning, fault in _BEGINNINGS if re.match(beginning, begins)), None)
