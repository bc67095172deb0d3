"""Which target may be asked, and so receives what people typed, and which may be named for a route that is not decided."""

import pytest

from router.config.named_targets import salvage_passed
from tests.tools.configs import faults_in, load_text

TIERS = """
tiers:
  fast: {{targets: [{{name: spark, base_url: "https://api.groq.example/openai/v1", {spark}}}]}}
  deep: {{targets: [{{name: sage, adapter: simulated, {sage}}}]}}
"""


def load(block: str, *, spark="", sage=""):
    return load_text(f"second_opinion: {block}\n" + TIERS.format(spark=spark, sage=sage))


def faults_of(block: str, *, spark="") -> list[str]:
    return [str(fault) for fault in faults_in(f"{block}\n" + TIERS.format(spark=spark, sage=""))]


def test_it_is_off_by_default():
    loaded = load_text(TIERS.format(spark="", sage=""))

    assert loaded.config.second_opinion is None
    assert loaded.second_opinion == ""


def test_the_one_who_is_asked_is_named_with_the_provider():
    loaded = load("{target: spark}")

    assert loaded.config.second_opinion.max_wait_seconds == 0.4
    assert loaded.second_opinion == "spark (api.groq.example) receives the words of turns in doubt"
    assert loaded.warnings == ()
    other = load("{target: sage, max_wait_seconds: 2}")
    assert other.second_opinion == "sage (simulated) receives the words of turns in doubt"


def test_an_unknown_target_is_a_fault_with_the_one_that_was_meant():
    (fault,) = faults_of("second_opinion: {target: sprak}")

    assert fault.startswith('second_opinion.target: "sprak" is not a target')
    assert "spark?" in fault
    assert "known: sage, spark" in fault


def test_a_target_that_takes_the_callers_key_is_a_fault():
    (fault,) = faults_of("second_opinion: {target: spark}", spark="api_key: caller")

    assert "takes the caller's own key, which is never used for a second opinion" in fault


@pytest.mark.parametrize("block", ["{}", "spark", "{target: spark, wait: 1}", "{target: spark, max_wait_seconds: 0}",
                                   "{target: spark, max_wait_seconds: 11}"])  # fmt: skip
def test_a_block_of_another_form_is_a_fault(block):
    (fault,) = faults_of(f"second_opinion: {block}")

    assert fault.startswith("second_opinion")


def test_a_wrong_name_is_told_together_with_other_faults():
    faults = faults_of("second_opinion: {target: sprak}", spark="windw: 3")

    assert len(faults) == 2
    assert any('"sprak" is not a target' in fault for fault in faults)


def test_a_target_that_is_slower_than_the_longest_wait_is_warned_of():
    (warning,) = load("{target: sage}", sage="typical: {ttft_seconds: 0.9}").warnings

    assert warning == (
        "second_opinion: sage usually takes 0.9 s to its first token, so its answer comes too late;"
        " name a quicker target, or raise max_wait_seconds"
    )
    assert load("{target: sage, max_wait_seconds: 1.5}", sage="typical: {ttft_seconds: 0.9}").warnings == ()


def test_no_route_is_passed_on_by_default_and_each_takes_a_target():
    tiers = TIERS.format(spark="", sage="")

    assert load_text(tiers).config.pass_through == {}
    named = load_text(f"pass_through: {{embeddings: spark, audio: spark}}\n{tiers}").config.pass_through
    assert named == {"embeddings": "spark", "audio": "spark"}


def test_a_route_needs_a_known_target_with_an_address():
    unknown, simulated = faults_of("pass_through: {embeddings: sprak, files: sage}")

    assert unknown.startswith('pass_through.embeddings: "sprak" is not a target')
    assert "spark?" in unknown
    assert simulated.startswith('pass_through.files: "sage" cannot serve files: adapter simulated handles conversations only')
    assert "name one of spark" in simulated


def test_an_unknown_route_is_a_fault_and_hides_no_other():
    faults = faults_of("pass_through: {chat: spark, embeddings: sprak}")

    assert any(fault.startswith("pass_through.chat") and "embeddings" in fault for fault in faults)
    assert any('"sprak" is not a target' in fault for fault in faults)


@pytest.mark.parametrize("block", [None, "spark", ["spark"], {"embeddings": 1}])
def test_what_is_not_a_block_names_nobody(block):
    assert salvage_passed({"pass_through": block}) == {}
