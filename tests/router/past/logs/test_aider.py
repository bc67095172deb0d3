"""aider's history of chats."""

import pytest

from tests.router.past.logs.written import read
from tests.tools.histories import LONG, QUICK, Told, aider_log


def test_every_start_of_aider_is_a_session_and_its_own_commands_are_no_turns(tmp_path):
    text = aider_log([QUICK, Told("/add src/a.py"), Told("/ask why is it slow?")]) + aider_log([LONG], "2026-03-02 09:00:00")

    first, second = read(tmp_path, (".aider.chat.history.md", text))[0]

    assert [turn.words for turn in first.turns] == [QUICK.words, "why is it slow?"]
    assert [turn.words for turn in second.turns] == [LONG.words]
    assert first.turns[0].at < second.turns[0].at


def test_a_heading_in_aiders_answer_is_not_the_persons_and_old_counts_of_tokens_are_read(tmp_path):
    text = aider_log([Told("fix it", ("Edit",), answer="#### What I changed\n\n> 34012 prompt tokens, 113 completion tokens")])

    (session,), _ = read(tmp_path, (".aider.chat.history.md", text))

    assert [(turn.words, turn.prompt_tokens, turn.calls) for turn in session.turns] == [
        ("fix it", 34_012, ("reflection", "apply_edit"))
    ]


@pytest.mark.parametrize("line", ["> ... sent by the server", "> , sent", "> 1.2.3k sent", f"> {'9' * 400} sent"])
def test_a_line_that_only_looks_like_a_count_is_none(tmp_path, line):
    (session,), tally = read(tmp_path, (".aider.chat.history.md", aider_log([Told("fix it", answer=line)])))

    assert [(turn.words, turn.prompt_tokens) for turn in session.turns] == [("fix it", 700)]
    assert tally.unreadable_files == 0
