"""What both tiers do for a request: by config, header, running turn and right."""

import pytest
from msgspec.structs import replace
from pydantic import TypeAdapter, ValidationError

from router.contract.combine import Combine, Combining, LookTell, LookTerms, LookWhen, check_combining, combining_for
from router.contract.errors import NotPermitted
from router.contract.request import Overrides
from router.contract.rights import NOTHING, Rights
from router.contract.signals import SessionPosition
from router.contract.words import Tier
from tests.tools.values import ask

READ = TypeAdapter(Combine).validate_python
ALWAYS = LookTerms(LookWhen.ALWAYS, max_seconds=5.0)
BOTH = Combine(plan=True, look=ALWAYS)


def on(terms: Combine, header: str | None = None, position: SessionPosition | None = None, rights=None) -> Combining:
    view = replace(ask(), overrides=Overrides(combine=header))
    return combining_for(terms, view, position or SessionPosition(), rights)


@pytest.mark.parametrize("off", [False, "off"], ids=["as YAML reads it", "in quotes"])
def test_all_of_it_is_off_by_default_and_where_it_is_switched_off(off):
    assert READ({}) == READ({"plan": off, "look": off}) == Combine()
    assert not Combine().is_on
    assert on(Combine()) == Combining()


@pytest.mark.parametrize("word", ["auto", "always"])
def test_a_word_is_short_for_when_to_look(word):
    assert READ({"look": word}) == READ({"look": {"when": word}})
    assert READ({"look": word}).look == LookTerms(LookWhen(word))


def test_settings_of_a_look_without_when_switch_it_on():
    look = READ({"look": {"tell": "later", "max_seconds": 3, "daily_usd": 0.5}}).look

    assert look == LookTerms(LookWhen.AUTO, LookTell.LATER, 3.0, 0.5)


@pytest.mark.parametrize(
    "wrong",
    [
        {"look": True},
        {"look": "often"},
        {"look": {"when": True}},
        {"look": {"question": "?"}},
        {"look": {"max_seconds": 0}},
        {"look": {"daily_usd": -1}},
        {"plan": "auto"},
        {"edit": "on"},
    ],
    ids=str,
)
def test_unknown_words_and_settings_are_refused(wrong):
    with pytest.raises(ValidationError):
        READ(wrong)


@pytest.mark.parametrize(
    ("header", "words"), [("", ""), ("plan", "plan"), ("look", "look:always"), ("plan,look", "plan,look:always")]
)
def test_a_header_replaces_what_the_config_says_with_the_configs_terms(header, words):
    found = on(BOTH, header)

    assert found.words == words
    assert found.look in (None, ALWAYS)


def test_a_header_that_asks_for_a_look_where_the_config_has_none_gets_one_where_it_pays():
    assert on(Combine(), "look") == Combining(plan=False, look=LookTerms(LookWhen.AUTO))


@pytest.mark.parametrize("terms", [Combine(), BOTH], ids=["switched off since", "switched on since"])
@pytest.mark.parametrize("begun", ["", "plan", "look:auto", "plan,look:always"])
def test_a_running_turn_keeps_what_it_began_with(terms, begun):
    running = SessionPosition(Tier.FAST, is_running=True, combine=begun)

    assert on(terms, position=running).words == begun
    assert on(terms, "", running) == Combining()


def test_the_next_turn_follows_the_config():
    assert on(BOTH, position=SessionPosition(Tier.FAST, combine="plan")) == Combining(plan=True, look=ALWAYS)


def test_a_caller_without_the_right_has_none_of_it_and_is_refused_when_it_asks():
    rights = {"local": Rights(may_combine=False)}

    assert on(BOTH, rights=rights) == on(BOTH, "plan", rights=rights) == Combining()
    check_combining("", rights["local"])
    with pytest.raises(NotPermitted, match=r"asks for plan,look.*may_combine"):
        check_combining("plan,look", rights["local"])
    assert not NOTHING.may_combine


def test_what_a_caller_did_is_not_looked_over_where_deep_may_not_serve_it():
    assert on(BOTH, rights={"local": Rights(tiers=frozenset({Tier.FAST}))}) == Combining(plan=True)
