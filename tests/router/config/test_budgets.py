"""What budgets need of a config."""

import pytest

from router.config.budgets import check_recorded
from router.config.faults import ConfigError
from router.contract.keys import make_key
from tests.tools.configs import faults_in, load_text
from tests.tools.running import two_targets

PRICED = {"fast_extra": "price: {input: 1, output: 10},", "deep_extra": "price: {input: 1, output: 10},"}
KEYS = "keys: {file: keys.yaml}"


@pytest.fixture
def write(tmp_path):
    """Writes `keys.yaml` with these rights of ada."""

    def fill(rights: str) -> None:
        key = make_key()
        path = tmp_path / "keys.yaml"
        path.write_text(
            f"callers: {{ada: {{{rights}, keys: [{{id: '{key.id}', sha256: {key.digest.hex()}, created: 2026-11-16}}]}}}}"
        )
        path.chmod(0o600)

    return fill


def config(extra: str = "", **more: str) -> str:
    return two_targets("http://127.0.0.1:1/v1", "http://127.0.0.1:1/v1", extra=f"{KEYS}\n{extra}", **more)


@pytest.mark.parametrize("budget", ["daily_usd: 1", "monthly_usd: 9.5"])
def test_a_target_without_a_price_is_named_with_the_callers_whose_budget_needs_it(write, tmp_path, budget):
    write(budget)

    (fault,) = faults_in(config(fast_extra=PRICED["fast_extra"]), tmp_path)

    assert fault.path == "tiers.deep.targets[0].price"
    assert fault.problem == 'target "sage" has no price, which the budgets of ada need'


def test_a_tier_that_no_owner_of_a_budget_may_use_needs_no_price(write, tmp_path):
    write("daily_usd: 1, tiers: [fast]")

    assert load_text(config(fast_extra=PRICED["fast_extra"]), tmp_path).keys


def test_without_budgets_no_price_is_needed(write, tmp_path):
    write("requests_per_minute: 9")

    assert load_text(config(), tmp_path).keys


def test_budgets_need_a_ledger(write, tmp_path):
    write("daily_usd: 1")

    (fault,) = faults_in(config(**PRICED).replace("path: test.db", 'path: ""'), tmp_path)

    assert (fault.path, fault.hint) == ("ledger.path", "set a path, such as tandem.db")


def test_a_router_that_is_to_serve_without_its_ledger_is_refused_only_with_budgets(write, tmp_path):
    write("daily_usd: 1")
    loaded = load_text(config(**PRICED), tmp_path)

    check_recorded(loaded.keys, loaded.source, with_ledger=True)
    check_recorded(None, loaded.source, with_ledger=False)
    with pytest.raises(ConfigError, match="the budgets of ada need one: without a ledger, a restart would forget"):
        check_recorded(loaded.keys, loaded.source, with_ledger=False)


@pytest.mark.parametrize(("budget", "days", "is_warned"), [("monthly_usd: 9", 30, True), ("monthly_usd: 9", 31, False), ("daily_usd: 9", 1, False)])  # fmt: skip
def test_a_ledger_that_forgets_before_the_month_is_over_is_warned_about(write, tmp_path, budget, days, is_warned):
    write(budget)

    loaded = load_text(config(**PRICED).replace("path: test.db", f"path: test.db, keep_days: {days}"), tmp_path)

    assert any("ledger.keep_days" in warning for warning in loaded.warnings) is is_warned


def test_an_unknown_time_zone_is_a_fault(write, tmp_path):
    write("daily_usd: 1")

    (fault,) = faults_in(config("budgets: {time_zone: Europe/Berlinn}", **PRICED), tmp_path)

    assert str(fault) == 'budgets.time_zone: unknown time zone "Europe/Berlinn"; names are like UTC or Europe/Berlin'
