import json
from pathlib import Path

import pytest
import yaml

import policies
from policies.reading import FORMAT
from router.config.load import ConfigError, default_text, load_config
from router.contract.target import Quota
from router.contract.words import Dialect, Operation
from router.wiring.build import known_names
from tests.conftest import SIMULATED
from tests.tools.configs import faults_in, load_text
from tests.tools.running import two_targets
from tests.tools.work import cost_ratio


def faults_of(text: str, folder: Path = Path(".")) -> dict[str, str]:
    return {fault.path: f"{fault.problem} {fault.hint}" for fault in faults_in(text, folder)}


def test_the_shipped_default_is_good_and_simulated():
    loaded = load_text(default_text())

    assert loaded.is_simulated
    assert loaded.warnings == ()


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
    targets: [{name: b, adapter: simulated, options: {speed: 3}}, {name: deep, adapter: simulated}]
"""

    faults = faults_of(config)

    assert set(faults) == {
        "models.x", "policies[1]", "policies[2]", "policies[3].window.output_reserve_tokens",
        "tiers.fast.targets[0].adapter", "tiers.fast.targets[1].base_url", "tiers.fast.targets[2].dialect",
        "tiers.fast.targets[2].api_key", "tiers.deep.targets[0].name", "tiers.deep.targets[0].options.speed",
        "tiers.deep.targets[1].name",
    }  # fmt: skip
    assert "known: openai_http, anthropic_http, litellm, simulated" in faults["tiers.fast.targets[0].adapter"]


def test_a_fault_in_one_place_does_not_hide_those_in_others():
    config = """
server: {port: 99999}
spill_over: maybe
rules: [{when: {turn: ask}}]
policies: [override, lerned, {learned: {weights: own/mine.weights}}]
tiers:
  fast: {targets: [{name: a, adapter: openai_http}, {name: b, adaptor: openai_http, base_url: "http://x"}]}
  deep: {targets: [{name: c, windowtokens: 5, adapter: simulated}, {name: d, base_url: 7, window_tokens: big}]}
