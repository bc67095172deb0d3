"""Our own response headers."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as some

from router.contract.facts import AttemptOpened
from router.contract.sinks import Serving, Waiting
from router.contract.words import Tier
from router.dialects.headers import answer_headers, dropped_text, header_text, id_headers, with_both_ids, write_comment
from router.dialects.sse import split_frames
from tests.tools.exchanges import make_decision
from tests.tools.values import make_target

DECISION = make_decision(score=0.25, because="a small edit", decided_by="estimate")


def headers_of(target=None, failed: str = "", explanation: dict | None = None) -> dict[str, str]:
    opened = AttemptOpened(0.0, target or make_target(), failed, ("logit_bias",))
    return dict(answer_headers("req_1", DECISION, opened, 1.234, (), explanation))


def test_a_line_for_a_header_is_plain_and_bounded():
    assert header_text("a\r\nx-evil: 1\tb") == "a x-evil: 1 b"
    assert header_text("größer") == "gr??er"
    assert len(header_text("x" * 1_000)) == 240


def test_an_answer_says_who_serves_it_and_why():
    headers = headers_of()

    assert headers["x-tandem-request-id"] == "req_1"
    assert (headers["x-tandem-tier"], headers["x-tandem-target"]) == ("fast", "spark")
    assert (headers["x-tandem-because"], headers["x-tandem-score"]) == ("a small edit", "0.250")
    assert "x-tandem-explain" not in headers


def test_what_was_dropped_is_named_and_nothing_is_where_nothing_was():
    opened = AttemptOpened(0.0, make_target(), "", ())

    assert headers_of()["x-tandem-dropped"] == "logit_bias"
    assert "x-tandem-dropped" not in dict(answer_headers("req_1", DECISION, opened, 1.2))


@given(some.lists(some.text(max_size=200), min_size=1, max_size=60).map(tuple))
def test_any_names_make_one_short_line_of_ascii_with_commas_between_them_alone(names):
    line = dropped_text(names)

    assert line.isascii()
    assert line.isprintable()
    assert len(line) <= 420
    assert len(line.split(",")) <= len(names)


def test_names_that_do_not_fit_are_counted():
    assert dropped_text(("thinking, together with a tool", "seed")) == "thinking together with a tool, seed"
    assert dropped_text(("x" * 70,) * 9).endswith(f"{'x' * 70}, and 4 more")


def test_a_target_that_takes_over_is_named_with_its_own_tier_and_who_failed_before():
    headers = headers_of(make_target("sage", Tier.DEEP), "spark failed (503)")

    assert headers["x-tandem-tier"] == "deep"
    assert headers["x-tandem-because"] == "spark failed (503), so sage answers: a small edit"


def test_an_explanation_is_ascii_without_the_persons_words_and_short_when_it_must_be():
    short = {"tier": "fast", "score": 1, "because": "größer", "decided_by": "x", "estimates": {}, "flip": {}}

    whole = headers_of(explanation={**short, "person_text": "secret", "more": 1})["x-tandem-explain"]
    cut = headers_of(explanation={**short, "evidence": "x" * 5_000})["x-tandem-explain"]

    assert whole.isascii()
    assert "secret" not in whole
    assert '"more":1' in whole
    assert '"drops":{"spark":["logit_bias"]}' in whole
    assert "evidence" not in cut
    assert '"decided_by":"x"' in cut


def test_an_id_goes_by_our_name_and_by_those_of_the_sdks():
    assert dict(id_headers("req_1")) == dict.fromkeys(("x-tandem-request-id", "x-request-id", "request-id"), "req_1")


@pytest.mark.parametrize(
    ("given", "ids"),
    [
        ((), ("req_1", "req_1")),
        ((("x-request-id", "theirs"),), ("theirs", "theirs")),
        ((("request-id", "theirs"),), ("theirs", "theirs")),
        ((("request-id", "a"), ("x-request-id", "b")), ("b", "a")),
    ],
)
def test_an_answer_has_an_id_by_both_names_that_sdks_read(given, ids):
    headers = dict(with_both_ids((("x-ratelimit-requests", "5"), *given), "req_1"))

    assert (headers["x-request-id"], headers["request-id"]) == ids
    assert headers["x-ratelimit-requests"] == "5"


def test_a_wait_is_told_with_its_position_and_is_never_shorter_than_a_second():
    assert write_comment(Waiting("spark", 3, 7, 4.4)) == b": waiting for spark, position 3 of 7, about 4 s\n\n"
    assert write_comment(Waiting("spark", 1, 1, 0.0)) == b": waiting for spark, position 1 of 1, about 1 s\n\n"


def test_who_serves_is_told_by_our_own_headers_alone():
    comment = write_comment(Serving((("x-tandem-tier", "fast"), ("x-tandem-because", 'it\'s "quick"'), ("date", "today"))))

    assert json.loads(comment.removeprefix(b": tandem.decision ")) == {"tier": "fast", "because": 'it\'s "quick"'}
    assert comment.endswith(b"\n\n")
    assert comment.count(b"\n") == 2


def test_no_reader_of_events_takes_them_for_one():
    comments = write_comment(Waiting("spark", 1, 2, 3.0)) + write_comment(Serving((("x-tandem-tier", "fast"),)))

    assert [frame for frame in split_frames(comments) if frame.data] == []
