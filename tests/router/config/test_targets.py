"""A target's block → a target: its adapter, its options, its speed, its timeouts, and what is wrong with it."""

from pathlib import Path
from typing import Annotated, ClassVar

import pytest
from pydantic import Field

from router.config.faults import Fault, Known
from router.config.load import check_config
from router.config.models import TargetSettings
from router.config.targets import TYPICAL_SPEED, TargetBlock, TargetChecker
from router.contract.relay import Adapter, AdapterSettings
from router.contract.target import Speed
from router.contract.words import Dialect, Feature, Tier
from router.wiring import known_names
from tests.tools.running import two_targets


class WarpSettings(AdapterSettings):
    region: str = "eu"
    """Where."""
    speed: Annotated[float, Field(gt=0)] | None = None
    """Tokens per second."""
    tokens_per_second: float = 1.0
    """Only a name like that of a speed."""

    def typical_speed(self):
        return Speed(0.5, self.speed, 100.0) if self.speed else None


class WarpAdapter(Adapter):
    name: ClassVar[str] = "warp"
    speaks: ClassVar[frozenset[Dialect]] = frozenset({Dialect.MESSAGES})
    Settings: ClassVar[type[AdapterSettings]] = WarpSettings


class BoundAdapter(Adapter):
    name: ClassVar[str] = "bound"
    speaks: ClassVar[frozenset[Dialect]] = frozenset({Dialect.CHAT, Dialect.RESPONSES})
    library: ClassVar[str] = "json"


KNOWN = Known({}, {**known_names().adapters, "warp": WarpAdapter, "bound": BoundAdapter})


def check(folder: Path = Path("."), tier: Tier = Tier.FAST, **block):
    faults: list[Fault] = []
    settings = TargetSettings(**{"name": "a", "adapter": "warp", "base_url": "http://x", **block})
    plan = TargetChecker(KNOWN, folder, faults).check(TargetBlock(tier, 0, settings))
    return plan, {fault.path.removeprefix("tiers.fast.targets[0]."): f"{fault.problem} | {fault.hint}" for fault in faults}


def plan_of(**block):
    plan, faults = check(**block)
    assert faults == {}
    return plan


def faults_of(folder: Path = Path("."), **block):
    plan, faults = check(folder, **block)
    assert plan is None
    return faults


def test_an_adapter_gets_its_own_settings_from_options():
    assert plan_of(options={"region": "us"}).settings == WarpSettings(region="us")
    assert plan_of().settings == WarpSettings()


def test_all_faults_of_options_are_told_at_once_with_their_paths():
    faults = faults_of(options={"regoin": "us", "speed": 0})

    assert set(faults) == {"options.regoin", "options.speed"}
    assert "did you mean region?" in faults["options.regoin"]
    assert faults["options.speed"] == "must be more than 0, not 0 | "


def test_an_adapter_without_options_refuses_any():
    assert set(faults_of(adapter="openai_http", options={"x": 1})) == {"options.x"}


@pytest.mark.parametrize("name", ["options", "simulated"])
def test_the_simulated_adapter_takes_its_settings_under_either_name_and_faults_name_the_one_that_is_there(name):
    plan = plan_of(adapter="simulated", **{name: {"answer_tokens": 7}})

    assert plan.settings.answer_tokens == 7
    assert set(faults_of(adapter="simulated", **{name: {"answer_token": 7}})) == {f"{name}.answer_token"}


@pytest.mark.parametrize("older", [{}, {"answer_tokens": 7}])
def test_both_names_at_once_are_a_fault(older):
    faults = faults_of(adapter="simulated", options={"answer_tokens": 7}, simulated=older)

    assert faults == {"simulated": "is another name for options, and both are given | keep options"}


def test_the_older_name_is_for_the_simulated_adapter_alone():
    assert faults_of(simulated={"region": "us"}) == {
        "simulated": "only for adapter: simulated | the settings of warp are under options"
    }


def test_options_set_the_usual_speed_where_their_class_says_so_and_not_by_their_names():
    assert plan_of(options={"speed": 42}).target.typical == Speed(0.5, 42, 100.0)
    assert plan_of(options={"speed": 42}, typical={"ttft_seconds": 0.1}).target.typical == Speed(0.1, 42, 100.0)
    assert plan_of(options={"tokens_per_second": 3}).target.typical == TYPICAL_SPEED[Tier.FAST]
    assert check(tier=Tier.DEEP)[0].target.typical == TYPICAL_SPEED[Tier.DEEP]


def test_an_adapter_that_nobody_knows_is_named_with_those_that_are():
    faults = faults_of(adapter="wrap")

    assert faults["adapter"].startswith('unknown adapter "wrap" | did you mean warp? known: openai_http')


