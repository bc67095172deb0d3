import pytest
from msgspec.structs import replace

from router.contract.session import SessionState, read_state, write_state
from router.contract.signals import Wish
from router.contract.words import Tier

FULL = SessionState(
    at=5.0,
    tier=Tier.DEEP,
    target="sage",
    turn="t",
    has_escalated=True,
    effort="high",
    wish=Wish(Tier.FAST, "deep"),
    name="deep",
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


def test_state_that_another_version_stored_is_read_as_far_as_it_is_known():
    stored = (
        b'{"at":9.5,"tier":"deep","wish":{"tier":"fast","at":3,"line":"l","follows":"2 f"},"name":"","name_at":2,"new":[1]}'
    )

    assert read_state(stored) == SessionState(9.5, Tier.DEEP, wish=Wish(Tier.FAST))


@pytest.mark.parametrize(
    "stored",
    [b"", b"[]", b"null", b'{"tier": "medium"}', b'{"warm": 3}', b'{"warm": {"a": [1]}}', b'{"wish": "deep"}', b"\xff"],
)
def test_what_is_no_state_is_not_read(stored):
    assert read_state(stored) is None


def test_every_step_leaves_the_state_before_it_as_it_was():
    before = replace(FULL)

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