"""

    told, faults = [fault.path for fault in faults_in(config)], faults_of(config)

    assert sorted(told) == [
        "policies[1]", "policies[2].learned.weights", "rules[0]", "server.port", "spill_over",
        "tiers.deep.targets[0].windowtokens", "tiers.deep.targets[1].base_url", "tiers.deep.targets[1].window_tokens",
        "tiers.fast.targets[0].base_url", "tiers.fast.targets[1].adaptor",
    ]  # fmt: skip
    assert "did you mean learned?" in faults["policies[1]"]
    assert "did you mean adapter?" in faults["tiers.fast.targets[1].adaptor"]
    assert "did you mean window_tokens?" in faults["tiers.deep.targets[0].windowtokens"]


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
def test_yaml_that_is_a_trap_or_no_config_is_refused(text):
    assert faults_of(text)


def test_yaml_that_would_grow_without_bound_is_refused_before_it_does():
    levels = [f"a{level}: &a{level} [*a{level - 1}, *a{level - 1}]" for level in range(1, 64)]

    assert faults_of("\n".join(["a0: &a0 [x, x]", *levels]))


def test_deep_yaml_is_refused_at_a_cost_in_proportion_to_its_length():
    assert cost_ratio(lambda: faults_of("[" * 400_000), lambda: faults_of("[" * 50_000), repeats=3) < 24


def test_a_literal_key_works_with_a_warning_and_is_never_echoed():
    loaded = load_text(two_targets("http://x/v1", "http://x/v1", fast_extra="api_key: sk-literal,"))

    assert "api_key" in loaded.warnings[0]
    assert "sk-literal" not in repr(loaded.targets)
    assert "sk-literal" not in " ".join(loaded.warnings)


def test_a_quota_belongs_to_its_target_and_needs_no_warning():
    loaded = load_text(two_targets("http://x/v1", "http://x/v1", fast_extra="quota: {in_flight: 8},"))

    assert [plan.target.quota for plan in loaded.targets] == [Quota(in_flight=8), None]
    assert loaded.warnings == ()


def test_the_longest_wait_of_a_quota_counts():
    loaded = load_text(two_targets("http://x/v1", "http://x/v1", fast_extra="quota: {max_wait_seconds: 2},"))

    assert [plan.target.max_wait_seconds for plan in loaded.targets] == [2.0, None]
    assert loaded.warnings == ()


def test_entries_after_a_malformed_one_keep_their_own_place():
    faults = faults_of(SIMULATED + "policies: [5, lerned]\nrules: [5, {when: {turn: ask}}]\n")

    assert set(faults) == {"policies[0]", "policies[1]", "rules[0]", "rules[1]"}
    assert "did you mean learned?" in faults["policies[1]"]


@pytest.mark.parametrize("path", ["null", "''"])
def test_a_ledger_without_a_path_is_no_ledger(path):
    loaded = load_text(SIMULATED.replace("path: test.db", f"path: {path}"))

    assert loaded.ledger_path is None


def test_a_file_that_is_not_there_is_said(tmp_path):
    with pytest.raises(ConfigError, match="1 problem"):
        load_config(tmp_path / "none.yaml", known_names())


def test_a_relative_ledger_path_is_relative_to_the_file(tmp_path):
    (tmp_path / "config.yaml").write_text(SIMULATED)

    assert load_config(tmp_path / "config.yaml", known_names()).ledger_path == tmp_path / "test.db"


def test_the_fingerprint_changes_with_the_config():
    one = load_text(SIMULATED).fingerprint
    two = load_text(SIMULATED + "preference: speed\n").fingerprint

    assert one != two


def load(extra: str, folder: Path = Path(".")):
    return load_text(SIMULATED + extra, folder)


@pytest.mark.parametrize("listed", ["", "policies: [override]\n", "policies: [rules, override]\n"])
def test_rules_are_asked_wherever_there_are_some_listed_or_not(listed):
    loaded = load(f"rules: [{{when: {{words: bump}}, tier: fast}}]\n{listed}")

    ((_, settings),) = [entry for entry in loaded.policies if entry[0] == "rules"]
    assert [(rule.when.words, rule.tier) for rule in settings.rules] == [(("bump",), "fast")]


@pytest.mark.parametrize(
    ("rule", "path", "said"),
    [
        ("{when: {words: bump}, tier: turbo}", "rules[0].tier", "'fast' or 'deep', not 'turbo'"),
        ("{when: {words: bump}}", "rules[0]", "give exactly one of tier (fast or deep) and lean (a number)"),
        ("{when: {words: bump}, tier: fast, lean: 1}", "rules[0]", "give exactly one"),
        ("{when: {}, tier: fast}", "rules[0].when", "name at least one of words, client, turn, has, more_than_tokens"),
        ("{tier: fast}", "rules[0].when", "missing"),
        ("{when: {wrds: bump}, tier: fast}", "rules[0].when.wrds", "no such setting"),
        ("{when: {words: '--'}, tier: fast}", "rules[0].when.words", "contains no word"),
        ("{when: {turn: lunch}, tier: fast}", "rules[0].when.turn", "not 'lunch'"),
        ("{when: {turn: ask}, lean: 11}", "rules[0].lean", "must be at most 10, not 11"),
    ],
)
def test_a_rule_that_cannot_be_followed_is_a_fault_with_its_place(rule, path, said):
    faults = faults_of(f"{SIMULATED}rules: [{rule}]\n")

    assert set(faults) == {path}
    assert said in faults[path]


@pytest.fixture
def own_weights(tmp_path) -> bytes:
    """The shipped weights in a folder of one's own, with another note of what they were trained on: other bytes."""
    shipped = (Path(policies.__file__).parent / "learned.weights").read_bytes()
    line, _, table = shipped.partition(b"\n")
    content = json.dumps({**json.loads(line), "trained_on": {"data": "mine"}}).encode() + b"\n" + table
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "mine.weights").write_bytes(content)
    return content


