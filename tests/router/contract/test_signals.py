"""How much of a window is kept free for an answer."""

import itertools

import pytest

from router.contract.signals import RESERVE_TOKENS, reserve_tokens


@pytest.mark.parametrize(
    ("window", "limit", "reserve"),
    [(4_096, None, 1_024), (4_096, 20, 20), (4_096, 4_096, 2_048), (16_384, 32_000, 8_000), (200_000, None, 8_000)],
)
def test_the_reserve_is_the_own_limit_or_a_quarter_and_never_more_than_half_the_window_or_8000(window, limit, reserve):
    assert reserve_tokens(window, limit) == reserve


def test_every_window_has_room_for_a_prompt_and_nothing_served_before_is_refused(subtests):
    for limit, window in itertools.product([None, 1, 8_000, 64_000], [256, 1_000, 16_000, 1_000_000]):
        with subtests.test(limit=limit, window=window):
            assert reserve_tokens(window, limit) <= min(RESERVE_TOKENS, window // 2)
            assert reserve_tokens(window, limit, most=0) == 0
