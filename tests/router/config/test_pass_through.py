"""Who may be named for a route that is not decided."""

import pytest

from router.config.load import ConfigError, check_config
from router.config.pass_through import salvage_passed
from router.wiring import known_names

TIERS = """
tiers:
  fast: {targets: [{name: spark, base_url: "http://127.0.0.1:8080/v1", model: m}]}
  deep: {targets: [{name: sage, adapter: simulated}]}
"""


def load(block: str, folder):
    return check_config(f"pass_through: {block}\n{TIERS}", "test", folder, known_names())


def faults_of(block: str, folder) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load(block, folder)
    return [str(fault) for fault in caught.value.faults]


def test_it_is_off_by_default_and_takes_a_target_for_each_route(tmp_path):
    assert check_config(TIERS, "test", tmp_path, known_names()).config.pass_through == {}
    assert load("{embeddings: spark, audio: spark}", tmp_path).config.pass_through == {"embeddings": "spark", "audio": "spark"}


def test_an_unknown_target_and_one_without_an_address_are_faults(tmp_path):
    unknown, simulated = faults_of("{embeddings: sprak, files: sage}", tmp_path)

    assert unknown.startswith('pass_through.embeddings: "sprak" is not a target')
    assert "spark?" in unknown
    assert simulated.startswith('pass_through.files: "sage" cannot serve files: adapter simulated handles conversations only')
    assert "name one of spark" in simulated


def test_an_unknown_route_is_a_fault_and_hides_no_other(tmp_path):
    faults = faults_of("{chat: spark, embeddings: sprak}", tmp_path)

    assert any(fault.startswith("pass_through.chat") and "embeddings" in fault for fault in faults)
    assert any('"sprak" is not a target' in fault for fault in faults)


@pytest.mark.parametrize("block", [None, "spark", ["spark"], {"embeddings": 1}])
def test_what_is_not_a_block_names_nobody(block):
    assert salvage_passed({"pass_through": block}) == {}
