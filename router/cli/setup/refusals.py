"""What a target's refusal means for whoever sets it up: whose fault it is, in the target's own words, and what to do.

Hosts send account faults with many statuses (a wrong key is a 400 at some, an empty account a 429), so their words count first.
"""

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

import orjson

from router.contract.relay import Endpoint
from router.dispatch.keys import guard_for

_MAX_WORDS = 200
_LOOKED_AT_BYTES = 65_536
_PAGE = re.compile(r"<!doctype html|<html", re.IGNORECASE)
_TITLE = re.compile(r"<title[^>]*>(.*?)</title>", re.IGNORECASE | re.DOTALL)
_MASKED = re.compile(r"[\w-]*\*{3,}[\w-]*|[\w-]+(?:…|\.{3,})[\w-]+")
"""A key of which a host shows the first and last letters."""
_CREDIT = re.compile(
    r"insufficient[_ ](?:quota|balance|credit|funds)|exceeded your current quota|credit balance|out of credit|no credit"
    r"|more credits|billing_(?:error|hard_limit|not_active)|payment required|arrearage",
)
_PASSES = re.compile(r"retryinfo|retry in \d")
"""A rate limit of Gemini's, which it tells in the words that others have for an account without credit."""
_REGION = re.compile(
    r"unsupported_country_region_territory|country, region,? or territory|location is not supported"
    r"|not (?:available|supported) in (?:your|this) (?:country|region|location)",
)
_RETIRED = re.compile(r"decommission|deprecat|retired|sunset|discontinued|no longer (?:available|supported|exists)|end.of.life")
_MODEL = re.compile(r"model_not_found|unknown model|not a valid model|model\b.{0,80}(?:not exist|not found)")
_KEY = re.compile(
    r"api[_ ]key[_ ](?:invalid|not valid|not found|expired)|invalid_api_key"
    r"|(?:invalid|incorrect|wrong|bad|missing|expired|no) (?:x-)?api[-_ ]?key"
    r"|authentication|unauthorized|unauthenticated|invalid.{0,10}(?:token|credential)",
)
_SCOPE = re.compile(r"missing scopes|insufficient permissions for this operation")
_LOGIN = re.compile(r"log-?in|sign-?in|sso|saml|oauth|auth|idp|captive|portal", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Refusal:
    """What is wrong and what to do. The problem reads after "it". `is_final` says that nothing is served with this key."""

    problem: str
    hint: str
    is_final: bool = False


def explain_refusal(status: int, headers: dict[str, str], body: bytes, endpoint: Endpoint) -> Refusal:
    """What an answer with any status but 200 says."""
    host = urlsplit(endpoint.base_url).hostname or "its provider"
    if 300 <= status < 400:
        return _explain_redirect(status, headers.get("location", ""), endpoint)
    words, text = words_of(body, endpoint), _text_of(body)
    if status == 407:
        hint = "set HTTPS_PROXY to http://USER:PASSWORD@host:port, with special characters percent-encoded"
        return Refusal(_say("is behind a proxy that wants a user name and a password (407)", words), hint)
    if is_page(headers, body) and status != 404:
        return _explain_page(status, words, host)
    found = _find_account_fault(status, text)
    if found == "credit":
        hint = f"add credit, or raise the spending limit, in the console of {host}: the key itself is accepted"
        return Refusal(_say(f"has no credit left on this account ({status})", words), hint, is_final=True)
    if found == "region":
        hint = f"use another provider, or reach {host} from a region that it serves (HTTPS_PROXY)"
        return Refusal(_say(f"does not serve the region of this machine ({status})", words), hint, is_final=True)
    if found == "retired":
        return Refusal(
            _say(f"has retired the model {endpoint.model} ({status})", words), "set model to one that it still serves"
        )
    if found == "model":
        problem = f"does not know the model {endpoint.model} or this path ({status})"
        return Refusal(_say(problem, words), "set model to a name that its provider knows, and check base_url")
    if found == "key":
        return _explain_key(status, words, endpoint)
    return _explain_rest(status, words)


def words_of(body: bytes, endpoint: Endpoint) -> str:
    """A target's own words on one line: bounded, and without keys and control characters. The title of a web page."""
    text = _text_of(guard_for(endpoint.api_key, endpoint.secrets).clean(body[:_LOOKED_AT_BYTES]))
    if _PAGE.search(text[:2_000]):
        title = _TITLE.search(text)
        said = title[1] if title else ""
    else:
        said = _read_message(text)
    said = _MASKED.sub("***", "".join(letter if letter.isprintable() else " " for letter in said))
    line = " ".join(said.split())
    return f"{line[:_MAX_WORDS]}…" if len(line) > _MAX_WORDS else line


def is_page(headers: dict[str, str], body: bytes) -> bool:
    """Whether it is a web page, which no API sends."""
    return "html" in headers.get("content-type", "") or _PAGE.search(_text_of(body[:2_000])) is not None


def _say(problem: str, words: str) -> str:
    return f"{problem}: {words}" if words else problem


def _text_of(body: bytes) -> str:
    return bytes(body[:_LOOKED_AT_BYTES]).decode("utf-8", "replace")


def _read_message(text: str) -> str:
    """The message of an error, wherever hosts put it; a plain text as it is."""
    try:
        told = orjson.loads(text)
    except orjson.JSONDecodeError:
        return "" if text.lstrip()[:1] in ("<", "{", "[") else text
    if isinstance(told, list) and told:
        told = told[0]
    for name in ("error", "message", "detail", "errors"):
        inner = told.get(name) if isinstance(told, dict) else None
        if isinstance(inner, list) and inner:
            inner = inner[0]
        if isinstance(inner, str) and inner:
            more = told.get("message") if name == "error" else None
            return more if isinstance(more, str) and more else inner
        if isinstance(inner, dict):
            message = inner.get("message") or inner.get("msg")
            if isinstance(message, str) and message:
                return message
    return ""


def _find_account_fault(status: int, text: str) -> str:
    """What the words blame; else what the status does. Nothing where it may pass, or where the request is at fault."""
    said = text.lower()
    if status == 402 or (status < 500 and _CREDIT.search(said) and not _PASSES.search(said)):
        return "credit"
    if status == 451 or (status < 500 and _REGION.search(said)):
        return "region"
    if status == 410 or (status in (400, 404, 422) and _RETIRED.search(said)):
        return "retired"
    if status in (401, 403) or (status in (400, 422) and _KEY.search(said)):
        return "key"
    return "model" if status in (400, 404, 422) and (status == 404 or _MODEL.search(said)) else ""


def _explain_redirect(status: int, location: str, endpoint: Endpoint) -> Refusal:
    """The key must never go where a redirect points, unless that is the same host."""
    own, other = urlsplit(endpoint.base_url).hostname or "", urlsplit(location)
    problem = f"answers with a redirect ({status})"
    if not other.hostname or other.hostname == own:
        where = location.partition("?")[0].removesuffix("/models")
        is_address = where.startswith(("http://", "https://")) and not _LOGIN.search(other.path)
        hint = f"set base_url to {where}" if is_address else "check base_url: it usually ends in /v1"
        return Refusal(f"{problem}, and redirects are not followed", hint)
    kind = "a login page" if _LOGIN.search(f"{other.hostname}{other.path}") else "another host"
    hint = f"sign in to the network or VPN through which {own} is reached, or check base_url; the key was not sent on"
    return Refusal(f"{problem} to {kind}, {other.hostname}, which is not followed", hint)


def _explain_page(status: int, title: str, host: str) -> Refusal:
    problem = _say(f"answered with a web page ({status})", title)
    if status in (401, 403, 451):
        hint = f"a filter on the way refuses it, so the key is not at fault: ask whoever runs your network to allow {host}"
        return Refusal(problem, hint)
    return Refusal(problem, "check base_url: it usually ends in /v1; or try again later")


def _explain_key(status: int, words: str, endpoint: Endpoint) -> Refusal:
    if _SCOPE.search(words.lower()):
        hint = "give the key that right in its provider's console, if calls fail too"
        return Refusal(_say(f"does not let this key list models ({status})", words), hint)
    key = f"{endpoint.api_key}" if endpoint.api_key is not None else ""
    if not key:
        return Refusal(_say(f"wants a key ({status})", words), "set api_key: env:NAME", is_final=True)
    hint = f"check {key}: it may be of another provider, withdrawn, or without the right to this"
    return Refusal(_say(f"refused the key ({status})", words), hint, is_final=True)


def _explain_rest(status: int, words: str) -> Refusal:
    problem = _say(f"answered {status}", words)
    if status == 429:
        return Refusal(problem, "try again later; quota: in its block keeps to a limit that you know")
    if status >= 500 or status == 408:
        return Refusal(problem, "try again later")
    if not words:
        return Refusal(problem, "check base_url: it usually ends in /v1")
    if "header" in words.lower():
        return Refusal(problem, "set what it asks for under headers: of this target")
    return Refusal(problem, "check base_url, dialect and model: it says what it does not accept")
