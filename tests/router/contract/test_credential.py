"""Whose credential is it: told by its form, and given to its vendor's targets alone."""

import itertools

import pytest

from router.contract.credential import (
    Credential,
    credential_for,
    digest_credential,
    read_callers_key,
    read_credentials,
    say_mismatch,
)
from router.contract.words import Dialect, Vendor
from tests.tools.logins import ACCOUNT, chatgpt_login, chatgpt_token, claude_login
from tests.tools.values import make_target

CLAUDE, CHATGPT = claude_login(), chatgpt_login()
CLAUDE_KEY, OPENAI_KEY = "sk-ant-api03-abc", "sk-proj-abc"


def test_the_callers_key_is_read_from_the_header_that_is_most_explicit(subtests):
    for (headers, key), dialect in itertools.product(
        [
            ({}, ""),
            ({"authorization": "Bearer abc"}, "abc"),
            ({"authorization": "bearer  abc "}, "abc"),
            ({"authorization": "Basic abc"}, ""),
            ({"x-api-key": "def"}, "def"),
            ({"authorization": "Bearer abc", "x-api-key": "def", "x-tandem-upstream-key": "ghi"}, "ghi"),
        ],
        list(Dialect),
    ):
        with subtests.test(headers=headers, key=key, dialect=dialect):
            assert read_callers_key(headers, dialect) == key


@pytest.mark.parametrize(("dialect", "key"), [(Dialect.CHAT, "abc"), (Dialect.RESPONSES, "abc"), (Dialect.MESSAGES, "def")])
def test_of_two_keys_the_one_counts_that_the_dialects_own_api_would_take(dialect, key):
    assert read_callers_key({"authorization": "Bearer abc", "x-api-key": "def"}, dialect) == key


def bearer(text: str) -> dict[str, str]:
    return {"authorization": f"Bearer {text}"}


KINDS = {
    "Claude's login": (CLAUDE, Vendor.ANTHROPIC, True),
    "Claude's key": ({"x-api-key": CLAUDE_KEY}, Vendor.ANTHROPIC, False),
    "OpenAI's key": (bearer(OPENAI_KEY), Vendor.OPENAI, False),
    "OpenAI's older key": (bearer("sk-abcdefghij0123456789T3BlbkFJabcdefghij0123456789"), Vendor.OPENAI, False),
    "ChatGPT's login": (CHATGPT, Vendor.CHATGPT, True),
    "ChatGPT's token without its account": (bearer(chatgpt_token()), Vendor.CHATGPT, True),
    "a token of ChatGPT's issuer": (bearer(chatgpt_token(iss="https://auth.openai.com")), Vendor.CHATGPT, True),
    "an opaque token with an account": ({**bearer("at-123"), "chatgpt-account-id": ACCOUNT}, Vendor.CHATGPT, True),
    "another's token": (bearer(chatgpt_token(iss="https://sso.example.com")), None, False),
    "a key with an account": ({**bearer("sk-123"), "chatgpt-account-id": ACCOUNT}, None, False),
    "a gateway's key": (bearer("sk-1234"), None, False),
    "no JSON in a token": (bearer("eyJhbGciOiJub25lIn0.AAAA.x"), None, False),
    "no object in a token": (bearer("eyJhbGciOiJub25lIn0.WzFd.x"), None, False),
    "no base64 in a token": (bearer("eyJhbGciOiJub25lIn0.A.x"), None, False),
    "a placeholder": (bearer("tandem"), None, False),
}


@pytest.mark.parametrize(("headers", "vendor", "is_login"), KINDS.values(), ids=KINDS)
def test_the_form_of_a_credential_tells_its_vendor(headers, vendor, is_login):
    (found,) = read_credentials(headers, Dialect.RESPONSES)

    assert (found.vendor, found.is_login) == (vendor, is_login)


def test_an_account_without_a_token_is_no_credential():
    assert read_credentials({"chatgpt-account-id": ACCOUNT}, Dialect.RESPONSES) == []


def test_a_credential_prints_without_its_text_and_its_digest_tells_nothing_of_it():
    (found,) = read_credentials(CLAUDE, Dialect.MESSAGES)

    assert found.text not in f"{found} {found!r}"
    assert found.digest == digest_credential(found.text) != digest_credential(f"{found.text}x")
    assert "canary" not in found.digest


