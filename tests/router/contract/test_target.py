"""What an answer costs, and the dialect in which a target gets a request."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from router.contract.target import Price, PriceStep, Quota
from router.contract.usage import Usage
from router.contract.words import Dialect, Tier
from tests.tools.values import make_target, stand

TOKENS = st.integers(min_value=0, max_value=10_000_000)


def test_each_kind_of_token_has_its_own_price():
    price = Price(input=1.0, output=8.0, cached_input=0.1, cache_write=1.25)
    usage = Usage(input_tokens=1_000_000, output_tokens=100_000, cached_tokens=500_000, cache_write_tokens=200_000)

    assert price.cost(usage) == pytest.approx(0.3 * 1.0 + 0.5 * 0.1 + 0.2 * 1.25 + 0.1 * 8.0)


def test_cached_and_written_tokens_cost_as_much_as_others_where_they_have_no_price():
    price = Price(input=2.0, output=0.0)

    assert price.cost(Usage(1_000_000, 0, cached_tokens=400_000, cache_write_tokens=100_000)) == 2.0


def test_a_cached_price_of_zero_is_a_price():
    assert Price(input=2.0, output=0.0, cached_input=0.0).cost(Usage(1_000_000, 0, cached_tokens=1_000_000)) == 0.0


def test_a_provider_that_counts_more_cached_tokens_than_prompt_tokens_makes_nothing_negative():
    assert Price(input=1.0, output=1.0, cached_input=0.0).cost(Usage(10, 0, cached_tokens=20)) == 0.0


def test_a_cost_is_rounded_to_the_hundredth_of_a_millionth():
    assert Price(input=1 / 3, output=0.0).cost(Usage(1, 0)) == 0.00000033


@given(prompt=TOKENS, output=TOKENS, written=TOKENS)
def test_an_answer_and_an_estimate_of_the_same_tokens_cost_the_same(prompt, output, written):
    price = Price(input=1.5, output=7.0, cached_input=0.15, cache_write=1.9)
    usage = Usage(prompt + written, output, cached_tokens=prompt, cache_write_tokens=written)

    estimated = price.cost_of_turn(written_tokens=written, read_tokens=prompt, output_tokens=output)

    assert price.cost(usage) == pytest.approx(estimated, abs=1e-8)


CHAT, RESPONSES, MESSAGES, COMPLETIONS = Dialect.CHAT, Dialect.RESPONSES, Dialect.MESSAGES, Dialect.COMPLETIONS


@pytest.mark.parametrize(
    ("speaks", "asked", "sent"),
    [
        ({CHAT, RESPONSES}, RESPONSES, RESPONSES),
        ({CHAT, RESPONSES}, CHAT, CHAT),
        ({CHAT, RESPONSES}, MESSAGES, CHAT),
        ({MESSAGES}, RESPONSES, MESSAGES),
        ({RESPONSES, MESSAGES}, CHAT, MESSAGES),
        ({CHAT}, COMPLETIONS, COMPLETIONS),
    ],
)
def test_a_target_gets_a_request_in_its_own_dialect_or_else_always_in_the_same_other_one(speaks, asked, sent):
    assert make_target(speaks=frozenset(speaks)).dialect_for(asked) is sent


def test_a_wait_that_is_longer_than_the_config_allows_passes_a_fast_target_over():
    status = stand(make_target(quota=Quota(max_wait_seconds=2.0)))

    assert not status.with_wait(2.0).is_over_max_wait
    over = status.with_wait(8.0, "spark is at its rate limit")
    assert (over.is_over_max_wait, over.closed_seconds, over.wait_because) == (True, 6.0, "spark is at its rate limit")
    back = over.with_wait(0.0)
    assert (back.is_over_max_wait, back.closed_seconds, back.wait_because) == (False, 0.0, "")


def test_a_target_that_asked_to_be_left_alone_is_that_whatever_its_wait():
    status = replace(stand(make_target(quota=Quota(max_wait_seconds=2.0))), closed_seconds=40.0).with_wait(8.0)

    assert (status.is_over_max_wait, status.closed_seconds) == (False, 40.0)


def test_no_wait_at_deep_is_too_long():
    assert not stand(make_target("sage", Tier.DEEP, quota=Quota(max_wait_seconds=2.0))).with_wait(60.0).is_over_max_wait


STEPPED = Price(
    input=2.0,
    output=12.0,
    cached_input=0.2,
    steps=(PriceStep(200_000, 4.0, 18.0), PriceStep(500_000, 8.0, 36.0, cached_input=0.5)),
)


@pytest.mark.parametrize(
    ("prompt_tokens", "price"),
    [
        (200_000, STEPPED),
        (200_001, Price(input=4.0, output=18.0, cached_input=0.4)),
        (500_001, Price(input=8.0, output=36.0, cached_input=0.5)),
    ],
)
def test_a_prompt_that_is_longer_than_a_step_has_its_price(prompt_tokens, price):
    assert STEPPED.at(prompt_tokens) == price


def test_all_tokens_of_a_long_request_cost_the_price_of_its_step_cached_ones_too():
    short, long = Usage(200_000, 1_000, cached_tokens=100_000), Usage(300_000, 1_000, cached_tokens=100_000)

    assert STEPPED.cost(short) == pytest.approx(0.2 + 0.02 + 0.012)
    assert STEPPED.cost(long) == pytest.approx(0.8 + 0.04 + 0.018)
