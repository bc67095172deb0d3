"""Marked blocks, and lines kept as comments."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.connect import marks
from router.connect.formats import CannotEdit

TEXTS = st.lists(st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\r"), max_size=8)).map("\n".join)
FILES = st.one_of(TEXTS, TEXTS.map(lambda text: text.replace("\n", "\r\n")))


@given(FILES)
def test_a_block_leaves_no_trace_wherever_it_was(text):
    for added in (marks.add_first(text, "a\nb"), marks.add_last(text, "a\nb"), marks.add_at(text, 0, "a\nb", "  ")):
        assert marks.has_block(added)
        assert marks.remove(added) == text


@given(FILES, FILES.map(lambda text: text if text.endswith("\n") else f"{text}\n"))
def test_what_is_written_after_a_block_stays(text, more):
    added = marks.add_last(text, "a")
    joint = "" if not text or text.endswith("\n") else "\n"

    assert added.endswith("\n")
    assert marks.remove(added + more).replace("\r\n", "\n") == (text + joint + more).replace("\r\n", "\n")


@given(FILES)
def test_kept_lines_come_back(text):
    kept = marks.keep(text, 0, len(text))

    assert all(line.startswith("# ") for line in kept.split("\n") if line)
    assert marks.remove(marks.add_first(kept, "a")) == text


def test_what_others_wrote_between_the_marks_stays():
    memo = marks.note('model = "auto"\n', '[ours]\nname = "Tandem"\n')
    text = marks.add_last(
        marks.add_first("a = 1\n", 'model = "deep"\neffort = "high"'), '[ours]\nname = "Tandem"\n\n[theirs]\nname = "x"'
    )

    assert marks.remove(text, memo, "=") == 'effort = "high"\na = 1\n[theirs]\nname = "x"\n'
    assert marks.remove(text) == 'a = 1\n[theirs]\nname = "x"\n'


def test_a_block_has_the_files_own_line_ends():
    assert marks.add_last("a\r\n", "b").count("\r\n") == marks.add_last("a\r\n", "b").count("\n") == 4


@pytest.mark.parametrize("text", ["a\n# >>> tandem connect\nb\n", "a\n# kept by tandem connect: x\n"])
def test_a_mark_without_its_block_is_refused_with_its_line(text):
    with pytest.raises(CannotEdit, match="line 2: a mark of tandem connect without its block"):
        marks.check(text)
