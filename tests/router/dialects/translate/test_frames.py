"""Frames out of bytes that are cut anywhere."""

import itertools

import pytest

from router.dialects.translate.frames import MAX_FRAME_BYTES, FrameSplitter
from tests.tools.work import cost_ratio


def test_frames_are_the_same_however_the_bytes_are_cut_and_lines_end(subtests):
    for size, line_end in itertools.product([1, 2, 3, 7, 100], [b"\n", b"\r\n", b"\r"]):
        with subtests.test(size=size, line_end=line_end):
            data = b": hello\n\ndata: one\n\nevent: x\ndata: two\ndata: three\n\n\ndata:four\n\ndata: five".replace(
                b"\n", line_end
            )
            frames = FrameSplitter()

            found = [frame for start in range(0, len(data), size) for frame in frames.feed(data[start : start + size])]

            assert [*found, *frames.flush()] == [b"one", b"two\nthree", b"four", b"five"]


def in_small_pieces(count: int) -> None:
    frames = FrameSplitter()
    for _ in range(count):
        assert not list(frames.feed(b"x" * 64))
    assert len(next(frames.feed(b"\ndata: y\n\n"))) == 1


def test_a_frame_in_small_pieces_costs_no_more_than_its_length():
    assert cost_ratio(lambda: in_small_pieces(32_000), lambda: in_small_pieces(4_000)) < 24


def test_a_frame_without_end_is_refused():
    frames = FrameSplitter()
    list(frames.feed(b"x" * MAX_FRAME_BYTES))

    with pytest.raises(ValueError, match="unfinished frame"):
        list(frames.feed(b"x"))
