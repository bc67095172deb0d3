"""Every fault in words that a person can act on, whatever is wrong and wherever."""

import itertools
import re

import pytest
import yaml
from pydantic import BaseModel, ValidationError

from router.config.faults import Fault, as_fault, check_block, close_to, missing_extra
from router.config.load import ConfigError
from router.config.models import RELEASE, Config
from router.config.settings import fields_of, inner_block
from router.contract.relay import Adapter
from router.wiring.registry import ADAPTERS, POLICIES
from tests.conftest import SIMULATED
from tests.tools.configs import faults_in, load_text

PYTHONS_WORDS = re.compile(r"Input|should|valid|tuple|dict|instance|Error|None|True|False|NoneType|pattern")
WRONG = ["", "some text", "x" * 30_000, -1, 0, 1.5, 10**30, float("inf"), True, None, [], [1], [[]], {}, {"x": 1}, {1: {}}]
"""A value of each sort, and some out of bounds. For most settings nearly all are wrong."""


def paths_of(kind: type, prefix: tuple = ()):
    """The place of every setting, at any depth."""
    for name, field in fields_of(kind).items():
        yield (*prefix, name)
        if (*prefix, name) == ("tiers", "deep"):  # the settings of fast
            continue
        is_list = str(field.annotation).startswith("tuple[")
        if inner := inner_block(field):
            yield from paths_of(inner, (*prefix, name, 0) if is_list else (*prefix, name))


def plant(content, path: tuple, value):
    """Set a value deep inside, making what is missing on the way."""
    step, rest = path[0], path[1:]
    inner = content[step] if (step in content if isinstance(content, dict) else step < len(content)) else None
    if rest and not isinstance(inner, (dict, list)):
        inner = [{}] if rest[0] == 0 else {}
    changed = plant(inner, rest, value) if rest else value
    if isinstance(content, dict):
        return {**content, step: changed}
    return [*content[:step], changed, *content[step + 1 :]]


def every_fault(content) -> list[Fault]:
    try:
        load_text(yaml.safe_dump(content))
    except ConfigError as error:
        return error.faults
    return []


@pytest.mark.parametrize("section", Config.model_fields)
def test_no_fault_of_any_setting_speaks_of_python(section):
    """Each setting meets six of the values, and the one after it the next six."""
    good, values = yaml.safe_load(SIMULATED), itertools.cycle(WRONG)
    for path in (path for path in paths_of(Config) if path[0] == section):
        for value in itertools.islice(values, 6):
            for fault in every_fault(plant(good, path, value)):
                assert not PYTHONS_WORDS.search(fault.problem.replace("x" * 60, "")), (path, value, str(fault))
                assert "[key]" not in fault.path


def test_no_fault_of_a_policy_or_an_adapter_speaks_of_python(subtests):
    for kind in [*(p.Config for p in POLICIES.values()), *(a.Settings for a in ADAPTERS.values())]:
        with subtests.test(kind=kind):
            for path in paths_of(kind):
                for value in WRONG:
                    faults: list[Fault] = []
                    check_block(kind, plant({}, path, value), "here", faults)
                    assert not [fault for fault in faults if PYTHONS_WORDS.search(fault.problem)], value


def test_what_is_wrong_is_said_in_plain_words(subtests):
    for text, path, said in [
        ("server: {port: 99999}", "server.port", "must be at most 65535, not 99999"),
        ("server: {port: many}", "server.port", "must be a whole number, not 'many'"),
        ("server: {port: 1.5}", "server.port", "must be a whole number, not 1.5"),
        ("server: 4000", "server", "must be a block of settings, not 4000"),
        ("server:", "server", "has no value"),
        ("spill_over: maybe", "spill_over", "must be true or false, not 'maybe'"),
        ("preference: cheap", "preference", "must be 'speed', 'balanced' or 'quality', not 'cheap'"),
        ("limits: {deadline_seconds: 0}", "limits.deadline_seconds", "must be more than 0, not 0"),
        ("models: {auto: 5}", "models.auto", "must be text, not 5"),
        ("models: {5: auto}", "models", "a name is read as 5 and not as text"),
        ("policies: rules", "policies", "must be a list, not 'rules'"),
        ("policies: [true]", "policies[0]", "must be a name, or one name with its settings"),
        ("policies: [{window: 5}]", "policies[0]", "must be a name, or one name with its settings"),
        ("rules: [5]", "rules[0]", "must be a block of settings, not 5"),
        ("decision: {hop_seconds: .inf}", "decision.hop_seconds", "must be at most 600, not inf"),
    ]:
        with subtests.test(text=text, path=path, said=said):
            (fault,) = every_fault({**yaml.safe_load(SIMULATED), **yaml.safe_load(text)})

            assert (fault.path, fault.problem) == (path, said)


def test_a_value_that_may_be_a_key_or_a_page_long_is_not_shown():
    secret = every_fault(plant(yaml.safe_load(SIMULATED), ("tiers", "fast", "targets", 0, "api_key"), 12345))
    long = every_fault(plant(yaml.safe_load(SIMULATED), ("tiers", "fast", "targets", 0, "model"), "x" * 300))

    assert [fault.problem for fault in secret] == ["must be text"]
    assert [fault.problem for fault in long] == ["must have at most 200 characters"]


def test_a_fault_of_a_rule_says_its_number_as_explanations_count_it():
    (fault,) = every_fault({**yaml.safe_load(SIMULATED), "rules": [{"when": {"turn": "ask"}, "tier": "turbo"}]})

    assert fault.path == "rules[0].tier"
    assert str(fault).startswith("rules[0].tier (rule 1): must be 'fast' or 'deep', not 'turbo'")
    assert str(Fault("policies[0]", "x")) == "policies[0]: x"