def test_a_target_speaks_one_dialect_unless_it_needs_no_address():
    assert plan_of().target.speaks == {Dialect.MESSAGES}
    assert plan_of(adapter="openai_http", dialect="responses").target.speaks == {Dialect.RESPONSES}
    assert plan_of(adapter="openai_http").target.speaks == {Dialect.CHAT}
    assert plan_of(adapter="simulated").target.speaks == {Dialect.CHAT, Dialect.RESPONSES, Dialect.MESSAGES}
    assert faults_of(dialect="chat") == {"dialect": "warp does not speak chat | it speaks: messages"}


def test_an_address_is_asked_for_only_where_one_is_needed():
    assert set(faults_of(base_url="")) == {"base_url"}
    assert plan_of(adapter="simulated", base_url="").endpoint.base_url == ""


def test_a_key_that_is_not_set_is_said_once_however_many_targets_have_it(monkeypatch):
    monkeypatch.delenv("WARP_KEY", raising=False)
    faults: list[Fault] = []
    checker = TargetChecker(KNOWN, Path("."), faults)

    for index in range(2):
        settings = TargetSettings(name="a", adapter="warp", base_url="http://x", api_key="env:WARP_KEY")
        checker.check(TargetBlock(Tier.FAST, index, settings))

    assert [fault.path for fault in faults] == ["tiers.fast.targets[0].api_key"]
    assert "export WARP_KEY" in faults[0].hint


def test_a_target_may_take_the_callers_key():
    assert plan_of(api_key="caller").target.takes_callers_key
    assert not plan_of(api_key="literal").target.takes_callers_key


def test_files_of_tls_are_found_beside_the_config_and_missing_ones_are_named(tmp_path):
    (tmp_path / "ca.pem").write_text("x")

    plan, _ = check(tmp_path, tls={"ca_file": "ca.pem"})

    assert plan.endpoint.tls.ca_file == str(tmp_path / "ca.pem")
    assert set(faults_of(tmp_path, tls={"ca_file": "ca.pem", "client_cert": "ours.pem"})) == {"tls.client_cert"}


def test_tls_is_not_for_an_adapter_whose_library_dials():
    assert set(faults_of(adapter="bound", tls={})) == {"tls"}


def test_every_target_takes_text():
    assert Feature.TEXT in plan_of(accepts=["images"]).target.accepts


def test_whether_a_model_answers_is_what_the_adapter_declares():
    assert plan_of().is_model
    assert not plan_of(adapter="simulated").is_model


def test_targets_without_figures_are_as_fast_as_their_tier_is_meant_to_be():
    config = "tiers: {fast: {targets: [{name: a, base_url: 'http://x', typical: {ttft_seconds: 0.1}}]}, deep: {targets: [{name: b, base_url: 'http://x'}]}}"

    fast, deep = (plan.target.typical for plan in check_config(config, "t", Path("."), known_names()).targets)

    assert (fast.ttft_seconds, fast.tokens_per_second) == (0.1, 600)
    assert deep.tokens_per_second == 70


def test_a_simulated_target_is_typically_as_it_is_told_to_behave():
    config = "tiers: {fast: {targets: [{name: a, adapter: simulated, simulated: {tokens_per_second: 777}}]}, deep: {targets: [{name: b, adapter: simulated}]}}"

    assert check_config(config, "t", Path("."), known_names()).targets[0].target.typical.tokens_per_second == 777


def test_a_target_takes_its_timeouts_from_limits_where_it_has_none():
    config = two_targets(
        "http://x/v1",
        "http://x/v1",
        fast_extra="timeouts: {stall_seconds: 7},",
        extra="limits: {first_byte_timeout_seconds: 9}",
    )

    timeouts = check_config(config, "t", Path("."), known_names()).targets[0].target.timeouts

    assert (timeouts.stall_seconds, timeouts.first_byte_seconds, timeouts.connect_seconds) == (7, 9, 5)
    assert not timeouts.bounds_whole_answers


def test_a_targets_own_limit_for_the_first_byte_counts_for_whole_answers_too():
    config = two_targets("http://x/v1", "http://x/v1", fast_extra="timeouts: {first_byte_seconds: 7},")

    timeouts = check_config(config, "t", Path("."), known_names()).targets[0].target.timeouts

    assert (timeouts.first_byte_seconds, timeouts.bounds_whole_answers) == (7, True)


URL = "http://models.example/v1"


def test_a_target_may_be_driven_over_a_websocket_where_its_dialect_and_adapter_have_one():
    plan = plan_of(adapter="openai_http", dialect="responses", base_url=URL, upstream_transport="websocket")

    assert plan.endpoint.over_websocket
    assert not plan_of(adapter="openai_http", dialect="responses", base_url=URL).endpoint.over_websocket


