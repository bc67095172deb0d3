"""SpecStory's histories."""

from tests.router.past.logs.written import TURNS, read
from tests.tools.histories import LONG, QUICK, specstory_log


def test_old_specstory_headings_and_tool_lines_are_read(tmp_path):
    (session,), _ = read(tmp_path, ("one.md", specstory_log(TURNS, "Cursor", is_old=True)))

    assert session.client == "cursor"
    assert [len(turn.calls) for turn in session.turns] == [2, 17, 1, 0]
    assert session.turns[0].at is None


def test_a_heading_inside_a_tools_output_is_no_turn_and_a_sidechain_is_nobodys_ask(tmp_path):
    aside = "_**User - sidechain (2026-03-01 09:10:00Z)**_\n\nlook around\n\n---\n"

    (session,), _ = read(tmp_path, ("one.md", specstory_log([QUICK]) + aside + specstory_log([LONG]).split("-->\n", 2)[2]))

    assert [turn.words for turn in session.turns] == [QUICK.words, LONG.words]
    assert session.turns[0].calls == ("Read", "Edit")


def test_the_client_that_was_watched_and_its_model_are_told(tmp_path):
    (session,), _ = read(tmp_path, ("one.md", specstory_log([QUICK], "Codex CLI")))

    assert (session.client, session.turns[0].model) == ("codex", "some-model")
