"""What a target's refusal means, by what real hosts send: their words, and the right thing to do."""

import json

import pytest

from router.cli.setup.refusals import explain_refusal, words_of
from router.contract.relay import Endpoint, ExtraField
from router.contract.secret import Secret

KEY = "sk-canary-0123456789"
JSON, HTML = {"content-type": "application/json"}, {"content-type": "text/html; charset=utf-8"}


def endpoint_of(key=KEY, **more):
    return Endpoint("some-model", "https://api.example.com/v1", Secret(key) if key else None, **more)


def explain(status, body, headers=JSON, **more):
    written = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    return explain_refusal(status, headers, written, endpoint_of(**more))


def error(message, **more):
    return {"error": {"message": message, **more}}


QUOTA = error("You exceeded your current quota, please check your plan and billing details.", code="insufficient_quota")
GEMINI_KEY = [
    {"error": {"code": 400, "message": "API key not valid. Please pass a valid API key.", "status": "INVALID_ARGUMENT"}}
]
GEMINI_LIMIT = error(
    "You exceeded your current quota, please check your plan and billing details. Please retry in 7.3s.",
    status="RESOURCE_EXHAUSTED",
)
XAI_KEY = {
    "code": "Client specified an invalid argument",
    "error": "Incorrect API key provided: sk***89. Get one at console.x.ai.",
}
REGION = error("Country, region, or territory not supported", code="unsupported_country_region_territory")
GROQ_RETIRED = error("The model `some-model` has been decommissioned and is no longer supported.", code="model_decommissioned")


def test_a_refusal_is_told_in_the_hosts_words_with_what_to_do(subtests):
    for status, body, problem, hint, is_refused in [
        (429, QUOTA, "has no credit left on this account (429): You exceeded your current quota", "add credit", True),
        (
            400,
            error("Your credit balance is too low to access the API."),
            "has no credit left on this account (400)",
            "console",
            True,
        ),
        (
            402,
            error("Insufficient Balance"),
            "has no credit left on this account (402): Insufficient Balance",
            "add credit",
            True,
        ),
        (429, GEMINI_LIMIT, "answered 429: You exceeded your current quota", "try again later", False),
        (
            403,
            REGION,
            "does not serve the region of this machine (403): Country, region, or territory",
            "another provider",
            True,
        ),
        (400, error("User location is not supported for the API use."), "does not serve the region", "another provider", True),
        (400, GEMINI_KEY, "refused the key (400): API key not valid. Please pass a valid API key.", "check ***", True),
        (400, XAI_KEY, "refused the key (400): Incorrect API key provided: ***.", "revoked", True),
        (401, error("invalid x-api-key"), "refused the key (401): invalid x-api-key", "revoked", True),
        (403, {}, "refused the key (403)", "revoked", True),
        (400, GROQ_RETIRED, "has retired the model some-model (400): The model `some-model` has been", "still serves", False),
        (403, error("No access.", code="model_not_found"), "does not know the model some-model", "set model", False),
        (429, error("You need more credits to go on."), "has no credit left on this account (429)", "add credit", True),
        (400, error("Access denied: Arrearage"), "has no credit left on this account (400)", "add credit", True),
        (451, {}, "does not serve the region of this machine (451)", "another provider", True),
        (400, error("Missing API key in the request"), "refused the key (400): Missing API key", "revoked", True),
        (410, error("Gone"), "has retired the model some-model (410): Gone", "set model", False),
        (404, error("The model `some-model` does not exist"), "does not know the model some-model", "set model", False),
        (407, "", "is reached through a proxy that requires a user name and a password (407)", "HTTPS_PROXY", False),
        (
            400,
            {"status": "failure", "message": "Either x-portkey-config or x-portkey-provider header is required"},
            "answered 400: Either x-portkey-config or x-portkey-provider header is required",
            "headers:",
            False,
        ),
        (400, error("max_tokens is too large"), "answered 400: max_tokens is too large", "check base_url", False),
        (503, error("Service overloaded"), "answered 503: Service overloaded", "try again later", False),
        (500, "", "answered 500", "try again later", False),
    ]:
        with subtests.test(status=status, body=body, problem=problem, hint=hint, is_refused=is_refused):
            refusal = explain(status, body)

            assert problem in refusal.problem
            assert hint in refusal.hint
            assert refusal.is_refused is is_refused


def test_a_page_of_a_companys_filter_is_not_blamed_on_the_key():
    refusal = explain(403, "<html><head><title>Access\nblocked by Example Corp</title></head></html>", HTML)

    assert refusal.problem == "answered with a web page (403): Access blocked by Example Corp"
    assert "allow api.example.com" in refusal.hint
    assert "the key is not at fault" in refusal.hint


@pytest.mark.parametrize(
    ("location", "problem"),
    [
        ("https://login.example.com/sso?next=/v1/models", "to a login page, login.example.com"),
        ("https://elsewhere.example.org/v1/models", "to another host, elsewhere.example.org"),
    ],
)
def test_nobody_is_told_to_send_the_key_where_a_redirect_points(location, problem):
    refusal = explain(302, "", {"location": location})

    assert problem in refusal.problem
    assert "set base_url to" not in refusal.hint
    assert "example.org" not in refusal.hint
    assert "login.example.com" not in refusal.hint


def test_a_redirect_on_the_same_host_says_the_right_address():
    refusal = explain(308, "", {"location": "https://api.example.com/api/v1/models?x=1"})

    assert refusal.hint == "set base_url to https://api.example.com/api/v1"


def test_a_key_that_may_only_call_is_not_a_wrong_key():
    refusal = explain(403, error("You have insufficient permissions for this operation. Missing scopes: api.model.read"))

    assert "does not let this key list models (403)" in refusal.problem
    assert not refusal.is_refused


def test_a_target_without_a_key_is_told_to_have_one():
    refusal = explain(401, {}, key="")

    assert (refusal.problem, refusal.hint) == ("requires a key (401)", "set api_key: env:NAME")


def test_words_are_one_bounded_line_without_keys_and_control_characters():
    endpoint = endpoint_of(headers=(ExtraField("x-gateway", "", Secret("gateway-canary")),))
    body = json.dumps(error(f"bad\x1b[31m key {KEY}\nand gateway-canary and sk-proj-****abcd " + "x" * 500)).encode()

    words = words_of(body, endpoint)

    assert words.startswith("bad [31m key *** and *** and *** xxx")
    assert words.isprintable()
    assert len(words) <= 201
    assert "canary" not in words
    assert "abcd" not in words


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"error": null}', b'{"error": {"message": 7}}'])
def test_a_body_that_says_nothing_has_no_words(body):
    assert words_of(body, endpoint_of()).strip("\ufffd") == ""
