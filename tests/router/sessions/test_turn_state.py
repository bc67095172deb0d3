"""The token that a client carries through a turn: only ours, only for its turn."""

import pytest
from msgspec.structs import replace

from router.contract.words import Tier
from router.sessions.memory import SessionMemory
from router.sessions.turn_state import TurnTokens, derive_key
from router.sessions.turns import read_turn
from router.stores.memory.entries import NoSessions
from tests.tools.exchanges import make_decision, make_snapshot
from tests.tools.sessions import TURN_STATE, chat, codex, look, step

TOKENS = TurnTokens()
SESSION = replace(make_snapshot(), key="somebodys-session")
TURN = read_turn(codex())


def mint(tier: Tier, tokens: TurnTokens = TOKENS) -> str:
    ((_, token),) = tokens.carry(SESSION, codex(), make_decision(tier, turn=TURN))[tier]
    return token


def read_header(token: str, session: str = SESSION.key, turn=TURN):
    return TOKENS.read(codex(token), turn, session)


TOKEN = mint(Tier.DEEP)


@pytest.mark.parametrize("tier", list(Tier))
def test_a_token_names_the_tier_that_it_was_minted_for(tier):
    assert read_header(mint(tier)) is tier


@pytest.mark.parametrize(
    ("session", "turn"),
    [
        ("other", TURN),
        ("", TURN),
        (SESSION.key, replace(TURN, turn_id="other")),
        (SESSION.key, replace(TURN, client="unknown")),
    ],
)
def test_a_token_counts_in_its_own_turn_of_its_own_session_alone(session, turn):
    assert read_header(TOKEN, session, turn) is None


def test_a_client_with_a_login_carries_none_since_the_header_is_its_vendors():
    view = codex()
    view = replace(view, headers={**view.headers, "chatgpt-account-id": "acct-made-up"})

    assert TOKENS.carry(SESSION, view, make_decision(Tier.DEEP, turn=TURN)) == {}


def test_a_token_of_another_key_counts_for_nothing():
    assert read_header(mint(Tier.DEEP, TurnTokens())) is None


def test_a_token_counts_for_everyone_who_reads_the_same_key():
    before, after = TurnTokens(lambda: b"x" * 32), TurnTokens(lambda: b"x" * 32)

    assert after.read(codex(mint(Tier.DEEP, before)), TURN, SESSION.key) is Tier.DEEP


def test_the_key_is_read_once_and_only_when_it_is_needed():
    read = []
    tokens = TurnTokens(lambda: read.append(1) or b"x" * 32)
    tokens.carry(SESSION, chat("x"), make_decision(turn=read_turn(chat("x"))))
    assert read == []

    mint(Tier.FAST, tokens)
    mint(Tier.DEEP, tokens)

    assert read == [1]


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


def read_metadata(metadata, **headers: str):
    view = codex()
    view = replace(view, headers={**view.headers, **headers}, body={**view.body, "client_metadata": metadata})
    return TOKENS.read(view, TURN, SESSION.key)


def test_a_header_counts_before_the_metadata_even_when_it_is_worth_nothing():
    assert read_metadata({TURN_STATE: TOKEN}) is Tier.DEEP
    assert read_metadata({TURN_STATE: TOKEN}, **{TURN_STATE: ""}) is None


@pytest.mark.parametrize("metadata", [None, "text", [], {}, {TURN_STATE: 5}, {TURN_STATE: None}, {TURN_STATE: [TOKEN]}])
def test_metadata_of_any_shape_is_read_without_harm(metadata):
    assert read_metadata(metadata) is None


async def test_codex_carries_the_tier_of_its_turn_itself_and_cannot_invent_one():
    memory = SessionMemory(NoSessions(), tokens=TOKENS)
    view = codex()
    session = await step(memory, view, Tier.DEEP)
    minted = TOKENS.carry(session, view, make_decision(Tier.DEEP, turn=read_turn(view)))
    ((_, token),) = minted[Tier.DEEP]

    after_a_restart = SessionMemory(NoSessions(), tokens=TOKENS)
    carried = (await look(after_a_restart, codex(token))).position
    forged = [
        (await look(after_a_restart, codex(text))).position
        for text in (token.replace("deep", "fast"), "tandem.fast.é", "x", "tandem.")
    ]

    assert (carried.tier, carried.is_running) == (Tier.DEEP, True)
    assert not any(position.is_running for position in forged)
    assert minted[Tier.FAST] == minted[Tier.DEEP]
    assert TOKENS.carry(session, chat("x"), make_decision(turn=read_turn(chat("x")))) == {}


async def test_a_turn_that_spilled_up_is_carried_as_deep():
    view = codex()
    session = await SessionMemory(NoSessions()).recall(view, read_turn(view))
    minted = TOKENS.carry(session, view, make_decision(Tier.FAST, turn=read_turn(view)))

    assert [minted[tier][0][1].split(".")[1] for tier in Tier] == ["fast", "deep"]


def test_routers_with_the_same_secret_read_each_others_tokens_and_no_others():
    same, other = derive_key("x" * 100), derive_key("x" * 99 + "y")

    assert same == derive_key("x" * 100)
    assert len(same) == 32
    assert same != other
