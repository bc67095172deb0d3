"""Explains a target's refusal at setup: the fault in its own words, and what to do.

After the router's patterns (`router/dialects/accounts.py`), looser ones cover more hosts: a wrong guess only misnames a
problem.
"""

import re
from urllib.parse import urlsplit

from router.cli.setup.engines import Reached
from router.contract.relay import Endpoint
from router.contract.words import AccountFault
from router.dialects.accounts import read_account_refusal
from router.dialects.error_bodies import read_error
from router.dispatch.keys import guard_for

_MAX_WORDS = 200
_LOOKED_AT_BYTES = 65_536
_PAGE = re.compile(r"<!doctype html|<html", re.IGNORECASE)
_TITLE = re.compile(r"<title[^>]*>(.*?)</title>", re.IGNORECASE | re.DOTALL)
_MASKED = re.compile(r"[\w-]*\*{3,}[\w-]*|[\w-]+(?:…|\.{3,})[\w-]+")
"""A key of which a host shows the ends."""
_LOOSE = (
    (
        AccountFault.CREDIT,
        re.compile(
            r"insufficient (?:quota|balance|credit|funds)|credit balance|out of credit|no credit|more credits|payment required"
            r"|arrearage",
        ),
    ),
    (
        AccountFault.REGION,
        re.compile(
            r"country, region,? or territory|location is not supported"
            r"|not (?:available|supported) in (?:your|this) (?:country|region|location)",
        ),
    ),
    (AccountFault.MODEL, re.compile(r"unknown model|not a valid model|model\b.{0,80}(?:not exist|not found)")),
)
_RETIRED = re.compile(r"decommission|deprecat|retired|sunset|discontinued|no longer (?:available|supported|exists)|end.of.life")
_KEY = re.compile(
    r"api[_ ]key[_ ](?:invalid|not valid|not found|expired)"
    r"|(?:invalid|incorrect|wrong|bad|missing|expired|no) (?:x-)?api[-_ ]?key"
    r"|authentication|unauthorized|unauthenticated|invalid.{0,10}(?:token|credential)",
)
_MAY_BE_ACCOUNT = (400, 401, 403, 404, 422)
_SCOPE = re.compile(r"missing scopes|insufficient permissions for this operation")
_LOGIN = re.compile(r"log-?in|sign-?in|sso|saml|oauth|auth|idp|captive|portal", re.IGNORECASE)


def explain_refusal(status: int, headers: dict[str, str], body: bytes, endpoint: Endpoint) -> Reached:
    host = urlsplit(endpoint.base_url).hostname or "its provider"
    if 300 <= status < 400:
        return _explain_redirect(status, headers.get("location", ""), endpoint)
    words = words_of(body, endpoint)
    if status == 407:
        hint = "set HTTPS_PROXY to http://USER:PASSWORD@host:port, with special characters percent-encoded"
        return Reached(_say("is reached through a proxy that requires a user name and a password (407)", words), hint)
    if is_page(headers, body) and status != 404:
        return _explain_page(status, words, host)
    fault = _find_account_fault(status, body)
    if fault is AccountFault.CREDIT:
        hint = f"add credit, or raise the spending limit, in the console of {host}: the key itself is accepted"
        return Reached(_say(f"has no credit left on this account ({status})", words), hint, is_refused=True)
    if fault is AccountFault.REGION:
        hint = f"use another provider, or reach {host} from a region that it serves (HTTPS_PROXY)"
        return Reached(_say(f"does not serve the region of this machine ({status})", words), hint, is_refused=True)
    if fault is AccountFault.MODEL:
        return _explain_model(status, words, _text_of(body), endpoint)
    if fault is AccountFault.KEY:
        return _explain_key(status, words, endpoint)
    return _explain_rest(status, words)


def words_of(body: bytes, endpoint: Endpoint) -> str:
    """A target's words, or a page's title, on one bounded line without keys and control characters."""
    text = _text_of(guard_for(endpoint.api_key, endpoint.secrets).clean(body[:_LOOKED_AT_BYTES]))
    if _PAGE.search(text[:2_000]):
        title = _TITLE.search(text)
        said = title[1] if title else ""
    else:
        _, said = read_error(text.encode())
        said = "" if said.lstrip()[:1] in ("<", "{", "[") else said
    said = _MASKED.sub("***", "".join(letter if letter.isprintable() else " " for letter in said))
    line = " ".join(said.split())
    return f"{line[:_MAX_WORDS]}…" if len(line) > _MAX_WORDS else line


