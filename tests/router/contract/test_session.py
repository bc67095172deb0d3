import pytest
from msgspec.structs import replace

from router.contract.session import SessionState, Wish, read_state, write_state
from router.contract.words import Tier

FULL = SessionState(
    at=5.0,
    tier=Tier.DEEP,
    target="sage",
    turn="t",
    has_escalated=True,
    effort="high",
    wish=Wish(Tier.FAST, 3, "m", "2 f"),
    name="deep",
    name_at=2,
    messages=7,
    last="l",
    warm={"sage": (10, 20.0)},
    origins={"k": "sage"},
)


def test_a_state_comes_back_from_a_store_as_it_was():
    assert read_state(write_state(FULL)) == FULL
    assert read_state(write_state(SessionState())) == SessionState()


def test_tiers_come_back_as_tiers():
    state = read_state(write_state(FULL))

    assert state.tier is Tier.DEEP
    assert state.wish.tier is Tier.FAST


BEFORE = b"""{"at":9.5,"tier":"deep","target":"sage","turn":"t","has_escalated":true,"effort":null,"ask":1,"override":"fast",
    "has_override":true,"override_at":3,"override_line":"l","override_messages":2,"asked_in":"","line_after":"2 f","said":"",
    "name":"deep","name_at":2,"messages":4,"last":"m","warm":{"sage":[500,99.5]},"origins":{"k":"sage"},"new":[1]}"""
"""What was stored until 0.3.0, and a field that no version knows."""


def test_state_that_another_version_stored_is_read_as_far_as_it_is_known():
    state = read_state(BEFORE)

    assert state == SessionState(
        9.5, Tier.DEEP, "sage", "t", True, ask=1.0, wish=Wish(Tier.FAST, 3, "l", "2 f"), name="deep", name_at=2, messages=4,
        last="m", warm={"sage": (500, 99.5)}, origins={"k": "sage"},
    )  # fmt: skip
    assert read_state(write_state(state)) == state


@pytest.mark.parametrize(
    ("before", "wish"),
    [
        (BEFORE.replace(b'"fast"', b"null"), Wish(None, 3, "l", "2 f")),
        (BEFORE.replace(b'"has_override":true', b'"has_override":false'), None),
        (BEFORE.replace(b'"asked_in":""', b'"asked_in":"a"'), None),
    ],
)
def test_a_tier_for_a_named_session_outlives_an_upgrade_as_auto_does_and_one_for_a_guessed_session_does_not(before, wish):
    state = read_state(before)

    assert state.target == "sage"
    assert state.wish == wish


def test_a_name_that_changes_is_newer_than_a_wish_and_one_from_the_start_is_not():
    assert [FULL.with_name("fast", index).wish.at for index in (5, 2, -1)] == [3, 1, 3]


@pytest.mark.parametrize(
    "stored",
    [b"", b"[]", b"null", b'{"tier": "medium"}', b'{"warm": 3}', b'{"warm": {"a": [1]}}', b'{"wish": "deep"}', b"\xff"],
)
def test_what_is_no_state_is_not_read(stored):
    assert read_state(stored) is None


def test_every_step_leaves_the_state_before_it_as_it_was():
    before = replace(FULL)

    FULL.with_wish(None, at=1.0)
    FULL.with_name("fast", 1)
    FULL.with_answer("spark", 8, {"x": "spark"}, None, at=1.0)
    FULL.with_warm("spark", 1, 2.0, is_shorter=True, at=1.0)
    FULL.with_origins({"k": "-"}, at=1.0)

    assert before == FULL


def test_a_conversation_that_became_shorter_has_only_its_own_warm():
    assert FULL.with_warm("spark", 5, 9.0, is_shorter=False, at=1.0).warm == {"sage": (10, 20.0), "spark": (5, 9.0)}
    assert FULL.with_warm("spark", 5, 9.0, is_shorter=True, at=1.0).warm == {"spark": (5, 9.0)}


def test_origins_are_bounded_and_the_newest_stay():
    state = SessionState().with_origins({f"k{number}": "a" for number in range(700)}, at=1.0)

    assert len(state.origins) == 600
    assert "k699" in state.origins
    assert "k0" not in state.origins
