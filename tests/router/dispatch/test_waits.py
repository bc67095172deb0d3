"""How long a target asks to be left alone."""

import pytest

from router.dispatch.waits import read_retry_after, read_wait

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


@pytest.mark.parametrize("text", ["", "never", "9" * 400, "inf", "-1", "2020-01-01T00:00:00Z", "9999-99-99", "\u0661\u0662s"])
def test_what_is_no_time_to_wait_for_is_none(text):
    assert read_wait(text, {}, now=NOW) is None
