"""Fields out of foreign JSON."""

import pytest

from router.contract.errors import BadRequest
from router.contract.keys import make_key
from router.dialects.fields import as_count, as_whole, fingerprint, parts_of, read_model, texts_of


@pytest.mark.parametrize(("value", "count"), [(3, 3), (0, 0), (-3, 0), (True, 0), ("3", 0), (None, 0), (2.5, 0), (2**63, 0)])
def test_a_count_is_a_whole_number_above_nothing(value, count):
    assert as_count(value) == count


@pytest.mark.parametrize(("value", "whole"), [(3, 3), (3.0, 3), (-1, -1), (2.5, None), (True, None), ("3", None)])
def test_a_whole_number_may_be_written_with_a_point(value, whole):
    assert as_whole(value) == whole


@pytest.mark.parametrize("model", [None, "", "  ", 7, "a\x00b", "x" * 201])
def test_a_model_must_be_a_plain_word(model):
    with pytest.raises(BadRequest) as caught:
        read_model({"model": model})

    assert caught.value.param == "model"


def test_texts_are_taken_from_strings_and_from_parts_of_known_types():
    parts = [{"type": "text", "text": "a"}, {"type": "image", "text": "b"}, {"type": "text", "text": ""}, "c", {"type": []}]

    assert texts_of("x", frozenset({"text"})) == ("x",)
    assert texts_of(parts, frozenset({"text"})) == ("a",)
    assert texts_of(None, frozenset({"text"})) == ()


def test_a_fingerprint_tells_long_states_apart_by_their_ends_and_length():
    states = ["short", "a" * 300, "a" * 301, "b" + "a" * 299, "a" * 299 + "b"]

    assert len({fingerprint(state) for state in states}) == len(states)
    assert fingerprint("short") == fingerprint("short")


def test_a_key_of_the_router_is_no_models_name():
    with pytest.raises(BadRequest, match="a key of the router"):
        read_model({"model": f"openai/{make_key().text}"})


def test_only_contents_that_are_lists_have_parts():
    part = {"type": "text", "text": "a"}

    assert list(parts_of(["text", [part, 3], None, {"type": "text"}, [], [part]])) == [part, {}, part]