@pytest.mark.parametrize("dialect", [{"dialect": "chat"}, {}])
def test_a_websocket_for_another_dialect_is_a_fault(dialect):
    assert faults_of(adapter="openai_http", base_url=URL, upstream_transport="websocket", **dialect) == {
        "upstream_transport": "websocket does not go with this target's dialect | set dialect: responses"
    }


def test_a_websocket_with_another_adapter_is_a_fault():
    assert faults_of(adapter="simulated", upstream_transport="websocket") == {
        "upstream_transport": "websocket is not supported by adapter: simulated | only by: openai_http"
    }


@pytest.mark.parametrize("written", ["$K1", "${K1}", "os.environ/K1", "{{ env.K1 }}", "ENV:K1", "env: K1"])
def test_a_key_in_the_notation_of_another_router_is_a_fault_that_names_ours(monkeypatch, written):
    monkeypatch.setenv("K1", "sk-real")

    _, faults = check(api_key=written)

    assert "api_key: env:K1" in faults["api_key"]


@pytest.mark.parametrize("pasted", ["sk-proj-4fCanary", "AIzaSyCanary0123456789abcdef", "gsk_canary0123456789abcdef"])
def test_a_key_that_was_pasted_after_env_is_not_shown(pasted):
    _, faults = check(api_key=f"env:{pasted}")

    (fault,) = faults.values()
    assert "env:***: env: takes the name of a variable, not the key" in fault
    assert pasted not in fault


def test_a_variable_that_looks_like_a_key_is_used_where_it_is_set(monkeypatch):
    monkeypatch.setenv("my_key_0123456789_abcdefgh", "sk-real")

    plan, faults = check(api_key="env:my_key_0123456789_abcdefgh")

    assert faults == {}
    assert plan.endpoint.api_key.reveal() == "sk-real"


@pytest.mark.parametrize(
    ("adapter", "url", "right"),
    [
        ("openai_http", "http://host:1/v1/chat/completions", "http://host:1/v1"),
        ("openai_http", "http://host:1/v1/responses/", "http://host:1/v1"),
        ("openai_http", "https://host/api/v1/completions", "https://host/api/v1"),
        ("anthropic_http", "https://api.anthropic.com/v1/messages", "https://api.anthropic.com"),
    ],
)
def test_an_address_that_ends_in_the_path_of_a_call_is_a_fault_with_the_right_one(adapter, url, right):
    _, faults = check(adapter=adapter, base_url=url)

    assert faults["base_url"].endswith(f" | use {right}")


@pytest.mark.parametrize("url", ["http://host/v1", "http://host/responses-api", "http://messages/v1", "http://host/v1/"])
def test_an_address_that_only_looks_like_it_is_good(url):
    _, faults = check(adapter="openai_http", base_url=url)

    assert faults == {}


def test_messages_are_not_asked_of_openai():
    _, faults = check(adapter="anthropic_http", base_url="https://api.openai.com/v1")

    assert faults["adapter"].endswith("set adapter: openai_http")


@pytest.mark.parametrize(
    ("name", "value"), [("model", "${MODEL}"), ("base_url", "http://$HOST/v1"), ("model", "os.environ/MODEL")]
)
def test_a_variable_elsewhere_than_in_a_key_is_a_fault(name, value):
    _, faults = check(adapter="openai_http", **{name: value})

    assert "is not replaced here" in faults[name]


def test_headers_and_query_become_part_of_the_endpoint(monkeypatch):
    monkeypatch.setenv("GATEWAY_TOKEN", "s3cret-canary")
    plan = plan_of(
        adapter="openai_http", headers={"X-Org": "env:GATEWAY_TOKEN"}, query={"api-version": "2024-10-21", "k": "a b"}
    )

    assert plan.endpoint.extra_headers == (("x-org", "s3cret-canary"),)
    assert plan.endpoint.locate("http://x/chat") == "http://x/chat?api-version=2024-10-21&k=a+b"
    assert plan.endpoint.locate("http://x/models?limit=1") == "http://x/models?limit=1&api-version=2024-10-21&k=a+b"
    assert "s3cret-canary" not in repr(plan)


@pytest.mark.parametrize(("adapter", "refused"), [("simulated", {"headers", "query"}), ("litellm", {"query"})])
def test_an_adapter_that_cannot_send_them_refuses_them_in_words(adapter, refused):
    faults = faults_of(adapter=adapter, headers={"x-a": "1"}, query={"b": "2"})

    assert {name for name, words in faults.items() if "not supported by adapter" in words} == refused