def is_page(headers: dict[str, str], body: bytes) -> bool:
    return "html" in headers.get("content-type", "") or _PAGE.search(_text_of(body[:2_000])) is not None


def _say(problem: str, words: str) -> str:
    return f"{problem}: {words}" if words else problem


def _text_of(body: bytes) -> str:
    return bytes(body[:_LOOKED_AT_BYTES]).decode("utf-8", "replace")


def _find_account_fault(status: int, body: bytes) -> AccountFault | None:
    """The router's verdict, else that of the words. None if it may pass or the request is at fault."""
    known = read_account_refusal(status, body)
    if known is not None and known.words:
        return known.fault
    said = _text_of(body).lower()
    for fault, pattern in _LOOSE:
        may_be = status in _MAY_BE_ACCOUNT or (status == 429 and fault is AccountFault.CREDIT)
        if may_be and pattern.search(said):
            return fault
    if known is not None:
        return known.fault
    if status == 451:
        return AccountFault.REGION
    if status in (400, 422):
        return AccountFault.MODEL if _RETIRED.search(said) else AccountFault.KEY if _KEY.search(said) else None
    return None


def _explain_redirect(status: int, location: str, endpoint: Endpoint) -> Reached:
    """The key must never follow a redirect to another host."""
    own, other = urlsplit(endpoint.base_url).hostname or "", urlsplit(location)
    problem = f"answers with a redirect ({status})"
    if not other.hostname or other.hostname == own:
        where = location.partition("?")[0].removesuffix("/models")
        is_address = where.startswith(("http://", "https://")) and not _LOGIN.search(other.path)
        hint = f"set base_url to {where}" if is_address else "check base_url: it usually ends in /v1"
        return Reached(f"{problem}, and redirects are not followed", hint)
    kind = "a login page" if _LOGIN.search(f"{other.hostname}{other.path}") else "another host"
    hint = f"sign in to the network or VPN through which {own} is reached, or check base_url; the key was not sent on"
    return Reached(f"{problem} to {kind}, {other.hostname}, which is not followed", hint)


def _explain_page(status: int, title: str, host: str) -> Reached:
    problem = _say(f"answered with a web page ({status})", title)
    if status in (401, 403, 451):
        hint = f"a filter in your network blocks it, so the key is not at fault: ask its administrators to allow {host}"
        return Reached(problem, hint)
    return Reached(problem, "check base_url: it usually ends in /v1; or try again later")


def _explain_model(status: int, words: str, text: str, endpoint: Endpoint) -> Reached:
    if status == 410 or _RETIRED.search(text.lower()):
        problem = f"has retired the model {endpoint.model} ({status})"
        return Reached(_say(problem, words), "set model to one that it still serves")
    problem = f"does not know the model {endpoint.model} or this path ({status})"
    return Reached(_say(problem, words), "set model to a name that its provider knows, and check base_url")


def _explain_key(status: int, words: str, endpoint: Endpoint) -> Reached:
    if _SCOPE.search(words.lower()):
        hint = "if calls fail too, give the key that permission in its provider's console"
        return Reached(_say(f"does not let this key list models ({status})", words), hint)
    key = f"{endpoint.api_key}" if endpoint.api_key is not None else ""
    if not key:
        return Reached(_say(f"requires a key ({status})", words), "set api_key: env:NAME", is_refused=True)
    hint = f"check {key}: it may belong to another provider, be revoked, or lack the permission for this"
    return Reached(_say(f"refused the key ({status})", words), hint, is_refused=True)


def _explain_rest(status: int, words: str) -> Reached:
    problem = _say(f"answered {status}", words)
    if status == 429:
        return Reached(problem, "try again later; if you know its limit, set quota: in its block to stay below it")
    if status >= 500 or status == 408:
        return Reached(problem, "try again later")
    if not words:
        return Reached(problem, "check base_url: it usually ends in /v1")
    if "header" in words.lower():
        return Reached(problem, "set the header that it asks for under headers: of this target")
    return Reached(problem, "check base_url, dialect and model against what it says")