OWN = "policies: [override, {learned: {weights: own/mine.weights}}]\n"


def test_weights_are_found_relative_to_the_file_that_names_them(own_weights, tmp_path, monkeypatch):
    monkeypatch.chdir("/")

    loaded = load(OWN, tmp_path)

    assert loaded.weights_fingerprint not in ("", load("").weights_fingerprint)


def test_without_the_reading_no_weights_are_in_use():
    assert load("policies: [override]\n").weights_fingerprint == ""


@pytest.mark.parametrize(("damage", "said"), [
    (lambda content: None, "No such file"),
    (lambda content: b"not weights", "weights file"),
    (lambda content: content[:-1], "damaged"),
    (lambda content: content.replace(f'"format": {FORMAT}'.encode(), b'"format": 1', 1), "format 1"),
    (lambda content: f'{{"format":{FORMAT}}}\n'.encode() + bytes(262_144), "incompatible weights file"),
], ids=["missing", "text", "cut short", "older", "empty"])  # fmt: skip
def test_weights_that_cannot_be_read_are_a_fault_with_the_path_of_the_file(own_weights, tmp_path, damage, said):
    path = tmp_path / "own" / "mine.weights"
    content = damage(own_weights)
    path.unlink()
    if content is not None:
        path.write_bytes(content)

    faults = faults_of(SIMULATED + OWN, tmp_path)

    assert set(faults) == {"policies[1].learned.weights"}
    assert str(path) in faults["policies[1].learned.weights"]
    assert said in faults["policies[1].learned.weights"]


def test_rules_in_two_places_are_a_fault(tmp_path):
    rule = "{when: {words: bump}, tier: fast}"
    text = f"rules: [{rule}]\npolicies: [{{rules: {{rules: [{rule}]}}}}]\n" + TIERS_ONLY

    assert set(faults_of(text, tmp_path)) == {"rules"}


TIERS_ONLY = """
tiers:
  fast: {targets: [{name: quick, adapter: simulated}]}
  deep: {targets: [{name: thorough, adapter: simulated}]}
"""


def test_a_rule_for_a_client_that_nobody_knows_is_a_fault(tmp_path):
    text = "rules: [{when: {client: codx}, tier: fast}]\n" + TIERS_ONLY

    (fault,) = faults_in(text, tmp_path)

    assert (fault.path, fault.problem) == ("rules[0].when.client", 'unknown client "codx"')
    assert "did you mean codex?" in fault.hint


@pytest.mark.parametrize("name", ["claude-fast", "gpt-*", "*", "fast"])
def test_a_shipped_model_name_may_be_taken_away(name):
    loaded = load_text(f"{two_targets('http://a/v1', 'http://b/v1')}models: {{'{name}': null}}\n")

    assert loaded.config.models == {name: None}


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("auto", "cannot be removed"),
        ("claude-fats", "did you mean claude-fast?"),
        ("simulated-fast", "this is not one"),
        ("gpt*", "this is not one"),
    ],
)
def test_only_a_shipped_model_name_can_be_taken_away(name, said):
    faults = faults_of(f"{two_targets('http://a/v1', 'http://b/v1')}models: {{'{name}': null}}\n")

    assert said in faults[f"models.{name}"]


@pytest.mark.parametrize("key", ["sk-a\\r\\nx-evil: 1", "sk-a\\n", " sk-a", "sk-a\\0", "sk-\u2026", "env:NAME\\n", "env:A\\nB"])
def test_a_key_that_no_header_can_hold_is_a_fault_and_never_echoed(key):
    text = two_targets("http://a/v1", "http://b/v1", fast_extra=f'api_key: "{key}",')

    problem = faults_of(text)["tiers.fast.targets[0].api_key"]

    assert "must not contain line breaks" in problem
    assert "sk-" not in problem


