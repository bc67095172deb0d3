"""Reading JSON with comments."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.connect.formats import CannotEdit
from router.connect.jsonc import parse

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(VALUES, st.sampled_from([None, 0, 2, "\t"]), st.booleans())
def test_whatever_json_writes_is_read_to_the_same_value(value, indent, ascii_only):
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)

    node = parse(f" {text}\r\n")

    assert node.value == value
    assert json.loads(f" {text}"[node.start : node.end]) == value


def test_comments_and_commas_at_the_end_are_read_over():
    node = parse('// a\n{ /* "no": 1 */ "a": [1, 2,], // b\n "b": "http://x",\n}\n/* end */')

    assert node.value == {"a": [1, 2], "b": "http://x"}
    assert [member.key for member in node.members] == ["a", "b"]


def test_of_two_keys_alike_the_last_counts():
    text = '{"a": 1, "a": 2}'

    assert parse(text).value == {"a": 2}
    assert parse(text).find("a").node.value == 2


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{\n  "a": 1\n  "b": 2\n}', 'line 3: "," or "}" is missing'),
        ("{\n  a: 1\n}", "line 2: a key in double quotes is missing"),
        ('{"a" 1}', 'line 1: ":" is missing after "a"'),
        ('{"a": tru}', "line 1: unexpected 't'"),
        ('{"a":\n', "line 2: the file ends too soon"),
        ('{"a": 1}\n\n}', "line 3: something follows the end"),
        ('{"a": "\\x"}', "line 1: a string with a wrong escape"),
        ("[" * 300, "line 1: too deeply nested"),
    ],
)
def test_a_broken_text_is_refused_with_its_line(text, reason):
    with pytest.raises(CannotEdit, match="^" + __import__("re").escape(reason)):
        parse(text)
