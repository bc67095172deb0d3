import json

from router.contract.sinks import Serving, Waiting
from router.dialects.queued import write_comment
from router.dialects.sse import split_frames


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
