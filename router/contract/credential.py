"""Whose credential a request brings: told by its form, never by asking. A target gets one of its own vendor or none.

A credential is passed on with the request that brought it and kept nowhere. What is remembered for one is kept by its digest.
"""

import re
from base64 import urlsafe_b64decode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b

import orjson

from router.contract.secret import UPSTREAM_KEY
from router.contract.target import Target
from router.contract.words import Dialect, Vendor

ACCOUNT = "chatgpt-account-id"
"""The account of a ChatGPT login. Says nothing without a token."""
WRITTEN_HERE = ":written-here"
"""Among the headers of a request that the router wrote itself. No client can send a header of that name."""
_ANTHROPIC_LOGIN, _ANTHROPIC_KEY = "sk-ant-oat", "sk-ant-"
_OPENAI_KEY = re.compile(r"sk-(?:proj|svcacct|admin|None)-|sk-[A-Za-z0-9]{20}T3BlbkFJ")
_KEY = "sk-"
_TOKEN = re.compile(r"eyJ[\w-]{1,2000}\.([\w-]{2,12000})\.[\w-]{0,4000}", re.ASCII)
_CLAIM, _ISSUER = "https://api.openai.com/auth", "https://auth.openai.com"
_DIGEST_BYTES = 12


@dataclass(frozen=True, slots=True)
class Credential:
    """A key or login. Prints without its text."""

    text: str = field(repr=False)
    vendor: Vendor | None = None
    """None if its form does not tell."""
    is_login: bool = False
    """Whether it is the login of a plan instead of an API key."""

    @property
    def digest(self) -> str:
        return digest_credential(self.text)


def digest_credential(text: str) -> str:
    """Names a credential in memory and in files. It cannot be read back."""
    return blake2b(text.encode("utf-8", "replace"), digest_size=_DIGEST_BYTES, person=b"tandem.caller").hexdigest()


def read_credentials(headers: Mapping[str, str], dialect: Dialect) -> list[Credential]:
    """The credentials of a request, preferred first: the dedicated header, then what the client sends anyway.

    Of two, first the one that the dialect's API calls the key: next to `x-api-key`, a bearer is a gateway's token.
    """
    scheme, _, token = headers.get("authorization", "").strip().partition(" ")
    bearer = token.strip() if scheme.lower() == "bearer" else ""
    key = headers.get("x-api-key", "").strip()
    sent = (key, bearer) if dialect is Dialect.MESSAGES else (bearer, key)
    texts = dict.fromkeys((headers.get(UPSTREAM_KEY, "").strip(), *sent))
    return [_recognise(text, has_account=text == bearer and bool(headers.get(ACCOUNT))) for text in texts if text]


def read_callers_key(headers: Mapping[str, str], dialect: Dialect) -> str:
    """The preferred credential of a request; empty for none."""
    found = read_credentials(headers, dialect)
    return found[0].text if found else ""


def credential_for(target: Target, headers: Mapping[str, str], dialect: Dialect) -> Credential | None:
    """The credential that a target may get of a request; None for none. Only for targets that take callers' keys.

    A plan takes logins of its vendor, for requests in its own dialect. Another target takes any credential of its vendors. One
    whose vendor cannot be told goes to targets of the vendor whose dialect the request has or, if a person put it into the
    dedicated header, to every target but plans.
    """
    found = read_credentials(headers, dialect)
    if target.is_plan:
        if dialect not in target.speaks or WRITTEN_HERE in headers:
            return None
        return next((known for known in found if known.is_login and known.vendor in target.accepts_keys_of), None)
    own = next((known for known in found if known.vendor in target.accepts_keys_of), None)
    if own is not None or not found or found[0].vendor is not None:
        return own
    is_meant = bool(headers.get(UPSTREAM_KEY, "").strip()) or any(_is_kin(dialect, spoken) for spoken in target.speaks)
    return found[0] if is_meant else None


def has_plan(targets: Iterable[Target], headers: Mapping[str, str], dialect: Dialect) -> bool:
    """Whether one of these targets is a plan that the request's own login pays for."""
    return any(target.is_plan and credential_for(target, headers, dialect) is not None for target in targets)


def say_mismatch(target: Target, headers: Mapping[str, str], dialect: Dialect) -> str:
    """Why a target gets none of a request's credentials; empty if it gets one, or if there are none."""
    found = read_credentials(headers, dialect)
    if not found or credential_for(target, headers, dialect) is not None:
        return ""
    takes = " or ".join(sorted(vendor.label for vendor in target.accepts_keys_of)) or "its own gateway"
    if target.is_plan and WRITTEN_HERE in headers:
        return f"{target.name} is a plan of {takes}, which gets only what its client sent, and the router wrote this request"
    if target.is_plan and dialect not in target.speaks:
        return f"{target.name} is a plan of {takes}, which is only for clients that speak {', '.join(sorted(target.speaks))}"
    what = "logins of a plan" if target.is_plan else "keys"
    brought = " and ".join(dict.fromkeys(map(_describe, found)))
    return f"{target.name} takes {what} of {takes} only, and this request has {brought}"


def _describe(known: Credential) -> str:
    if known.vendor is None:
        return "a key of an unknown kind"
    return f"{'a login' if known.is_login else 'a key'} of {known.vendor.label}"


def _is_kin(dialect: Dialect, other: Dialect) -> bool:
    """Whether two dialects are one vendor's: Messages is Anthropic's, the others are OpenAI's."""
    return (dialect is Dialect.MESSAGES) == (other is Dialect.MESSAGES)


def _recognise(text: str, *, has_account: bool) -> Credential:
    if text.startswith(_ANTHROPIC_KEY):
        return Credential(text, Vendor.ANTHROPIC, text.startswith(_ANTHROPIC_LOGIN))
    if _OPENAI_KEY.match(text):
        return Credential(text, Vendor.OPENAI)
    if (has_account and not text.startswith(_KEY)) or _is_chatgpt_token(text):
        return Credential(text, Vendor.CHATGPT, is_login=True)
    return Credential(text)


def _is_chatgpt_token(text: str) -> bool:
    """Whether a JWT says that it is one of ChatGPT. Gateways have tokens of that form, too."""
    if (found := _TOKEN.fullmatch(text)) is None:
        return False
    try:
        claims = orjson.loads(urlsafe_b64decode(found[1] + "=" * (-len(found[1]) % 4)))
    except ValueError:
        return False
    return isinstance(claims, dict) and (_CLAIM in claims or claims.get("iss") == _ISSUER)
