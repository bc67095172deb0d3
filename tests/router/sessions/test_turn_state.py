"""The token that a client carries through a turn: only ours, only for its turn."""

import pytest

from router.contract.words import Tier
from router.sessions.memory import SessionMemory
from router.sessions.turn_state import TURN_STATE, carried_headers, mint, read
from router.sessions.turns import read_turn
from router.stores.memory.sessions import NoSessions
from tests.tools.exchanges import make_decision
from tests.tools.sessions import chat, codex, look, step

TOKEN = mint("session", "turn", Tier.DEEP)


def read_header(token: str, session: str = "session", turn: str = "turn"):
    return read({TURN_STATE: token}, {}, session, turn)


@pytest.mark.parametrize("tier", list(Tier))
def test_a_token_names_the_tier_that_it_was_minted_for(tier):
    assert read_header(mint("session", "turn", tier)) is tier


@pytest.mark.parametrize(("session", "turn"), [("other", "turn"), ("session", "other"), ("", ""), ("session\0turn", "")])
def test_a_token_counts_in_its_own_turn_of_its_own_session_alone(session, turn):
    assert read_header(TOKEN, session, turn) is None


CHANGES = {
    "another tier": ("deep", "fast"),
    "no tier": ("deep", "auto"),
    "a tier in capitals": ("deep", "DEEP"),
    "another prefix": ("tandem", "other"),
    "a letter less": (TOKEN[-1:], ""),
    "a letter more": (TOKEN, f"{TOKEN}0"),
    "all in capitals": (TOKEN, TOKEN.upper()),
    "no signature": (TOKEN, "tandem.deep."),
}


@pytest.mark.parametrize("change", list(CHANGES))
def test_a_token_that_was_changed_counts_for_nothing(change):
    before, after = CHANGES[change]
    head, _, tail = TOKEN.rpartition(before)

    assert read_header(f"{head}{after}{tail}") is None


@pytest.mark.parametrize("token", ["", ".", "tandem", "tandem.deep", "tandem.deep.é\udc80", "of another server"])
def test_what_we_did_not_write_counts_for_nothing(token):
    assert read_header(token) is None


def test_without_a_header_it_is_looked_for_in_the_metadata():
    assert read({}, {"client_metadata": {TURN_STATE: TOKEN}}, "session", "turn") is Tier.DEEP


def test_a_header_counts_before_the_metadata_even_when_it_is_worth_nothing():
    assert read({TURN_STATE: ""}, {"client_metadata": {TURN_STATE: TOKEN}}, "session", "turn") is None


@pytest.mark.parametrize("metadata", [None, "text", [], {}, {TURN_STATE: 5}, {TURN_STATE: None}, {TURN_STATE: [TOKEN]}])
def test_metadata_of_any_shape_is_read_without_harm(metadata):
    assert read({}, {"client_metadata": metadata}, "session", "turn") is None


def test_a_token_says_nothing_of_its_session():
    assert "session" not in mint("session-of-somebody", "what was asked", Tier.FAST).replace("tandem", "")


async def test_codex_carries_the_tier_of_its_turn_itself_and_cannot_invent_one():
    memory = SessionMemory(NoSessions())
    view = codex()
    session = await step(memory, view, Tier.DEEP)
    minted = carried_headers(session, view, make_decision(Tier.DEEP, turn=read_turn(view)))
    ((_, token),) = minted[Tier.DEEP]

    after_a_restart = SessionMemory(NoSessions())
    carried = (await look(after_a_restart, codex(token))).position
    forged = [
        (await look(after_a_restart, codex(text))).position
        for text in (token.replace("deep", "fast"), "tandem.fast.é", "x", "tandem.")
    ]

    assert (carried.tier, carried.is_running) == (Tier.DEEP, True)
    assert not any(position.is_running for position in forged)
    assert minted[Tier.FAST] == minted[Tier.DEEP]
    assert carried_headers(session, chat("x"), make_decision(turn=read_turn(chat("x")))) == {}


async def test_a_turn_that_spilled_up_is_carried_as_deep():
    view = codex()
    session = await SessionMemory(NoSessions()).recall(view, read_turn(view))
    minted = carried_headers(session, view, make_decision(Tier.FAST, turn=read_turn(view)))

    assert [minted[tier][0][1].split(".")[1] for tier in Tier] == ["fast", "deep"]
