"""How long a target asks to be left alone."""

import pytest

from router.dispatch.live.waits import read_retry_after, read_wait

NOW = 1_792_567_668.0
"""Wed, 21 Oct 2026 07:27:48 GMT, by our clock."""
AT, HOST_NOW = "Wed, 21 Oct 2026 07:28:00 GMT", "Wed, 21 Oct 2026 07:27:30 GMT"


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "2"}, 2),
        ({"retry-after": "0.35"}, 0.35),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after": "1m30s"}, 90),
        ({"retry-after": "350ms"}, 0.35),
        ({"x-reset": "6m0s"}, 360),
        ({"x-reset": "1h2m3.5s"}, 3723.5),
        ({"x-reset": "250ms"}, 0.25),
        ({"x-reset": "12.5"}, 12.5),
        ({"x-reset": "2d"}, 86_400),
        ({"x-reset": "soon"}, None),
        ({"retry-after": "1e300"}, None),
        ({"retry-after": "200000"}, 86_400),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "-5", "x-reset": "3s"}, 3),
        ({"retry-after": AT, "date": HOST_NOW}, 30),
        ({"retry-after": AT}, 12),
        ({"retry-after": AT, "date": "today"}, 12),
        ({"retry-after": AT, "date": "Wed, 21 Oct 2026 07:29:00 GMT", "x-reset": "1s"}, 1),
        ({"x-reset": "2026-10-21T07:28:00Z"}, 12),
        ({"x-reset": "2026-10-21T09:28:00+02:00", "date": HOST_NOW}, 30),
        ({"x-reset": "1792567680"}, 12),
        ({"x-reset": "1792567680000"}, 12),
        ({"retry-after": "1792567680", "date": HOST_NOW}, 30),
        ({}, None),
    ],
)
def test_a_wait_is_read_from_the_usual_headers_and_then_from_the_hosts_own(headers, seconds):
    assert read_retry_after(headers, ("x-reset",), now=NOW) == pytest.approx(seconds)


def test_a_wait_that_google_writes_into_the_body_counts_where_no_header_tells_one():
    body = b'[{"error": {"code": 429, "details": [{"@type": "x/google.rpc.RetryInfo", "retryDelay": "34.07s"}]}}]'

    assert read_retry_after({}, body=body) == 34.07
    assert read_retry_after({"retry-after": "2"}, body=body) == 2
    assert read_retry_after({}, body=b'{"error": {"retryDelay": "later"}}') is None


@pytest.mark.parametrize(
    ("words", "seconds"),
    [
        (b"Rate limit reached for m on tokens per min. Please try again in 1.5s. Visit the site", 1.5),
        (b"Please try again in 250ms.", 0.25),
        (b"please Try again in 6m0s", 360),
        (b"Please try again in 20 minutes", None),
        (b"Please try again in 99999999999999d", None),
        (b"Please try again later", None),
    ],
)
def test_a_wait_that_openai_puts_into_words_counts_where_no_header_tells_one(words, seconds):
    assert read_retry_after({}, body=b'{"error": {"message": "%b"}}' % words) == seconds


@pytest.mark.parametrize(
    ("host", "body", "seconds"),
    [
        ("openai", b'{"error": {"message": "Rate limit reached for x. Please try again in 1m26.4s. Visit https://x"}}', 86.4),
        (
            "openrouter",
            b'{"error": {"code": 429, "metadata": {"headers": {"X-RateLimit-Reset": "1792567680000"}}}}',
            12,
        ),
        ("a gateway", b'{"error": {"code": "concurrent_request_limit_exceeded", "retry_after": 10}}', 10),
        ("bedrock", b'{"message": "Too many requests, please wait before trying again."}', None),
        ("deepseek", b'{"error": {"message": "Rate limit reached", "code": "rate_limit_reached_error"}}', None),
        ("together", b'{"error": {"message": "You have reached the rate limit", "type": "rate_limit"}}', None),
    ],
)
def test_a_wait_that_a_host_tells_in_its_words_counts(host, body, seconds):
    assert read_retry_after({}, body=body, now=NOW) == pytest.approx(seconds), host


def test_the_words_of_a_refusal_count_before_the_reset_of_a_window():
    body = b'{"error": {"message": "Please try again in 3s."}}'

    assert read_retry_after({"x-reset": "6m0s"}, ("x-reset",), body) == 3


@pytest.mark.parametrize("text", ["", "never", "9" * 400, "inf", "-1", "2020-01-01T00:00:00Z", "9999-99-99", "\u0661\u0662s"])
def test_what_is_no_time_to_wait_for_is_none(text):
    assert read_wait(text, {}, now=NOW) is None
