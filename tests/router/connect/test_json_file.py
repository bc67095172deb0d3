"""Values set in JSON with comments, and set back: everything else stays byte for byte."""

import json

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from router.connect import json_file
from router.connect.formats import CannotEdit
from router.connect.jsonc import parse

TIERS = frozenset({"auto", "fast", "deep"})
PIECE = {
    "values": json.dumps(
        {
            "model": "auto",
            "env": {"URL": "http://127.0.0.1:4000", "KEY": "tandem"},
            "providers": {"list": [{"id": "auto"}, {"id": "fast"}]},
        }
    )
}
KEYS = st.sampled_from(["model", "env", "URL", "KEY", "providers", "list", "mine", "é", "a/b"])
LEAVES = st.none() | st.booleans() | st.integers() | st.sampled_from(["auto", "own", "http://x // no comment", '"{,}"', ""])
OBJECTS = st.dictionaries(
    KEYS,
    st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=10),
    max_size=6,
)
GAPS = st.sampled_from(["", "", " ", "\n  ", "\r\n\t", " // a, b }\n", "/* { */", "\n\n"])


def render(value: object, draw) -> str:
    """A value as a person might write it: with any blanks and comments, and now and then a comma too many."""
    gap = lambda: draw(GAPS)  # noqa: E731
    if isinstance(value, dict):
        inner = ",".join(f"{gap()}{json.dumps(key)}{gap()}:{gap()}{render(item, draw)}{gap()}" for key, item in value.items())
        comma = "," if value and draw(st.booleans()) else ""
        return f"{{{inner}{comma}{gap()}}}"
    if isinstance(value, list):
        comma = "," if value and draw(st.booleans()) else ""
        return f"[{','.join(gap() + render(item, draw) + gap() for item in value)}{comma}{gap()}]"
    return json.dumps(value)


@st.composite
def texts(draw) -> str:
    return draw(GAPS) + render(draw(OBJECTS), draw) + draw(GAPS)


def merged(before: object, ours: object) -> object:
    if isinstance(before, dict) and isinstance(ours, dict):
        return {**before, **{key: merged(before.get(key), value) for key, value in ours.items()}}
    if isinstance(before, list) and isinstance(ours, list):
        return [item for item in ours if item not in before] + before
    return ours


@given(texts())
def test_what_was_put_is_there_next_to_all_that_was_and_taking_it_leaves_the_very_text(text):
    put = json_file.put(text, PIECE)

    assert parse(put.text).value == merged(parse(text).value, json.loads(PIECE["values"]))
    assert json_file.holds(put.text, PIECE, TIERS)
    assert json_file.take(put.text, put.memo, TIERS) == (text, ())


@given(texts())
def test_what_a_person_writes_around_ours_stays_and_ours_goes(text):
    def edit(written: str) -> str:
        start = parse(written).start + 1
        comma = "," if parse(written).members else ""
        return f'// mine\n{written[:start]} "own": [1, 2]{comma}{written[start:]}\n// the end'

    put = json_file.put(text, PIECE)

    left, notes = json_file.take(edit(put.text), put.memo, TIERS)

    assert notes == ()
    assert parse(left).value == parse(edit(text)).value
    if parse(text).members:
        assert left == edit(text)


@given(texts(), st.sampled_from([None, 2, 4]), st.sampled_from(sorted(TIERS)))
def test_a_client_that_rewrote_the_file_and_chose_another_tier_gets_its_own_values_back(text, indent, tier):
    assume(parse(text).value.get("model") != "auto")  # then it is the person's own, and so is what becomes of it
    put = json_file.put(text, PIECE)
    told = {**parse(put.text).value, "model": tier, "$version": 4}

    left, notes = json_file.take(json.dumps(told, indent=indent), put.memo, TIERS)

    assert notes == ()
    assert parse(left).value == {**parse(text).value, "$version": 4}


@pytest.mark.parametrize("text", [None, "", " \n"])
def test_a_file_that_was_absent_or_empty_is_so_again(text):
    put = json_file.put(text, PIECE)

    assert json.loads(put.text) == json.loads(PIECE["values"])
    assert json_file.take(put.text, put.memo, TIERS) == (text, ())


def test_of_a_new_file_that_others_wrote_into_only_theirs_is_left():
    put = json_file.put(None, PIECE)
    told = json.loads(put.text)
    told["env"]["MINE"] = "1"

    left, _ = json_file.take(json.dumps(told), put.memo, TIERS)

    assert json.loads(left) == {"env": {"MINE": "1"}}


def test_a_value_that_a_person_changed_to_something_else_is_theirs_and_is_named():
    put = json_file.put('{"model": "opus"}', PIECE)

    left, notes = json_file.take(put.text.replace('"model": "auto"', '"model": "sonnet"'), put.memo, TIERS)

    assert left == '{"model": "sonnet"}'
    assert notes == ("model was changed since, and stays",)


def test_a_value_that_a_person_removed_does_not_come_back():
    put = json_file.put('{"model": "opus", "a": 1}', PIECE)

    left, _ = json_file.take(put.text.replace('"model": "auto", ', ""), put.memo, TIERS)

    assert left == '{"a": 1}'


@pytest.mark.parametrize("text", ['{"a": 1}', None, '{"line": {"type": "x", "mine": 1}}'])
def test_an_object_that_is_whole_is_taken_whole_or_left_whole(text):
    piece = {"values": '{"line": {"type": "command", "command": "ours"}}', "whole": "line"}
    put = json_file.put(text, piece)
    assert json.loads(put.text)["line"] == {"type": "command", "command": "ours"}
    assert json_file.take(put.text, put.memo, TIERS) == (text, ())

    left, notes = json_file.take(put.text.replace("ours", "theirs"), put.memo, TIERS)

    assert json.loads(left)["line"] == {"type": "command", "command": "theirs"}
    assert notes == ("line was changed since, and stays",)


def test_ours_is_written_as_the_file_is_indented():
    assert json_file.put('{\n    "a": 1\n}\n', {"values": '{"b": {"c": 2}}'}).text == (
        '{\n    "b": {\n      "c": 2\n    },\n    "a": 1\n}\n'
    )
    assert json_file.put("{}", {"values": '{"b": 1}'}).text == '{\n  "b": 1\n}'
    assert json_file.put('{"a": 1}', {"values": '{"b": 1}'}).text == '{"b": 1, "a": 1}'


def test_another_tier_of_ours_is_as_good():
    assert json_file.holds('{"model": "deep"}', {"values": '{"model": "auto"}'}, TIERS)
    assert not json_file.holds('{"model": "opus"}', {"values": '{"model": "auto"}'}, TIERS)
    assert not json_file.holds("", {"values": '{"model": "auto"}'}, TIERS)


@pytest.mark.parametrize("text", ["[]", "1", '{"a": }'])
def test_a_file_that_is_no_object_is_refused(text):
    with pytest.raises(CannotEdit):
        json_file.put(text, PIECE)
