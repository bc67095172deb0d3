"""Errors of failed responses, with codes that typed clients know."""

import json

import pytest
from openai.types.responses import ResponseError

from router.contract.errors import TandemError
from router.dialects.responses.failures import read_error, read_refusal, write_error


def all_codes(kind: type[TandemError] = TandemError) -> set[str]:
    return {kind.code}.union(*map(all_codes, kind.__subclasses__()))


@pytest.mark.parametrize("code", sorted(all_codes() | {"interrupted", "agent_failed", "image_too_large", "server_error", ""}))
def test_any_code_becomes_one_of_openais_list_and_stays_readable(code):
    error = write_error(code, "words")

    ResponseError.model_validate(error)
    assert error.get("reason", error["code"]) == code
    assert error["message"] == "words"


@pytest.mark.parametrize(
    ("told", "becomes"),
    [
        ({"code": "bad_knob"}, {"code": "server_error", "reason": "bad_knob"}),
        ({"code": "bad_knob", "type": "invalid_request_error"}, {"code": "invalid_prompt", "reason": "bad_knob"}),
        ({"code": "tiers_busy"}, {"code": "rate_limit_exceeded", "reason": "tiers_busy"}),
        ({"type": "rate_limit_error"}, {"code": "rate_limit_exceeded", "reason": "rate_limit_error"}),
        ({"code": "invalid_image_url"}, {"code": "invalid_image_url"}),
    ],
)
def test_a_refusal_becomes_the_error_of_a_failed_response(told, becomes):
    body = json.dumps({"error": {"message": "no", **told}}).encode()

    assert read_refusal(body) == {"message": "no", **becomes}


@pytest.mark.parametrize(
    "told", [None, {}, "no", {"code": 500, "message": None}, {"code": "vector_store_timeout", "message": "no"}]
)
def test_the_error_of_a_target_is_whole_whatever_it_leaves_out(told):
    error = read_error(told)

    ResponseError.model_validate(error)
    assert isinstance(error["message"], str)


def test_more_that_a_target_says_of_its_error_is_kept():
    told = {"code": "context_length_exceeded", "message": "no", "param": "input"}

    assert read_error(told) == {**told, "code": "invalid_prompt", "reason": "context_length_exceeded"}
