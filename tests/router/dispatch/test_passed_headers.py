"""Which of a target's headers a caller may see."""

from router.dispatch.keys import KeyGuard
from router.dispatch.passed_headers import passed_headers, stream_headers, without_type


def test_no_more_of_a_targets_headers_pass_than_a_client_can_take():
    limits = tuple((f"x-ratelimit-{number}", "9") for number in range(190))
    long = (("x-ratelimit-long", "x" * 60_000), ("x-ratelimit-requests", "5"))

    many = passed_headers((*limits, ("x-request-id", "r1")), "req_1")
    ids = ("x-request-id", "r1"), ("request-id", "r1")
    assert set(ids) < set(many)
    assert len(many) == 41
    assert passed_headers((*long, ids[0]), "req_1") == (*ids, ("x-ratelimit-requests", "5"))
    assert passed_headers(limits[:20], "req_1") == (*limits[:20], ("x-request-id", "req_1"), ("request-id", "req_1"))


def test_what_names_the_target_or_frames_its_body_stays_here():
    told = (("openai-model", "secret"), ("set-cookie", "a=b"), ("x-request-id", "r1"), ("retry-after", "3"), ("server", "x"))

    assert passed_headers(told, "req_1") == (("x-request-id", "r1"), ("request-id", "r1"), ("retry-after", "3"))
    assert without_type((("content-type", "a"), ("content-length", "3"), ("x-request-id", "r1"))) == (("x-request-id", "r1"),)


def test_the_targets_key_never_leaves_in_a_header():
    guard = KeyGuard("sk-canary-123456")

    passed = passed_headers((("x-request-id", "of sk-canary-123456"),), "req_1", guard)

    assert passed == (("x-request-id", "of ***"), ("request-id", "of ***"))


def test_a_stream_has_a_type_of_our_own_and_is_not_to_be_kept_on_its_way():
    headers = dict(stream_headers((("content-type", "text/x"), ("x-request-id", "r1")), "req_1", KeyGuard("sk-canary-123456")))

    assert headers["content-type"] == "text/event-stream; charset=utf-8"
    assert (headers["cache-control"], headers["x-accel-buffering"], headers["x-request-id"]) == ("no-cache", "no", "r1")
