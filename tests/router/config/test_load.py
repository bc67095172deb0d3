import time
from pathlib import Path

import pytest

from router.config.load import ConfigError, check_config, default_text, find_config, load_config
from router.wiring import known_names
from tests.conftest import SIMULATED
from tests.tools.running import two_targets


def faults_of(text: str) -> dict[str, str]:
    with pytest.raises(ConfigError) as caught:
        check_config(text, "test", Path("."), known_names())
    return {fault.path: f"{fault.problem} {fault.hint}" for fault in caught.value.faults}


def test_the_shipped_default_is_good_and_simulated():
    loaded = check_config(default_text(), "default", Path("."), known_names())

    assert loaded.is_simulated
    assert loaded.warnings == ()


def test_every_ready_block_of_the_default_is_a_good_target_once_uncommented(monkeypatch):
    from router.cli.init import Tier, _ready_blocks, _section

    text = default_text()
    blocks = {tier: _ready_blocks(_section(text, tier)) for tier in Tier}
    for ready in (*blocks[Tier.FAST], *blocks[Tier.DEEP]):
        if ready.variable:
            monkeypatch.setenv(ready.variable, "x")
    config = "tiers:\n" + "".join(f"  {tier}:\n    targets:\n" + "".join(ready.text for ready in blocks[tier]) for tier in Tier)

    loaded = check_config(config, "blocks", Path("."), known_names())

    names = {plan.target.name for plan in loaded.targets}
    assert {"cerebras", "groq", "ollama", "vllm", "llamacpp", "openai", "anthropic", "openrouter", "azure"} <= names


def test_all_faults_are_reported_at_once_with_their_paths():
    config = """
server: {port: 99999}
preferense: speed
tiers:
  fast: {targets: []}
  deep: {targets: [{name: a b, window_tokens: big}]}
"""

    faults = faults_of(config)

    assert {
        "server.port",
        "preferense",
        "tiers.fast.targets",
        "tiers.deep.targets[0].name",
        "tiers.deep.targets[0].window_tokens",
    } <= set(faults)
    assert "no such setting" in faults["preferense"]


def test_what_only_the_whole_config_shows_is_reported_at_once_too(monkeypatch):
    monkeypatch.delenv("MISSING_KEY", raising=False)
    config = """
models: {x: nobody}
policies: [override, oracle, override, {window: {output_reserve_tokens: -1}}]
tiers:
  fast:
    targets:
      - {name: a, adapter: telepathy}
      - {name: b, adapter: openai_http}
      - {name: c, adapter: openai_http, base_url: "http://x", dialect: messages, api_key: "env:MISSING_KEY"}
  deep:
    targets: [{name: b, adapter: simulated, simulated: {speed: 3}}, {name: deep, adapter: simulated}]
"""

    faults = faults_of(config)

    assert set(faults) == {
        "models.x",
        "policies[1]",
        "policies[2]",
        "policies[3].window.output_reserve_tokens",
        "tiers.fast.targets[0].adapter",
        "tiers.fast.targets[1].base_url",
        "tiers.fast.targets[2].dialect",
        "tiers.fast.targets[2].api_key",
        "tiers.deep.targets[0].name",
        "tiers.deep.targets[0].simulated.speed",
        "tiers.deep.targets[1].name",
    }
    assert "known: openai_http, anthropic_http, litellm, simulated" in faults["tiers.fast.targets[0].adapter"]


def test_a_fault_in_one_place_does_not_hide_those_in_others():
    config = """
spill_over: maybe
policies: [override, lerned]
tiers:
  fast: {targets: [{name: a, adapter: openai_http}, {name: b, adaptor: openai_http, base_url: "http://x"}]}
  deep: {targets: [{name: c, windowtokens: 5, adapter: simulated}]}
"""

    faults = faults_of(config)

    assert set(faults) == {
        "spill_over",
        "policies[1]",
        "tiers.fast.targets[0].base_url",
        "tiers.fast.targets[1].adaptor",
        "tiers.deep.targets[0].windowtokens",
    }
    assert "did you mean learned?" in faults["policies[1]"]
    assert "did you mean adapter?" in faults["tiers.fast.targets[1].adaptor"]
    assert "did you mean window_tokens?" in faults["tiers.deep.targets[0].windowtokens"]


def test_the_store_must_not_be_the_ledgers_own_file():
    faults = faults_of(SIMULATED + "store: {path: ./test.db}\n")

    assert "ledger" in faults["store.path"]


