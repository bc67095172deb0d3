"""Files that need no parser."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.connect.change import FlagFile, OwnFile, ShellFile

OWN, FLAG, SHELL = OwnFile(), FlagFile(), ShellFile()
NONE = frozenset()
CONTENT = {"content": "ours\n"}
LINES = {"lines": "export A=1\n"}


@pytest.mark.parametrize("before", [None, "", "theirs"])
def test_what_was_there_comes_back(before):
    put = OWN.put(before, CONTENT)

    assert put.text == "ours\n"
    assert OWN.holds(put.text, CONTENT, NONE)
    assert OWN.take(put.text, put.memo, NONE) == (before, ())


def test_a_file_that_somebody_changed_is_theirs():
    assert OWN.take("mine now", OWN.put(None, CONTENT).memo, NONE) == ("mine now", ("was changed since, and stays",))
    assert OWN.take("theirs", [], NONE) == ("theirs", ())


@pytest.mark.parametrize(("before", "there"), [(None, "ours\n"), ("2026-01-01", "2026-01-01")])
def test_a_flag_is_made_where_it_is_absent_and_goes_again_and_one_that_is_there_stays(before, there):
    put = FLAG.put(before, CONTENT)

    assert put.text == there
    assert FLAG.holds(there, CONTENT, NONE)
    assert FLAG.take(put.text, put.memo, NONE) == (before, ())


def test_a_flag_that_somebody_wrote_since_is_theirs():
    assert FLAG.take("2026-01-01", FLAG.put(None, CONTENT).memo, NONE) == ("2026-01-01", ())


@given(st.none() | st.text(st.characters(blacklist_categories=["Cs"])))
def test_taking_the_block_leaves_the_very_text(text):
    put = SHELL.put(text, LINES)

    assert "export A=1" in put.text
    assert SHELL.holds(put.text, LINES, NONE)
    assert not SHELL.holds(text or "", LINES, NONE)
    assert SHELL.take(put.text, put.memo, NONE) == (text or "", ())


@pytest.mark.parametrize("before", ["export A=1", "export A=1\n", ""])
def test_a_line_that_an_installer_appends_counts_and_outlives_the_undo(before):
    put = SHELL.put(before, LINES)
    appended = f"{put.text}export X=1\n"

    assert "export X=1" in appended.splitlines()
    assert SHELL.holds(appended, LINES, NONE)
    kept = f"{before}\nexport X=1\n" if before and not before.endswith("\n") else f"{before}export X=1\n"
    assert SHELL.take(appended, put.memo, NONE) == (kept, ())


def test_a_line_that_was_appended_to_an_older_versions_mark_comes_back():
    older = "export A=1\n# >>> tandem connect (x)\nexport B=2\n# <<< tandem connectexport X=1\n"

    assert SHELL.take(older, [], NONE) == ("export A=1\nexport X=1\n", ())
    assert SHELL.take(older.replace("export X=1\n", ""), [], NONE) == ("export A=1", ())
