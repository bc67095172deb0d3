"""What the composers share."""

import re

import pytest

from router.dialects.composer import Answer, Shape, free_form, plain_id


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ('{"input": "*** Begin Patch"}', "*** Begin Patch"),
        ('{"patch": "*** Begin Patch"}', "*** Begin Patch"),
        ("*** Begin Patch", "*** Begin Patch"),
        ('"*** Begin Patch"', "*** Begin Patch"),
        ('{"a": 1, "b": 2}', '{"a": 1, "b": 2}'),
    ],
)
def test_free_form_input_is_found_however_the_model_wrapped_it(arguments, found):
    assert free_form(arguments) == found


@pytest.mark.parametrize(("given", "plain"), [("call_1", "call_1"), ("a" * 64, "a" * 64), ("", "call")])
def test_an_id_that_every_dialect_allows_stays_as_it_is(given, plain):
    assert plain_id(given) == plain


def test_ids_that_differ_only_in_what_is_not_allowed_stay_apart():
    given = ["c.1", "c:1", "c_1", "c 1", "cé1", "c1"]

    plain = [plain_id(one) for one in given]

    assert len(set(plain)) == len(given)
    assert all(re.fullmatch("[a-zA-Z0-9_-]{1,64}", one) for one in plain)
    assert plain == [plain_id(one) for one in given]


def test_long_ids_that_begin_alike_stay_apart():
    ids = [plain_id("a" * 64 + end) for end in "12"]

    assert len(set(ids)) == 2
    assert max(map(len, ids)) <= 64


def test_a_tool_is_known_to_the_caller_by_its_own_name():
    answer = Answer("x", "m", 1, shapes={"ns__f": Shape("f", "ns")})

    assert answer.shape("ns__f") == Shape("f", "ns")
    assert answer.shape("other") == Shape("other")