def test_what_surrounds_a_key_in_the_environment_is_left_out_with_a_warning(monkeypatch):
    monkeypatch.setenv("A_KEY", " sk-from-a-file\r\n")
    text = two_targets("http://a/v1", "http://b/v1", fast_extra="api_key: env:A_KEY,")

    loaded = load_text(text)

    assert loaded.targets[0].endpoint.api_key.reveal() == "sk-from-a-file"
    assert loaded.warnings == (
        "tiers.fast.targets[0].api_key: env:A_KEY has spaces or a line break around it, which are ignored",
    )


@pytest.mark.parametrize(
    ("value", "said"),
    [("sk-a\nb", "line break"), ("sk-\u2026", "ASCII"), ("  \n", "is set, but empty"), ("sk-a\rb", "cannot be sent")],
)
def test_a_key_in_the_environment_that_cannot_be_sent_is_a_fault_and_never_echoed(monkeypatch, value, said):
    monkeypatch.setenv("A_KEY", value)

    problem = faults_of(two_targets("http://a/v1", "http://b/v1", fast_extra="api_key: env:A_KEY,"))[
        "tiers.fast.targets[0].api_key"
    ]

    assert said in problem
    assert "sk-" not in problem


def mapping_of(keys: int) -> str:
    return SIMULATED + "effort:\n" + "".join(f"  key{key}: x\n" for key in range(keys))


def list_of(entries: int) -> str:
    return SIMULATED + "policies:\n" + "  - nobody\n" * entries


def settings_of(keys: int) -> str:
    return SIMULATED + "".join(f"key{key}: x\n" for key in range(keys))


@pytest.mark.parametrize(("write", "entries"), [(mapping_of, 12_000), (list_of, 4_000), (settings_of, 2_000)])
def test_a_large_file_is_checked_in_the_time_that_it_takes_to_parse_it(write, entries):
    text = write(entries)

    assert cost_ratio(lambda: faults_of(text), lambda: yaml.safe_load(text), repeats=2) < 2


def test_a_file_with_thousands_of_faults_names_the_first_and_counts_the_rest():
    faults = faults_of(settings_of(2_000))

    assert len(faults) == 101
    assert faults["file"].strip() == "1900 more problems"


def test_a_price_per_token_is_warned_of():
    extra = "price: {input: 0.0000025, output: 0.00001},"

    loaded = load_text(two_targets("http://a/v1", "http://b/v1", fast_extra=extra))

    (price,) = loaded.warnings
    assert "tiers.fast.targets[0].price: is in USD per million tokens; 1e-05 looks like a price per token" in price


def test_a_quote_that_is_not_closed_in_env_is_a_fault_and_its_value_is_not_shown(tmp_path, monkeypatch):
    monkeypatch.delenv("A_KEY", raising=False)
    (tmp_path / ".env").write_text('A_KEY="sk-canary\n')

    faults = faults_in(two_targets("http://a/v1", "http://b/v1", fast_extra="api_key: env:A_KEY,"), tmp_path)

    assert [str(fault).split("\n")[0] for fault in faults] == [".env: A_KEY: its quote is not closed"]


def test_a_header_that_looks_like_a_key_is_warned_of_and_not_shown():
    extra = "headers: {x-gateway: Bearer gateway0canary0123456789, x-portkey-provider: openai, x-b: env:HOME},"
    loaded = load_text(two_targets("http://x/v1", "http://y/v1", fast_extra=extra))

    (warning,) = [text for text in loaded.warnings if "looks like a key" in text]
    assert "x-gateway" in warning
    assert "canary" not in warning


@pytest.mark.parametrize("setting", ["headers", "query"])
def test_a_header_that_is_written_as_one_text_is_a_fault_and_never_echoed(setting):
    text = two_targets("http://a.example/v1", "http://b.example/v1", fast_extra=f'{setting}: "Bearer sk-canary",')

    found = faults_of(text)

    assert found[f"tiers.fast.targets[0].{setting}"].startswith("must be a block of settings")
    assert "sk-canary" not in str(found)


