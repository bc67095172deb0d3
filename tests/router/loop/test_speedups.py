"""What a house does to be fast, on or off as a whole."""

import pytest

from router.loop.speedups import PLAIN, Speedups, is_plain_asked
from router.loop.tasks import spawn, spawn_started


def test_plain_mode_turns_every_speedup_off():
    fast, plain = Speedups(), Speedups(plain=True)
    body = b" " * (1 << 20)

    assert (fast.off_loop.is_large(body), plain.off_loop.is_large(body)) == (True, False)
    assert (fast.start, plain.start) == (spawn_started, spawn)
    assert [fast.gathering.count(in_flight) for in_flight in (1, 2)] == [False, True]
    assert not plain.gathering.count(1_000_000)


@pytest.mark.parametrize(("value", "is_asked"), [(None, False), ("", False), ("0", False), ("1", True), ("yes", True)])
def test_the_environment_can_ask_for_plain_mode(value, is_asked):
    assert is_plain_asked({} if value is None else {PLAIN: value}) is is_asked
