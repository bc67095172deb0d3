"""A past turn as the request that would have begun it."""

import os

import pytest

from router.contract.session import SessionState
from router.contract.words import PlanPhase, TurnKind
from router.dialects.requests import read_request
from router.past.history import PastSession, PastTurn
from router.past.requests import write_request
from router.sense.tokens import estimate_prompt
from router.sessions.plan_mode import read_phase
from router.sessions.turns import read_turn

FIRST = PastTurn("Implement the parser", calls=("Bash", "Edit", "Edit"), edits=2)


def session(*turns: PastTurn, client: str = "claude-code") -> PastSession:
    return PastSession("s", client, turns)


@pytest.mark.parametrize("client", ["claude-code", "codex", "aider", "cursor"])
def test_the_turn_reads_as_it_would_in_serving(client):
    past = session(FIRST, PastTurn("now fix the typo", effort="high"), client=client)

    view = read_request(write_request(past, 1))
    turn = read_turn(view)

    assert turn.kind is TurnKind.ASK
    assert turn.person_text == "now fix the typo"
    assert turn.client == (client if client != "cursor" else "unknown")
    assert [(entry.words, entry.calls, entry.edits) for entry in turn.history.last] == [("Implement the parser", 3, 2)]
    assert view.effort == "high"


def test_words_that_only_say_go_on_are_a_follow_up():
    turn = read_turn(read_request(write_request(session(FIRST, PastTurn("yes, go on")), 1)))

    assert (turn.kind, turn.ask_text) == (TurnKind.FOLLOW_UP, "Implement the parser")


def test_a_policy_sees_the_time_of_the_turn():
    view = read_request(write_request(session(PastTurn("fix it", at=1_000_000_000.0)), 0))

    assert view.moment.now.timestamp() == 1_000_000_000.0
    assert view.moment.environment is os.environ


@pytest.mark.parametrize("client", ["claude-code", "codex", "opencode", "cline", "cursor"])
def test_plan_mode_is_told_as_the_client_tells_it(client):
    view = read_request(write_request(session(PastTurn("how?", is_planning=True), client=client), 0))
    turn = read_turn(view)

    assert turn.is_planning
    assert turn.person_text == "how?"
    assert read_phase(view, turn, SessionState()) is (PlanPhase.UNKNOWN if client == "cursor" else PlanPhase.PLANNING)


def test_turns_before_a_compaction_are_not_in_the_request():
    turn = read_turn(read_request(write_request(session(FIRST, PastTurn("and now?", remembers_from=1)), 1)))

    assert turn.history.turns == 0


@pytest.mark.parametrize("tokens", [2_000, 40_000, 180_000])
def test_the_prompt_is_as_long_as_the_log_says(tokens):
    view = read_request(write_request(session(PastTurn("fix it", prompt_tokens=tokens)), 0))

    assert estimate_prompt(view).tokens == pytest.approx(tokens, rel=0.1)


def test_without_a_count_the_text_before_the_turn_is_its_length():
    view = read_request(write_request(session(PastTurn("fix it", text_chars=100_000)), 0))

    assert len(view.raw) == pytest.approx(100_000, rel=0.02)


def test_without_a_count_a_prompt_grows_no_longer_than_clients_keep_it():
    view = read_request(write_request(session(PastTurn("fix it", text_chars=50_000_000)), 0))

    assert estimate_prompt(view).tokens == pytest.approx(100_000, rel=0.1)


@pytest.mark.parametrize("client", ["claude-code", "codex", "opencode", "qwen-code", "cline", "continue"])
def test_every_client_that_names_itself_is_recognised_again(client):
    assert read_turn(read_request(write_request(session(FIRST, client=client), 0))).client == client


def test_a_session_whose_id_no_header_can_carry_is_read_all_the_same():
    past = PastSession("a\nb\x00" + "c" * 300, "codex", (FIRST,))

    assert read_turn(read_request(write_request(past, 0))).session.startswith("x:replay-abc")