def test_the_key_of_the_metrics_is_read_from_its_variable(monkeypatch):
    monkeypatch.setenv("SCRAPE_KEY", "s3cret\n")

    loaded = load_text(two_targets("http://a/v1", "http://b/v1", extra="metrics: {key: env:SCRAPE_KEY}"))

    assert loaded.metrics_key.reveal() == "s3cret"
    assert "s3cret" not in repr(loaded)


@pytest.mark.parametrize(
    ("key", "problem"),
    [
        ("s3cret-in-the-config", "must name a variable"),
        ("caller", "must name a variable"),
        ("env:NOT_SET_ANYWHERE", "env:NOT_SET_ANYWHERE is not set"),
        ("env:tdm-0123456789abcdefghij", "env:***: env: takes the name of a variable"),
    ],
)
def test_a_key_of_the_metrics_that_is_no_variable_with_a_value_is_a_fault(key, problem):
    fault = faults_of(two_targets("http://a/v1", "http://b/v1", extra=f'metrics: {{key: "{key}"}}'))["metrics.key"]

    assert fault.startswith(problem)
    assert "s3cret" not in fault


def test_metrics_that_are_off_need_no_key():
    loaded = load_text(two_targets("http://a/v1", "http://b/v1", extra="metrics: {on: false, key: env:NOT_SET_ANYWHERE}"))

    assert loaded.metrics_key is None


def test_a_wrong_dialect_an_unknown_adapter_a_double_name_and_a_missing_key_are_told_in_one_round(monkeypatch):
    monkeypatch.delenv("NOWHERE_KEY", raising=False)
    text = """
models: {x: nobody}
ledger: {path: same.db}
store: {path: same.db}
tiers:
  fast:
    targets:
      - {name: a, base_url: http://h/v1, dialect: klingon, api_key: env:NOWHERE_KEY}
      - {name: a, adapter: telepathy}
  deep: {targets: []}
"""
    told = {fault.path: fault.problem for fault in faults_in(text)}

    assert set(told) == {
        "tiers.fast.targets[0].dialect", "tiers.fast.targets[0].api_key", "tiers.fast.targets[1].name",
        "tiers.fast.targets[1].adapter", "tiers.deep.targets", "models.x", "store.path",
    }  # fmt: skip
    assert told["tiers.deep.targets"] == "needs a target"
    assert "ledger" in told["store.path"]


@pytest.mark.parametrize("name", ["", "name: a b, ", "name: 7, "])
def test_a_target_without_a_usable_name_hides_no_other_fault(name):
    text = "models: {x: nobody}\n" + TIERS_ONLY.replace("{name: quick, adapter: simulated}", f"{{{name}adapter: telepathy}}, 7")

    assert {fault.path for fault in faults_in(text)} == {
        "tiers.fast.targets[0].name",
        "tiers.fast.targets[0].adapter",
        "tiers.fast.targets[1]",
        "models.x",
    }


def test_what_a_config_says_of_traces_names_every_route_and_the_provider_of_every_target():
    terms = load("traces: {endpoint: 'http://127.0.0.1:4318', sample: 0.5}\n").trace_terms

    assert (terms.endpoint, terms.sample) == ("http://127.0.0.1:4318", 0.5)
    assert terms.routes[Dialect.CHAT, Operation.CREATE].path == "/v1/chat/completions"
    assert set(terms.providers) == {"simulated-fast", "simulated-deep"}
    assert load("").trace_terms is None


@pytest.mark.parametrize(
    ("endpoint", "problem"),
    [
        ("127.0.0.1:4318", "must begin with http:// or https://"),
        ("http://127.0.0.1:4318/v1/traces", "must not end in /v1/traces"),
        ("http://me:secret@127.0.0.1:4318", "must not contain a query, a fragment or credentials"),
        ("http://127.0.0.1:99999", "must have a port between 1 and 65535"),
    ],
)
def test_an_endpoint_for_traces_that_cannot_be_used_is_a_fault(endpoint, problem):
    faults = faults_of(f"{SIMULATED}traces: {{endpoint: '{endpoint}'}}\n")

    assert set(faults) == {"traces.endpoint"}
    assert problem in faults["traces.endpoint"]
