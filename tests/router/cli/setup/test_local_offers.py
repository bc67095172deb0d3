"""Which local server is proposed for which tier."""

from dataclasses import replace

import pytest

from router.cli.setup.around import Found
from router.cli.setup.engines import Engine, ListedModel
from router.cli.setup.live import Reached
from router.cli.setup.local_offers import add_quotas, offer_locals, say_windows, with_local_model
from router.cli.setup.presets import read_presets
from router.contract.words import Tier

PRESETS = read_presets()


def server(
    name: str, *models: str, slots: int | None = None, windows: dict[str, int] | None = None, kind: str = "llamacpp"
) -> Found:
    provider = replace(PRESETS.providers[kind], name=name, base_url=f"http://{name}/v1")
    listed = tuple(ListedModel(model) for model in models)
    return Found(provider, "", Reached(listed=listed, engine=Engine(kind, slots, windows or {})))


def proposed(*servers: Found, is_alone: bool = True) -> tuple[list[str], list[str]]:
    offers = offer_locals(PRESETS, {one.provider.name: one for one in servers}, is_alone=is_alone)
    fast, deep = ([offer.provider.name for offer in offers.proposed[tier]] for tier in (Tier.FAST, Tier.DEEP))
    return fast, deep


@pytest.mark.parametrize(
    ("servers", "fast", "deep"),
    [
        ([server("a", "x-7b")], ["a"], []),
        ([server("a", "x-70b"), server("b", "y-7b")], ["b"], ["a"]),
        ([server("a", "x-70b"), server("b", "y-7b"), server("c", "z-14b")], ["b", "c"], ["a"]),
        ([server("a", "x-7b"), server("b", "y-7b")], ["a", "b"], ["a", "b"]),
        ([server("a", "x"), server("b", "y-7b")], ["a", "b"], ["a", "b"]),
        ([server("a", "x-7b"), server("b", "x-7b")], ["a", "b"], ["b", "a"]),
        ([server("a", "/one/x-7b.gguf"), server("b", "/two/x-7b.gguf")], ["a", "b"], ["b", "a"]),
    ],
)
def test_the_largest_model_is_proposed_for_deep_where_that_can_be_told(servers, fast, deep):
    assert proposed(*servers) == (fast, deep)


def test_next_to_other_providers_local_servers_are_proposed_for_fast_the_smallest_first():
    assert proposed(server("a", "x-70b"), server("b", "y-7b"), is_alone=False) == (["b", "a"], [])


def test_of_equal_models_the_one_with_the_larger_window_is_preferred_for_deep():
    small, large = server("a", "m-7b", windows={"m-7b": 32_000}), server("b", "m-7b", windows={"m-7b": 4_096})

    assert proposed(small, large) == (["b", "a"], ["a", "b"])


def test_a_model_brings_its_own_window_and_keeps_what_was_thought_where_it_has_none():
    found = server("a", "x-7b", "y-7b", "z-7b", windows={"x-7b": 4_096, "y-7b": 8_192}, kind="lmstudio")
    (offer,) = offer_locals(PRESETS, {"a": found}, is_alone=True).all

    assert (offer.model, offer.facts["window_tokens"]) == ("x-7b", 4_096)
    assert with_local_model(offer, "y-7b", found).facts["window_tokens"] == 8_192
    assert with_local_model(offer, "z-7b", found).facts["window_tokens"] == 4_096


def test_slots_are_written_for_both_tiers_and_a_wait_for_fast_alone():
    found = {"a": server("a", "x-7b", slots=4), "b": server("b", "y-70b")}
    offers = offer_locals(PRESETS, found, is_alone=True)
    chosen = {tier: list(offers.proposed[tier]) for tier in Tier}

    add_quotas(chosen, found)

    assert chosen[Tier.FAST][0].facts["quota"] == {"in_flight": 4, "max_wait_seconds": 5}
    assert "quota" not in chosen[Tier.DEEP][0].facts


def test_a_server_without_another_one_to_go_to_may_be_waited_for_longer():
    found = {"a": server("a", "x-7b", slots=1)}
    (offer,) = offer_locals(PRESETS, found, is_alone=True).all
    chosen = {Tier.FAST: [offer], Tier.DEEP: [offer]}

    add_quotas(chosen, found)

    assert chosen[Tier.FAST][0].facts["quota"] == {"in_flight": 1, "max_wait_seconds": 60}
    assert chosen[Tier.DEEP][0].facts["quota"] == {"in_flight": 1}


def test_a_window_that_is_a_guess_is_said_once(capsys):
    found = {"a": server("a", "x-7b"), "b": server("b", "y-7b", windows={"y-7b": 8_192})}
    offers = offer_locals(PRESETS, found, is_alone=True).all

    say_windows({Tier.FAST: offers, Tier.DEEP: offers}, found)

    told = capsys.readouterr().err
    assert told.count("is a guess") == 1
    assert "the window of x-7b: 32000 is a guess" in told
