"""What a target's refusal means."""

import pytest

from router.contract.errors import UpstreamAuth, UpstreamLoading, UpstreamMalformed, UpstreamModel, UpstreamRefused
from router.dispatch.refused import read_refusal
from tests.tools.scripted import reach
from tests.tools.values import make_target

SPARK = reach(make_target(), key="sk-canary-123456")


@pytest.mark.parametrize(
    ("status", "kind", "words"),
    [
        (302, UpstreamMalformed, "a redirect"),
        (401, UpstreamAuth, "rejected the configured API key (401)"),
        (402, UpstreamAuth, "its account has no credit (402)"),
        (403, UpstreamAuth, "(403)"),
        (404, UpstreamModel, "does not know the configured model"),
    ],
)
def test_what_only_the_operator_can_mend_is_told_in_our_words_and_never_in_the_targets(status, kind, words):
    error = read_refusal(SPARK, status, (("content-type", "text/plain"),), b"the upstream's own words")

    assert type(error) is kind
    assert words in error.message
    assert "own words" not in error.message


@pytest.mark.parametrize("status", [400, 413, 422, 429, 500, 503, 529])
def test_any_other_status_keeps_the_targets_own_body_without_its_key(status):
    error = read_refusal(SPARK, status, (("content-type", "text/plain"),), b"no sk-canary-123456 here")

    assert isinstance(error, UpstreamRefused)
    assert (error.status, error.body, error.content_type) == (status, b"no *** here", "text/plain")


def test_the_wait_that_a_target_asks_for_is_read():
    assert read_refusal(SPARK, 429, (("retry-after", "7"),), b"").retry_after_seconds == 7
    assert read_refusal(SPARK, 503, (), b"").retry_after_seconds is None


@pytest.mark.parametrize(
    ("status", "headers", "body", "seconds"),
    [
        (429, (("x-ratelimit-remaining-requests-day", "0"), ("x-ratelimit-reset-requests-day", "33")), b"", 33),
        (429, (("x-ratelimit-remaining-requests", "5"), ("x-ratelimit-reset-requests", "33")), b"", None),
        (429, (("x-tokenlimit-remaining", "0"), ("x-tokenlimit-reset", "4s"), ("retry-after", "2")), b"", 2),
        (429, (), b'{"error": {"details": [{"retryDelay": "12s"}]}}', 12),
        (500, (("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "33")), b"", None),
    ],
)
def test_a_refusal_for_a_limit_takes_its_wait_from_where_the_host_tells_it(status, headers, body, seconds):
    assert read_refusal(SPARK, status, headers, body).retry_after_seconds == seconds


def test_a_model_that_is_being_loaded_is_a_state_of_its_own_only_with_a_503():
    body = b'{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}'

    loading = read_refusal(SPARK, 503, (), body)
    later = read_refusal(SPARK, 503, (("retry-after", "9"),), body)

    assert isinstance(loading, UpstreamLoading)
    assert (loading.words, loading.status, loading.retry_after_seconds) == ("Loading model", 503, 2.0)
    assert later.retry_after_seconds == 9.0
    assert isinstance(read_refusal(SPARK, 500, (), body), UpstreamRefused)
