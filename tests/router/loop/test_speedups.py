"""What a house does to be fast, on or off as a whole."""

from router.loop.speedups import Speedups


def test_requests_take_their_steps_together_from_the_second_one_on_and_in_plain_mode_never():
    assert Speedups().gathers_from == 2
    assert Speedups(plain=True).gathers_from > 1_000_000
