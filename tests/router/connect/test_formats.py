"""What formats share."""

from router.connect.formats import CannotEdit, includes, line_end, line_of


def test_a_value_includes_another_by_keys_and_items():
    tiers = frozenset({"auto", "fast"})

    assert includes({"a": {"b": 1, "c": 2}, "l": [1, 2]}, {"a": {"b": 1}, "l": [2]}, tiers)
    assert includes({"m": "fast"}, {"m": "auto"}, tiers)
    assert not includes({"m": "other"}, {"m": "auto"}, tiers)
    assert not includes({"l": [1]}, {"l": [2]}, tiers)


def test_lines_end_as_the_first_one_does():
    assert line_end("a\r\nb\n") == "\r\n"
    assert line_end("a\nb\r\n") == "\n"
    assert line_end("") == line_end("\n") == "\n"


def test_a_refusal_says_the_line_if_there_is_one():
    assert str(CannotEdit("broken", line_of("a\nb\nc", 4))) == "line 3: broken"
    assert str(CannotEdit("broken")) == "broken"
