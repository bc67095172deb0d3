"""Who may be asked, and who thereby receives what people typed."""

import pytest

from router.config.load import ConfigError, check_config
from router.config.second_opinion import salvage_asked
from router.wiring import known_names

TIERS = """
tiers:
  fast: {{targets: [{{name: spark, base_url: "https://api.groq.example/openai/v1", {spark}}}]}}
  deep: {{targets: [{{name: sage, adapter: simulated, {sage}}}]}}
"""


def load(block: str, folder, *, spark="", sage=""):
    return check_config(f"second_opinion: {block}\n" + TIERS.format(spark=spark, sage=sage), "test", folder, known_names())


def faults_of(block: str, folder, **more) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load(block, folder, **more)
    return [str(fault) for fault in caught.value.faults]


def test_it_is_off_by_default(tmp_path):
    loaded = check_config(TIERS.format(spark="", sage=""), "test", tmp_path, known_names())

    assert loaded.config.second_opinion is None
    assert loaded.second_opinion == ""


def test_the_one_who_is_asked_is_named_with_the_provider(tmp_path):
    loaded = load("{target: spark}", tmp_path)

    assert loaded.config.second_opinion.max_wait_seconds == 0.4
    assert loaded.second_opinion == "spark (api.groq.example) receives the words of turns in doubt"
    assert loaded.warnings == ()
    other = load("{target: sage, max_wait_seconds: 2}", tmp_path)
    assert other.second_opinion == "sage (simulated) receives the words of turns in doubt"


def test_an_unknown_target_is_a_fault_with_the_one_that_was_meant(tmp_path):
    (fault,) = faults_of("{target: sprak}", tmp_path)

    assert fault.startswith('second_opinion.target: "sprak" is not a target')
    assert "spark?" in fault
    assert "known: sage, spark" in fault


def test_a_target_that_takes_the_callers_key_is_a_fault(tmp_path):
    (fault,) = faults_of("{target: spark}", tmp_path, spark="api_key: caller")

    assert "takes the caller's own key, which is never used for a second opinion" in fault


@pytest.mark.parametrize("block", ["{}", "spark", "{target: spark, wait: 1}", "{target: spark, max_wait_seconds: 0}",
                                   "{target: spark, max_wait_seconds: 11}"])  # fmt: skip
def test_a_block_of_another_form_is_a_fault(tmp_path, block):
    (fault,) = faults_of(block, tmp_path)

    assert fault.startswith("second_opinion")


def test_a_wrong_name_is_told_together_with_other_faults(tmp_path):
    faults = faults_of("{target: sprak}", tmp_path, spark="windw: 3")

    assert len(faults) == 2
    assert any('"sprak" is not a target' in fault for fault in faults)


@pytest.mark.parametrize("content", [{}, {"second_opinion": None}, {"second_opinion": {"target": 3}}])
def test_nothing_is_salvaged_where_there_is_no_name(content):
    assert salvage_asked(content) is None


def test_a_target_that_is_slower_than_the_longest_wait_is_warned_of(tmp_path):
    (warning,) = load("{target: sage}", tmp_path, sage="typical: {ttft_seconds: 0.9}").warnings

    assert warning == (
        "second_opinion: sage usually takes 0.9 s to its first token, so its answer comes too late;"
        " name a quicker target, or raise max_wait_seconds"
    )
    assert load("{target: sage, max_wait_seconds: 1.5}", tmp_path, sage="typical: {ttft_seconds: 0.9}").warnings == ()
