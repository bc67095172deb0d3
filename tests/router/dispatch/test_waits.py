"""How long a target asks to be left alone."""

import pytest

from router.dispatch.waits import read_retry_after


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "2"}, 2),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"x-reset": "6m0s"}, 360),
        ({"x-reset": "1h2m3.5s"}, 3723.5),
        ({"x-reset": "250ms"}, 0.25),
        ({"x-reset": "12.5"}, 12.5),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT", "x-reset": "1s"}, 1),
        ({"x-reset": "soon"}, None),
        ({"retry-after": "1e9"}, None),
        ({"retry-after": "200000"}, 86_400),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT", "date": "Wed, 21 Oct 2026 07:27:48 GMT"}, 12),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT", "date": "Wed, 21 Oct 2026 07:29:00 GMT", "x-reset": "1s"}, 1),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT", "date": "today"}, None),
        ({}, None),
    ],
)
def test_a_wait_is_read_from_the_usual_headers_and_then_from_the_hosts_own(headers, seconds):
    assert read_retry_after(headers, ("x-reset",)) == seconds
