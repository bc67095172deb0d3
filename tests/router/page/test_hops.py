"""What a change of tier cost."""

from msgspec.structs import replace

from router.contract.past import PageRow
from router.contract.target import Price
from router.page.hops import cost_of_hop, wait_of_hop
from tests.tools.kept import LINE


def row(number, tier, before=None, **more):
    return PageRow(number, replace(LINE, tier=tier, target=f"{tier}-1", **more), None, None, before)


ROWS = [
    row(1, "fast", input_tokens=8_900, output_tokens=100),
    row(2, "deep", "fast", input_tokens=10_000, cached_tokens=1_000, ttft_ms=5_000.0),
    row(3, "deep", "deep", ttft_ms=2_000.0),
]
PRICES = {"deep-1": Price(input=2.0, output=8.0, cached_input=0.5)}


def test_a_hop_costs_what_the_cold_part_of_the_prompt_before_costs_more_than_cached():
    assert cost_of_hop(ROWS, 1, PRICES.get) == 8_000 * 1.5 / 1_000_000


def test_a_hop_takes_as_much_longer_as_its_first_token_was_late():
    assert wait_of_hop(ROWS, 1) == 3.0


def test_what_cannot_be_known_of_a_hop_is_none():
    assert cost_of_hop(ROWS, 1, {}.get) is None
    assert cost_of_hop(ROWS[1:], 0, PRICES.get) is None
    assert cost_of_hop([row(1, "fast", input_tokens=None), ROWS[1]], 1, PRICES.get) is None
    assert wait_of_hop(ROWS[:2], 1) is None
