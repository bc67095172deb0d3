"""The regret of a ledger in the words of `tandem stats`, and where its prices come from."""

import argparse

import pytest

from router.cli.past.regret import Prices, say_bound, write_rows
from router.cli.routers import Router, note_router
from router.lab.lookback import Lookback
from router.lab.regret import Figure, Regret, Sure

FAST = "tiers:\n  fast: {targets: [{name: spark, adapter: openai_http, base_url: 'http://x/v1', api_key: env:NO_SUCH_KEY, "
DEEP = "  deep: {targets: [{name: sage, adapter: openai_http, base_url: 'http://x/v1'}]}\n"


def config(price: float) -> str:
    return f"{FAST}price: {{input: {price}, output: 2}}}}]}}\n{DEEP}"


@pytest.fixture
def arguments():
    return argparse.Namespace(config=None)


def test_prices_are_read_from_the_config_here_without_the_keys_of_its_targets(here, arguments):
    (here / "config.yaml").write_text(config(3.0))

    prices = Prices(arguments, here / "test.db")

    assert prices.of("spark").input == 3.0
    assert prices.of("sage") is None


def test_prices_are_those_of_the_router_that_wrote_the_ledger(here, arguments):
    (here / "other.yaml").write_text(config(7.0))
    (here / "config.yaml").write_text(config(3.0))
    (here / "test.db").touch()
    note_router(Router("http://127.0.0.1:1", here / "test.db", 1.0, here / "other.yaml"))

    assert Prices(arguments, here / "test.db").of("spark").input == 7.0
    assert Prices(argparse.Namespace(config=str(here / "config.yaml")), here / "test.db").of("spark").input == 3.0


def test_a_config_with_faults_has_no_prices(here, arguments):
    (here / "config.yaml").write_text("tiers: 3\n")

    assert Prices(arguments, here / "test.db").of("spark") is None


def look(value: float, unit: str, count: int = 2) -> Lookback:
    name = {"seconds": "saved_seconds", "usd": "saved_usd", "tokens": "after_interrupt_tokens"}[unit]
    return Lookback(Regret(2, {name: Figure(value, unit, Sure.ESTIMATED, "", (), count)}), 0.0, 9e8, is_complete=False)


@pytest.mark.parametrize(
    ("value", "unit", "count", "shown"),
    [
        (75.0, "seconds", 2, "1m15"),
        (-75.0, "seconds", 2, "-1m15"),
        (0.25, "usd", 2, "$0.25"),
        (-0.25, "usd", 2, "-$0.25"),
        (0.0, "usd", 0, "-"),
        (1_200, "tokens", 2, "1.2k"),
    ],
)
def test_a_figure_is_written_with_its_sign_and_unit(value, unit, count, shown):
    ((_, written, number, sure),) = write_rows(look(value, unit, count))

    assert (written, number, sure) == (shown, str(count), "estimated")


def test_how_far_back_it_goes_is_said_only_where_that_is_less_than_asked_for():
    bounded = look(1.0, "seconds")

    assert "newest 10,000 rows, since" in say_bound(bounded)
    assert say_bound(bounded._replace(is_complete=True)) == ""
