"""The most that a request may cost at a target."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.contract.errors import NotPermitted
from router.contract.spending import as_units
from router.contract.target import Price, PriceStep
from router.contract.usage import Usage
from router.contract.words import Dialect
from router.limits.bounds import RequestSize, bound_of, bound_of_question, measure
from tests.tools.values import ask, make_signals, make_target, make_view

PRICE = Price(input=2.0, output=10.0)
STEPPED = Price(2.0, 10.0, 0.2, 2.5, steps=(PriceStep(200_000, 4.0, 18.0), PriceStep(400_000, 3.0, 12.0)))


def priced(price: Price | None = PRICE, **more):
    return make_target(price=price, **more)


def size_of(view, tokens: int = 100) -> RequestSize:
    return measure(view, make_signals(tokens=tokens).prompt)


def most(size: RequestSize, target, expected: float = 2_000, added: int = 0) -> int:
    """What an answer of the greatest length may cost."""
    bound = bound_of(size, target, expected, added)
    return bound.units(bound.most_tokens)


def test_the_prompt_is_taken_at_its_price_and_the_answer_at_its_limit():
    assert most(RequestSize(1_000, 500), priced()) == as_units((1_000 * 2 + 500 * 10) / 1e6)


@pytest.mark.parametrize(("expected", "tokens"), [(700, 32_000), (20_000, 60_000)])
def test_without_a_limit_an_answer_may_be_long_and_three_times_as_long_as_expected(expected, tokens):
    assert bound_of(RequestSize(0, None), priced(window_tokens=10**6), expected).most_tokens == tokens


def test_without_a_limit_an_answer_has_the_room_that_the_prompt_leaves():
    assert bound_of(RequestSize(5_000, None), priced(window_tokens=8_000), 1).most_tokens == 3_000


def test_a_limit_that_no_window_holds_counts_as_the_window():
    assert most(RequestSize(0, 10**8), priced(window_tokens=8_000)) == as_units(8_000 * 10 / 1e6)


def test_what_is_written_to_a_cache_may_cost_more_than_input():
    assert most(RequestSize(1_000, 16), priced(Price(2.0, 0.0, 0.2, 2.5))) == as_units(1_000 * 2.5 / 1e6)


def test_a_long_prompt_has_the_dearest_price_that_it_may_reach():
    assert most(RequestSize(450_000, 100), priced(STEPPED, window_tokens=10**6)) == as_units((450_000 * 5.0 + 1_800) / 1e6)


@pytest.mark.parametrize("price", [PRICE, STEPPED, Price(0.0, 8.0, None, 1.0)])
@given(
    prompt=st.integers(0, 600_000),
    limit=st.none() | st.integers(1, 9_000),
    answers=st.integers(1, 8),
    free=st.integers(0, 10**10),
    read=st.floats(0, 1),
    written=st.floats(0, 1),
)
def test_no_answer_within_its_cap_costs_more_than_is_held(price, prompt, limit, answers, free, read, written):
    target, cached = priced(price, window_tokens=10**6), int(prompt * read)
    bound = bound_of(RequestSize(prompt, limit, answers, min(256, limit or 256)), target, 2_000)
    held = bound.choose_units(free)
    cap = bound.tokens(held)

    usage = Usage(prompt, cap * answers, cached, int((prompt - cached) * written))

    assert bound.least_units <= held <= max(free, bound.least_units)
    assert as_units(price.cost(usage)) <= held
    assert cap == bound.most_tokens or held <= max(free // 2, bound.units(6_000), bound.least_units)


def test_of_much_a_request_gets_its_own_limit_and_of_little_half():
    bound = bound_of(RequestSize(0, 30_000), priced(Price(0.0, 10.0)), 100)

    assert bound.tokens(bound.choose_units(as_units(1.0))) == 30_000
    assert bound.tokens(bound.choose_units(as_units(0.2))) == pytest.approx(10_000, abs=1)


def test_an_answer_that_is_likely_to_be_long_gets_more_than_half_and_never_more_than_there_is():
    bound = bound_of(RequestSize(0, 30_000), priced(Price(0.0, 10.0)), 4_000)

    assert bound.tokens(bound.choose_units(as_units(0.2))) == pytest.approx(12_000, abs=1)
    assert bound.tokens(bound.choose_units(as_units(0.1))) == pytest.approx(10_000, abs=1)


def test_the_shortest_useful_answer_is_the_least_that_is_held():
    assert bound_of(RequestSize(0, 30_000), priced(), 1).choose_units(5) == pytest.approx(as_units(256 * 10 / 1e6), abs=1)
    assert size_of(ask(max_tokens=40)).least_tokens == 40


def test_an_answer_with_a_budget_for_thinking_needs_room_for_the_least_of_it():
    body = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 32_000}
    thinking = {"type": "enabled", "budget_tokens": 16_000}

    assert size_of(make_view({**body, "thinking": thinking}, Dialect.MESSAGES)).least_tokens == 1_024 + 256
    assert size_of(make_view({**body, "thinking": {"type": "adaptive"}}, Dialect.MESSAGES)).least_tokens == 256


def test_what_the_config_adds_to_a_prompt_is_paid_too():
    plain, more = (most(RequestSize(100, 16), priced(), 1, added) for added in (0, 1_000))

    assert more - plain == as_units(1_000 * 2 / 1e6)


def test_free_answers_have_no_other_bound_than_their_own():
    bound = bound_of(RequestSize(100, 5_000), priced(Price(0.0, 0.0)), 1)

    assert bound.tokens(bound.choose_units(0)) == 5_000


def test_a_request_is_measured_by_the_upper_end_of_its_estimate_and_its_own_limit():
    assert size_of(ask(max_tokens=321), tokens=77) == RequestSize(77, 321, 1)
    assert size_of(ask(max_tokens=321.0), tokens=77) == RequestSize(77, 321, 1)
    assert size_of(ask()) == RequestSize(100, None, 1)


@pytest.mark.parametrize(
    ("body", "dialect", "answers"),
    [
        ({"messages": [{"role": "user", "content": "a"}], "n": 4}, Dialect.CHAT, 4),
        ({"prompt": ["a", "b", "c"], "n": 2}, Dialect.COMPLETIONS, 6),
        ({"prompt": [[1, 2], [3]]}, Dialect.COMPLETIONS, 2),
        ({"prompt": [1, 2, 3]}, Dialect.COMPLETIONS, 1),
        ({"prompt": "a", "best_of": 5, "n": 2}, Dialect.COMPLETIONS, 5),
    ],
)
def test_every_answer_that_is_asked_for_is_paid(body, dialect, answers):
    size = size_of(make_view({**body, "max_tokens": 50}, dialect))

    assert size.answers == answers
    assert most(size, priced(Price(0.0, 10.0))) == as_units(answers * 50 * 10 / 1e6)


def test_a_file_or_a_history_that_only_the_target_has_may_fill_the_window():
    file = {"type": "file", "file": {"file_id": "file-1"}}
    with_file = ask_parts(file)
    elsewhere = make_view({"input": "go on", "previous_response_id": "resp_elsewhere"}, Dialect.RESPONSES)

    assert size_of(with_file).prompt_tokens is None
    assert size_of(elsewhere).prompt_tokens is None
    assert most(RequestSize(None, 16), priced(Price(1.0, 0.0), window_tokens=50_000)) == as_units(50_000 / 1e6)


def ask_parts(*parts):
    return make_view({"messages": [{"role": "user", "content": [{"type": "text", "text": "look"}, *parts]}]})


def test_a_question_is_bounded_by_its_bytes_and_the_length_of_its_answer():
    assert bound_of_question(priced(), "four", 64) == as_units((4 * 2 + 64 * 10) / 1e6)


def test_a_target_without_a_price_cannot_be_paid():
    with pytest.raises(NotPermitted, match='"spark" has no price'):
        bound_of(RequestSize(1, 1), priced(None), 1)
