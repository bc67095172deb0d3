import pytest
from msgspec.structs import replace

from router.contract.session import SessionState, read_state
from router.contract.words import Tier

FULL = SessionState(
    at=5.0,
    tier=Tier.DEEP,
    target="sage",
    turn="t",
    has_escalated=True,
    effort="high",
    override=Tier.FAST,
    has_override=True,
    override_at=3,
    override_line="m",
    override_messages=4,
    said="s",
    name="deep",
    name_at=2,
    messages=7,
    last="l",
    warm={"sage": (10, 20.0)},
    origins={"k": "sage"},
)


def test_a_state_comes_back_from_a_store_as_it_was():
    assert read_state(FULL.write()) == FULL
    assert read_state(SessionState().write()) == SessionState()


def test_tiers_come_back_as_tiers():
    state = read_state(FULL.write())

    assert (state.tier, state.override) == (Tier.DEEP, Tier.FAST)
    assert isinstance(state.tier, Tier)
    assert isinstance(state.override, Tier)


def test_a_state_that_an_older_version_wrote_is_read():
    assert read_state(b'{"tier": "fast", "count": 4, "gone": 1}') == SessionState(tier=Tier.FAST, messages=4)


def test_an_override_that_an_older_version_wrote_is_one_and_none_is_none():
    written = read_state(b'{"tier": "fast", "override": "deep", "override_at": 3}')

    assert (written.override, written.has_override) == (Tier.DEEP, True)
    assert not read_state(b'{"tier": "fast", "override": null, "override_at": 0}').has_override


def test_a_name_that_changes_is_newer_than_an_override_and_one_from_the_start_is_not():
    assert FULL.with_name("fast", 5).override_at == 3
    assert FULL.with_name("fast", 2).override_at == 1
    assert FULL.with_name("fast", -1).override_at == 3


@pytest.mark.parametrize("stored", [b"", b"[]", b"null", b'{"tier": "medium"}', b'{"warm": 3}', b'{"warm": {"a": [1]}}'])
def test_what_is_no_state_is_not_read(stored):
    assert read_state(stored) is None


def test_every_step_leaves_the_state_before_it_as_it_was():
    before = replace(
        FULL,
    )

    FULL.with_override(None, 8, "", 9, at=1.0)
    FULL.with_said("x")
    FULL.with_name("fast", 1)
    FULL.with_turn("u", Tier.FAST, has_escalated=False, was_asked_for=True, effort="low", ask=None, is_planned=False)
    FULL.with_answer("spark", 8, {"x": "spark"}, None, at=1.0)
    FULL.with_warm("spark", 1, 2.0, is_shorter=True, at=1.0)
    FULL.with_origins({"k": "-"}, at=1.0)

    assert before == FULL


def test_the_first_effort_of_a_session_stays():
    first = SessionState().with_turn(
        "a", Tier.FAST, has_escalated=False, was_asked_for=False, effort="medium", ask=None, is_planned=False
    )
    later = first.with_turn("b", Tier.FAST, has_escalated=False, was_asked_for=False, effort="high", ask=None, is_planned=False)

    assert (first.effort, later.effort) == ("medium", "medium")


def test_a_conversation_that_became_shorter_has_only_its_own_warm():
    assert FULL.with_warm("spark", 5, 9.0, is_shorter=False, at=1.0).warm == {"sage": (10, 20.0), "spark": (5, 9.0)}
    assert FULL.with_warm("spark", 5, 9.0, is_shorter=True, at=1.0).warm == {"spark": (5, 9.0)}


def test_origins_are_bounded_and_the_newest_stay():
    state = SessionState().with_origins({f"k{number}": "a" for number in range(700)}, at=1.0)

    assert len(state.origins) == 600
    assert "k699" in state.origins
    assert "k0" not in state.origins