ANTHROPIC = make_target(
    takes_callers_key=True, speaks=frozenset({Dialect.MESSAGES}), accepts_keys_of=frozenset({Vendor.ANTHROPIC})
)
OPENAI = make_target(takes_callers_key=True, speaks=frozenset({Dialect.CHAT}), accepts_keys_of=frozenset({Vendor.OPENAI}))
GATEWAY = make_target(takes_callers_key=True, speaks=frozenset({Dialect.CHAT}))
CLAUDE_PLAN = make_target(
    takes_callers_key=True, speaks=frozenset({Dialect.MESSAGES}), accepts_keys_of=frozenset({Vendor.ANTHROPIC}), is_plan=True
)
CHATGPT_PLAN = make_target(
    takes_callers_key=True, speaks=frozenset({Dialect.RESPONSES}), accepts_keys_of=frozenset({Vendor.CHATGPT}), is_plan=True
)
TARGETS = {"anthropic": ANTHROPIC, "openai": OPENAI, "gateway": GATEWAY, "claude": CLAUDE_PLAN, "chatgpt": CHATGPT_PLAN}
TAKERS = {
    "Claude's login": (CLAUDE, Dialect.MESSAGES, {"anthropic", "claude"}),
    "Claude's login in another dialect": (CLAUDE, Dialect.CHAT, {"anthropic"}),
    "Claude's key": (bearer(CLAUDE_KEY), Dialect.MESSAGES, {"anthropic"}),
    "OpenAI's key in Claude Code": (bearer(OPENAI_KEY), Dialect.MESSAGES, {"openai"}),
    "ChatGPT's login": (CHATGPT, Dialect.RESPONSES, {"chatgpt"}),
    "ChatGPT's login in another dialect": (CHATGPT, Dialect.CHAT, set()),
    "a key of no known kind, in chat": (bearer("my-key"), Dialect.CHAT, {"openai", "gateway"}),
    "a key of no known kind, in Responses": (bearer("my-key"), Dialect.RESPONSES, {"openai", "gateway"}),
    "a key of no known kind, in Messages": (bearer("my-key"), Dialect.MESSAGES, {"anthropic"}),
    "a key of no known kind, in the header for it": (
        {"x-tandem-upstream-key": "my-key"},
        Dialect.MESSAGES,
        {"anthropic", "openai", "gateway"},
    ),
    "nothing": ({}, Dialect.CHAT, set()),
}


@pytest.mark.parametrize(("headers", "dialect", "takers"), TAKERS.values(), ids=TAKERS)
def test_a_credential_goes_to_targets_of_its_vendor_alone(headers, dialect, takers):
    assert {name for name, target in TARGETS.items() if credential_for(target, headers, dialect)} == takers


def test_of_two_kinds_at_once_each_target_gets_its_own():
    both = {**CHATGPT, "x-api-key": CLAUDE_KEY, "x-tandem-upstream-key": OPENAI_KEY}

    given = {name: credential_for(target, both, Dialect.RESPONSES) for name, target in TARGETS.items()}

    assert given == {
        "anthropic": Credential(CLAUDE_KEY, Vendor.ANTHROPIC),
        "openai": Credential(OPENAI_KEY, Vendor.OPENAI),
        "gateway": None,
        "claude": None,
        "chatgpt": Credential(chatgpt_token(), Vendor.CHATGPT, is_login=True),
    }


def test_a_placeholder_next_to_a_known_key_goes_nowhere():
    headers = {"x-tandem-upstream-key": CLAUDE_KEY, "authorization": "Bearer tandem"}

    assert credential_for(OPENAI, headers, Dialect.CHAT) is None


def test_a_mismatch_names_the_vendors_and_never_the_credential():
    said = say_mismatch(CLAUDE_PLAN, {**CHATGPT, "x-api-key": "my-key"}, Dialect.MESSAGES)

    assert said == (
        "spark takes logins of a plan of Anthropic only, and this request has a key of an unknown kind and a login of ChatGPT"
    )
    assert say_mismatch(CHATGPT_PLAN, CHATGPT, Dialect.CHAT) == (
        "spark is a plan of ChatGPT, which is only for clients that speak responses"
    )
    assert say_mismatch(GATEWAY, CLAUDE, Dialect.CHAT) == (
        "spark takes keys of its own gateway only, and this request has a login of Anthropic"
    )
    assert say_mismatch(CLAUDE_PLAN, {}, Dialect.MESSAGES) == say_mismatch(OPENAI, bearer("my-key"), Dialect.CHAT) == ""
