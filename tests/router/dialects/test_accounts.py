"""Refusals for which only the operator can do something, in the words in which hosts send them."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as some

from router.contract.words import AccountFault
from router.dialects.accounts import read_account_refusal

KEY, CREDIT, REGION, MODEL = AccountFault.KEY, AccountFault.CREDIT, AccountFault.REGION, AccountFault.MODEL
NO_CREDIT = "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade."
BAD_KEY = "API key not valid. Please pass a valid API key."
GOOGLES = [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID", "domain": "googleapis.com"}]
REGION_WORDS = "User location is not supported for the API use."
XAI_WORDS = "Incorrect API key provided: xa***yz. You can obtain an API key from https://console.x.ai."
RETIRED = "The model `llama3-8b-8192` has been decommissioned and is no longer supported."
HOSTS = {
    "anthropic, no credit": (400, {"error": {"type": "invalid_request_error", "message": NO_CREDIT}}, CREDIT, NO_CREDIT),
    "gemini, key": (
        400,
        [{"error": {"code": 400, "message": "Bad.", "status": "INVALID_ARGUMENT", "details": GOOGLES}}],
        KEY,
        "Bad.",
    ),
    "gemini, key without details": (400, {"error": {"code": 400, "message": BAD_KEY}}, KEY, BAD_KEY),
    "gemini, region": (
        400,
        {"error": {"code": 400, "message": REGION_WORDS, "status": "FAILED_PRECONDITION"}},
        REGION,
        REGION_WORDS,
    ),
    "xai, key": (400, {"code": "Client specified an invalid argument", "error": XAI_WORDS}, KEY, XAI_WORDS),
    "xai, key as in a url": (400, {"error": XAI_WORDS.replace(" ", "%20")}, KEY, XAI_WORDS),
    "groq, retired": (400, {"error": {"message": RETIRED, "code": "model_decommissioned"}}, MODEL, RETIRED),
    "groq, retired, by its words": (400, {"error": {"message": RETIRED}}, MODEL, RETIRED),
    "mistral, unknown": (400, {"type": "invalid_model", "message": "Invalid model: x", "code": "1500"}, MODEL, "Invalid model: x"),
    "openrouter, unknown": (400, {"error": {"message": "a/b-1 is not a valid model ID", "code": 400}}, MODEL, "a/b-1 is not a valid model ID"),
    "openai, quota": (429, {"error": {"message": "Quota.", "type": "insufficient_quota", "code": "insufficient_quota"}}, CREDIT, "Quota."),
    "openai, region": (403, {"error": {"message": "No.", "code": "unsupported_country_region_territory"}}, REGION, "No."),
    "openai, model": (403, {"error": {"message": "No access.", "code": "model_not_found"}}, MODEL, "No access."),
    "gone": (410, {"error": {"message": "gone"}}, MODEL, ""),
    "no words": (401, {}, KEY, ""),
    "credit by status": (402, {}, CREDIT, ""),
}  # fmt: skip


@pytest.mark.parametrize(("status", "body", "fault", "words"), HOSTS.values(), ids=HOSTS)
def test_an_account_that_serves_nobody_is_known_by_what_its_host_says(status, body, fault, words):
    assert read_account_refusal(status, json.dumps(body).encode()) == (fault, words)


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, {"error": {"message": "messages[0].content: unknown type", "code": "invalid_value"}}),
        (400, {"error": {"message": "prompt is too long: 9 tokens > 8 maximum", "type": "invalid_request_error"}}),
        (429, {"error": {"message": "You exceeded your current quota, try again in 9s", "status": "RESOURCE_EXHAUSTED"}}),
        (500, {"error": {"code": "insufficient_quota"}}),
        (400, "Your credit balance is too low"),
        (400, [3]),
        (422, {"error": {"code": {"API_KEY_INVALID": 1}}}),
    ],
)
def test_what_is_wrong_with_a_request_or_passes_by_itself_is_not_the_accounts_fault(status, body):
    assert read_account_refusal(status, json.dumps(body).encode()) is None


@pytest.mark.parametrize("body", [b"", b"<html>", b"\xff", b'{"error": {"message": "' + b"x" * 70_000])
def test_a_body_that_cannot_be_read_blames_nobody(body):
    assert read_account_refusal(400, body) is None


@given(
    before=some.sampled_from(["Invalid value: ", "messages[1]: ", '"', "x "]),
    quoted=some.sampled_from([NO_CREDIT, BAD_KEY, REGION_WORDS, XAI_WORDS, RETIRED, "insufficient_quota", "API_KEY_INVALID"]),
)
def test_the_words_of_a_person_that_a_refusal_quotes_do_not_count(before, quoted):
    error = {"message": before + quoted, "param": quoted, "code": "invalid_value", "input": {"code": quoted}}

    assert read_account_refusal(400, json.dumps({"error": error}).encode()) is None


def test_no_more_of_the_words_is_kept_than_an_operator_reads():
    found = read_account_refusal(400, json.dumps({"error": {"message": NO_CREDIT + "x" * 900}}).encode())

    assert len(found.words) == 300
