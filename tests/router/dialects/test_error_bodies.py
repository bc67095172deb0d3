"""The error in a refusal's body, wherever a host puts it."""

import json

import pytest

from router.dialects.error_bodies import read_error

BODIES = {
    "openai": ({"error": {"message": "no", "code": "x"}}, {"message": "no", "code": "x"}, "no"),
    "gemini, in a list": ([{"error": {"message": "no", "code": 400}}], {"message": "no", "code": 400}, "no"),
    "xai, two texts": ({"code": "x", "error": "no"}, {"code": "x", "error": "no"}, "no"),
    "a title and a message": ({"error": "Not Found", "message": "no"}, {"error": "Not Found", "message": "no"}, "no"),
    "mistral, at the top": ({"type": "x", "message": "no"}, {"type": "x", "message": "no"}, "no"),
    "fastapi": ({"detail": [{"msg": "no"}]}, {"detail": [{"msg": "no"}]}, "no"),
    "cloudflare": ({"errors": [{"message": "no"}]}, {"errors": [{"message": "no"}]}, "no"),
    "words outside the error object": ({"error": {"code": 1}, "message": "no"}, {"code": 1}, "no"),
    "a text": ("no", {}, "no"),
    "no words": ({"error": {"message": 7}}, {"message": 7}, ""),
    "an empty list": ([], {}, ""),
}


@pytest.mark.parametrize(("body", "error", "words"), BODIES.values(), ids=BODIES)
def test_the_error_object_and_its_words_are_found_where_hosts_put_them(body, error, words):
    assert read_error(json.dumps(body).encode()) == (error, words)


@pytest.mark.parametrize("body", [b"Loading model", b"{", b"\xff"])
def test_a_body_that_is_not_json_is_all_words(body):
    assert read_error(body) == ({}, body.decode("utf-8", "replace"))


def test_a_body_that_is_too_large_is_not_parsed():
    error, words = read_error(json.dumps({"error": {"message": "x" * 70_000}}).encode())

    assert error == {}
    assert len(words) == 65_536
