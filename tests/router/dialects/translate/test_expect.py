"""Fields of another type than every host asks for are refused by their paths."""

import pytest

from router.contract.errors import BadRequest
from router.dialects.translate import expect

READERS = {
    "string": expect.text,
    "boolean": expect.flag,
    "number": expect.whole,
    "object": expect.mapping,
    "list": expect.sequence,
}
VALUES = {"string": "x", "boolean": True, "number": 5, "object": {"a": 1}, "list": ["x"]}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("given", VALUES)
def test_a_field_is_read_if_it_has_its_type_and_refused_by_its_path_if_not(reader, given):
    if reader == given:
        assert READERS[reader]({"f": VALUES[given]}, "f", "input[2]") == VALUES[given]
        return
    with pytest.raises(BadRequest, match=r"input\[2\]\.f: must be ") as caught:
        READERS[reader]({"f": VALUES[given]}, "f", "input[2]")
    assert caught.value.param == "input[2].f"


def test_what_is_absent_or_null_is_nothing_unless_it_is_needed():
    for holder in ({}, {"f": None}):
        assert [read(holder, "f") for read in READERS.values()] == ["", None, None, {}, []]
        for needed in (expect.needed_text, expect.needed_mapping):
            with pytest.raises(BadRequest, match="f: missing"):
                needed(holder, "f")


def test_a_number_must_be_whole_however_it_is_written():
    assert expect.whole({"f": 5.0}, "f") == 5
    with pytest.raises(BadRequest, match=r"not 5\.5"):
        expect.whole({"f": 5.5}, "f")


@pytest.mark.parametrize("odd", [5, True, {}, None])
def test_content_is_a_string_or_a_list_of_parts(odd):
    assert expect.content({"content": "x"}, "content", "m") == "x"
    assert expect.content({"content": [{}]}, "content", "m") == [({}, "m.content[0]")]
    assert expect.content({}, "content", "m", may_be_absent=True) == []
    with pytest.raises(BadRequest, match=r"m\.content"):
        expect.content({"content": odd}, "content", "m")