def test_a_key_that_stands_twice_is_a_fault():
    assert any(
        '"preference" stands twice' in problem
        for problem in faults_of(SIMULATED + "preference: speed\npreference: quality\n").values()
    )


def test_targets_without_figures_are_as_fast_as_their_tier_is_meant_to_be():
    config = "tiers: {fast: {targets: [{name: a, base_url: 'http://x', typical: {ttft_seconds: 0.1}}]}, deep: {targets: [{name: b, base_url: 'http://x'}]}}"

    fast, deep = (plan.target.typical for plan in check_config(config, "t", Path("."), known_names()).targets)

    assert (fast.ttft_seconds, fast.tokens_per_second) == (0.1, 600)
    assert deep.tokens_per_second == 70


def test_a_simulated_target_is_typically_as_it_is_told_to_behave():
    config = "tiers: {fast: {targets: [{name: a, adapter: simulated, simulated: {tokens_per_second: 777}}]}, deep: {targets: [{name: b, adapter: simulated}]}}"

    assert check_config(config, "t", Path("."), known_names()).targets[0].target.typical.tokens_per_second == 777


@pytest.mark.parametrize("url", ["ftp://x", "http://u:p@x/v1", "http://x/v1?key=1"])
def test_an_address_holds_no_credentials_or_query(url):
    assert "tiers.fast.targets[0].base_url" in faults_of(two_targets(url, "http://x/v1"))


@pytest.mark.parametrize(
    "text",
    [
        "a: &a [x, x]\nb: [*a, *a]\n",
        "x: !!python/object/apply:os.system ['true']\n",
        "[" * 100_000,
        "just words",
        "a: b: c",
        "",
    ],
)
def test_yaml_that_is_a_trap_or_no_config_is_refused_quickly(text):
    began = time.perf_counter()

    assert faults_of(text)

    assert time.perf_counter() - began < 0.5


def test_a_literal_key_works_with_a_warning_and_is_never_echoed():
    loaded = check_config(
        two_targets("http://x/v1", "http://x/v1", fast_extra="api_key: sk-literal,"), "t", Path("."), known_names()
    )

    assert "api_key" in loaded.warnings[0]
    assert "sk-literal" not in repr(loaded.targets)
    assert "sk-literal" not in " ".join(loaded.warnings)


def test_a_quota_is_read_and_said_to_be_unenforced():
    loaded = check_config(
        two_targets("http://x/v1", "http://x/v1", fast_extra="quota: {in_flight: 8},"), "t", Path("."), known_names()
    )

    assert "not enforced" in loaded.warnings[0]


def test_a_target_takes_its_timeouts_from_limits_where_it_has_none():
    config = two_targets(
        "http://x/v1",
        "http://x/v1",
        fast_extra="timeouts: {stall_seconds: 7},",
        extra="limits: {first_byte_timeout_seconds: 9}",
    )

    timeouts = check_config(config, "t", Path("."), known_names()).targets[0].target.timeouts

    assert (timeouts.stall_seconds, timeouts.first_byte_seconds, timeouts.connect_seconds) == (7, 9, 5)


def test_the_config_is_looked_for_in_order(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("TANDEM_CONFIG", raising=False)

    assert find_config(None) is None
    (tmp_path / "home" / "tandem").mkdir(parents=True)
    (tmp_path / "home" / "tandem" / "config.yaml").write_text("x")
    assert find_config(None) == tmp_path / "home" / "tandem" / "config.yaml"
    (tmp_path / "config.yaml").write_text("x")
    assert find_config(None) == Path("config.yaml")
    monkeypatch.setenv("TANDEM_CONFIG", "/a")
    assert find_config(None) == Path("/a")
    assert find_config("/b") == Path("/b")


def test_a_file_that_is_not_there_is_said(tmp_path):
    with pytest.raises(ConfigError, match="1 fault"):
        load_config(tmp_path / "none.yaml", known_names())


def test_a_relative_ledger_path_is_relative_to_the_file(tmp_path):
    (tmp_path / "config.yaml").write_text(SIMULATED)

    assert load_config(tmp_path / "config.yaml", known_names()).ledger_path == tmp_path / "test.db"


def test_the_fingerprint_changes_with_the_config():
    one = check_config(SIMULATED, "t", Path("."), known_names()).fingerprint
    two = check_config(SIMULATED + "preference: speed\n", "t", Path("."), known_names()).fingerprint

    assert one != two