def test_a_place_that_has_a_fault_already_gets_no_second_one():
    faults = [Fault("here.ttft_seconds", "first")]

    check_block(ADAPTERS["simulated"].Settings, {"ttft_seconds": "x", "answer_tokens": "y"}, "here", faults)

    assert [fault.path for fault in faults] == ["here.ttft_seconds", "here.answer_tokens"]


def test_a_kind_of_error_without_words_of_its_own_keeps_those_of_the_checker():
    class Dated(BaseModel):
        day: int = 0

    with pytest.raises(ValidationError) as caught:
        Dated.model_validate({"day": "x"})
    entry = {**caught.value.errors()[0], "type": "of_tomorrow", "msg": "Input should be better"}

    assert as_fault(entry).problem == "must be better, not 'x'"


def test_close_names_are_offered_and_far_ones_are_not():
    assert close_to("lerned", ["learned", "rules"]) == "did you mean learned? "
    assert close_to("oracle", ["learned", "rules"]) == ""
    assert close_to("correctoin_log_odds", ["red_log_odds", "correction_log_odds"]) == "did you mean correction_log_odds? "
    assert close_to("log_odds_red", ["red_log_odds"]) == "did you mean red_log_odds? "
    assert close_to("url", ["url", "base_url"]) == "did you mean base_url? "  # which a setting elsewhere is called, too
    assert close_to("read_timeout_seconds", ["red_timeout_seconds", "timeout_seconds"]) == "did you mean red_timeout_seconds? "


@pytest.mark.parametrize("other", ["correction_log_odds", "repair_log_odds", "maximum_log_odds"])
def test_a_name_that_shares_only_its_unit_with_another_is_not_taken_for_it(other):
    assert close_to(other, ["red_log_odds"]) == ""


def test_too_many_rules_are_answered_with_what_to_do():
    content = {**yaml.safe_load(SIMULATED), "rules": [{"when": {"words": f"w{n}"}, "tier": "fast"} for n in range(201)]}

    (fault,) = every_fault(content)

    assert (fault.path, fault.problem) == ("rules", "has 201 entries, and at most 200 are allowed")
    assert "in the words of one rule" in fault.hint
    assert "a policy of your own" in fault.hint


def test_a_file_for_a_later_release_says_which_one_it_needs_and_nothing_else():
    content = {**yaml.safe_load(SIMULATED), "version": RELEASE + 4, "preferences": {"new": True}}

    assert [str(fault) for fault in every_fault(content)] == [
        f"version: this file needs Tandem 0.{RELEASE + 4} or later, and this is 0.{RELEASE}"
    ]
    assert [fault.path for fault in every_fault({**content, "version": RELEASE})] == ["preferences"]


def test_an_adapter_names_the_extra_that_its_missing_library_comes_with():
    class Missing(Adapter):
        library = "no_such_library"

    class Present(Adapter):
        library = "json"

    assert missing_extra(Missing) == "no_such_library"
    assert missing_extra(Present) == missing_extra(ADAPTERS["openai_http"]) == ""


@pytest.mark.parametrize(("text", "path", "hint"), [
    ("what: 1", "what", "known here: server, keys,"),
    ("preferense: 1", "preferense", "did you mean preference? known here: server, keys,"),
    ("server: {prot: 1}", "server.prot", "did you mean port? known here: host, port"),
    ("tiers: {fast: {targets: [{name: a, price: {inptu: 1}}]}}", "tiers.fast.targets[0].price.inptu", "known here: input, output,"),
    ("policies: [{window: {x: 1}}]", "policies[0].window.x", "known here: output_reserve_tokens"),
])  # fmt: skip
def test_a_setting_that_does_not_exist_comes_with_those_that_do(text, path, hint):
    (fault,) = [fault for fault in faults_in(text) if fault.path == path]

    assert fault.problem == "no such setting"
    assert hint in fault.hint
    assert "docs/" not in fault.hint


TARGET = "{name: a, adapter: simulated}"
FORMS = {
    "tiers without a value": ("tiers:\n", "tiers", "needs fast and deep", "tandem init"),
    "no tiers": ("server: {port: 1}\n", "tiers", "needs fast and deep", "tandem init"),
    "no deep": (f"tiers: {{fast: {{targets: [{TARGET}]}}}}\n", "tiers.deep", "missing", "one model may serve both"),
    "targets without a value": (
        f"tiers: {{fast: {{targets: }}, deep: {{targets: [{TARGET}]}}}}\n",
        "tiers.fast.targets",
        "needs a target",
        "tandem init",
    ),
    "targets as a map": (
        f"tiers: {{fast: {{targets: {TARGET}}}, deep: {{targets: [{TARGET}]}}}}\n",
        "tiers.fast.targets",
        "must be a list of targets",
        'begin each target with "- "',
    ),
    "deep below fast": (
        f"tiers:\n  fast:\n    targets: [{TARGET}]\n    deep:\n      targets: [{TARGET}]\n",
        "tiers.fast.deep",
        "is indented too far",
        "to the left",
    ),
    "seconds": (
        f"{SIMULATED}\nlimits: {{drain_seconds: 10s}}\n",
        "limits.drain_seconds",
        "must be a number",
        "in seconds, as a number alone: 10",
    ),
    "bytes": (
        f"{SIMULATED}\nlimits: {{max_body_bytes: 20MB}}\n",
        "limits.max_body_bytes",
        "must be a whole number",
        "alone: 20971520",
    ),
}


@pytest.mark.parametrize(("text", "path", "said", "hint"), FORMS.values(), ids=FORMS)
def test_a_mistake_in_the_form_is_named_by_its_likely_cause(text, path, said, hint):
    found = {fault.path: fault for fault in faults_in(text)}

    assert said in found[path].problem
    assert hint in found[path].hint
