import pytest

from router.config.salvage import salvage_targets, salvage_text
from router.contract.words import Tier
from tests.tools.configs import faults_in


def test_a_target_keeps_the_settings_that_are_well_formed():
    content = {"tiers": {"fast": {"targets": ["x", {"name": "a b", "model": "m", "dialect": "klingon", "typicl": 1}]}}}

    (block,) = salvage_targets(content, Tier.FAST)

    assert (block.index, block.settings.name, block.settings.model, block.settings.dialect) == (1, "", "m", None)


@pytest.mark.parametrize("content", [{}, {"tiers": 1}, {"tiers": {"fast": []}}, {"tiers": {"fast": {"targets": "x"}}}])
def test_what_is_no_target_is_none(content):
    assert salvage_targets(content, Tier.FAST) == []


def test_a_text_is_found_where_there_is_one():
    assert salvage_text({"ledger": {"path": "x.db"}}, "ledger", "path") == "x.db"
    assert salvage_text({"ledger": {"path": 3}}, "ledger", "path") is None
    assert salvage_text({"ledger": None}, "ledger", "path") is None
    assert salvage_text({}, "ledger", "path") is None


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
        "tiers.fast.targets[0].dialect",
        "tiers.fast.targets[0].api_key",
        "tiers.fast.targets[1].name",
        "tiers.fast.targets[1].adapter",
        "tiers.deep.targets",
        "models.x",
        "store.path",
    }
    assert told["tiers.deep.targets"] == "needs a target"


def test_a_setting_that_is_wrong_is_told_once():
    text = "tiers: {fast: {targets: [{name: a, base_url: 7, window_tokens: big}]}, deep: {targets: [{name: b, adapter: simulated}]}}"

    assert [fault.path for fault in faults_in(text)] == [
        "tiers.fast.targets[0].base_url",
        "tiers.fast.targets[0].window_tokens",
    ]
