"""What several blocks must agree on, and what is valid but rarely meant."""

import pytest

from router.config.across import check_passed, check_recorded, proxy_warnings
from router.config.faults import ConfigError, Fault
from router.config.target_settings import TargetSettings
from router.contract.keys import make_key
from router.wiring.build import known_names
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


TIERS = """
tiers:
  fast: {{targets: [{{name: spark, base_url: "https://api.groq.example/openai/v1", {spark}}}]}}
  deep: {{targets: [{{name: sage, adapter: simulated, {sage}}}]}}
"""


def faults_of_block(block: str, *, spark="") -> list[str]:
    return [str(fault) for fault in faults_in(f"{block}\n" + TIERS.format(spark=spark, sage=""))]


def test_no_route_is_passed_on_by_default_and_each_takes_a_target():
    tiers = TIERS.format(spark="", sage="")

    assert load_text(tiers).config.pass_through == {}
    named = load_text(f"pass_through: {{embeddings: spark, audio: spark}}\n{tiers}").config.pass_through
    assert named == {"embeddings": "spark", "audio": "spark"}


def test_a_route_needs_a_known_target_with_an_address():
    unknown, simulated = faults_of_block("pass_through: {embeddings: sprak, files: sage}")

    assert unknown.startswith('pass_through.embeddings: "sprak" is not a target')
    assert "spark?" in unknown
    assert simulated.startswith('pass_through.files: "sage" cannot serve files: adapter simulated handles conversations only')
    assert "name one of spark" in simulated


def test_a_plan_serves_no_other_route():
    plan = {"dialect": "responses", "base_url": "https://chatgpt.com/backend-api/codex", "api_key": "caller", "billing": "plan"}
    faults: list[Fault] = []

    check_passed([("files", "mine")], {"mine": TargetSettings(name="mine", **plan)}, known_names(), faults)

    assert [(fault.path, fault.hint) for fault in faults] == [("pass_through.files", "name a target with an API key")]


def test_an_unknown_route_is_a_fault_and_hides_no_other():
    faults = faults_of_block("pass_through: {chat: spark, embeddings: sprak}")

    assert any(fault.startswith("pass_through.chat") and "embeddings" in fault for fault in faults)
    assert any('"sprak" is not a target' in fault for fault in faults)


REMOTE = ["https://api.example.com/v1"]


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch):
    for name in ("HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


def test_a_proxy_for_everything_is_reported_as_not_read(monkeypatch):
    monkeypatch.setenv("ALL_PROXY", "http://u:s3cret-word@proxy.corp:3128")

    (warning,) = proxy_warnings(REMOTE)

    assert warning.startswith("ALL_PROXY is not read")
    assert "set HTTPS_PROXY" in warning
    assert "s3cret-word" not in warning


@pytest.mark.parametrize("name", ["HTTPS_PROXY", "ALL_PROXY", "all_proxy"])
def test_a_socks_proxy_is_reported_as_not_supported(monkeypatch, name):
    monkeypatch.setenv(name, "socks5://u:s3cret-word@proxy.corp:1080")

    (warning,) = proxy_warnings(REMOTE)

    assert name in warning
    assert "not supported" in warning
    assert "s3cret-word" not in warning


@pytest.mark.parametrize(
    ("variables", "addresses"),
    [
        ({}, REMOTE),
        ({"HTTPS_PROXY": "http://proxy:1", "ALL_PROXY": "socks5://proxy:1"}, REMOTE),
        ({"HTTPS_PROXY": "proxy:3128"}, REMOTE),
        ({"ALL_PROXY": "http://proxy:1"}, ["https://localhost/v1", "http://models.corp/v1", ""]),
        ({"ALL_PROXY": "http://proxy:1", "NO_PROXY": "*"}, REMOTE),
    ],
)
def test_nothing_is_said_where_no_proxy_is_passed_over(monkeypatch, variables, addresses):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    assert proxy_warnings(addresses) == []


@pytest.mark.parametrize("url", ["http://me:p[ss@proxy.example:8080", "http://me:p\N{ACCOUNT OF}ss@proxy.example:8080"])
def test_a_password_that_is_not_percent_encoded_stops_nothing(monkeypatch, url):
    monkeypatch.setenv("HTTPS_PROXY", url)

    assert proxy_warnings(["https://api.example.com/v1"]) == []
