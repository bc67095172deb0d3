"""What a dialect's object works out from its fields."""

import pytest

from router.contract.words import Dialect
from router.dialects.table import SPECS
from tests.tools.values import make_view

LIMITS = [(dialect, name) for dialect, spec in SPECS.items() for name in spec.limit_fields]


@pytest.mark.parametrize(("dialect", "name"), LIMITS)
@pytest.mark.parametrize(("value", "limit"), [(7, 7), (0, None), (-4, None), ("7", None), (True, None), (None, None)])
def test_only_a_positive_number_is_a_limit(dialect, name, value, limit):
    assert SPECS[dialect].read_limit({name: value}) == limit


def test_the_newer_name_of_a_limit_counts_before_the_older():
    chat = SPECS[Dialect.CHAT]

    assert chat.read_limit({"max_tokens": 7, "max_completion_tokens": 5}) == 5
    assert chat.read_limit({"max_tokens": 7, "max_completion_tokens": None}) == 7


@pytest.mark.parametrize("dialect", Dialect)
def test_the_limit_that_tandem_writes_is_one_that_it_reads(dialect):
    spec = SPECS[dialect]
    body = {**spec.write_example("hello"), spec.limit_field: 9}

    assert spec.read_limit(make_view(body, spec.name).body) == 9
    assert spec.read_limit({}) is None


def test_silent_items_are_passed_over_whatever_their_fields_hold():
    chat, responses = SPECS[Dialect.CHAT].silent, SPECS[Dialect.RESPONSES].silent
    said, result, odd = {"role": "user"}, {"role": "tool"}, {"role": ["tool"]}
    call, output, thought = {"type": "function_call"}, {"type": "function_call_output"}, {"type": "reasoning"}

    assert list(chat.skip([result, said, result, odd, result, {}], 1, 5)) == [1, 3]
    assert list(responses.skip([thought, call, output, said], 0, 4)) == [1, 3]
    assert list(SPECS[Dialect.MESSAGES].silent.skip([result, said], 0, 2)) == [0, 1]
