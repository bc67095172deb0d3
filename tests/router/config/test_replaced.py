"""A config of an older Tandem is told what to write now."""

from pathlib import Path

import pytest

from router.config.load import ConfigError, check_config, default_text
from router.wiring import known_names

REMOVE = "remove decision.redo_factor"


def fault_of(preference: str, factors: str):
    text = default_text().replace("preference: balanced", f"preference: {preference}")
    text = text.replace("  hop_seconds: 1.0", f"  redo_factor: {factors}\n  hop_seconds: 1.0")
    with pytest.raises(ConfigError) as caught:
        check_config(text, "old.yaml", Path(), known_names())
    (fault,) = caught.value.faults
    return fault


@pytest.mark.parametrize("preference", ["speed", "balanced", "quality"])
def test_the_shipped_factors_are_simply_removed(preference):
    fault = fault_of(preference, "{speed: 1.5, balanced: 3.0, quality: 6.0}")

    assert fault.path == "decision.redo_factor"
    assert fault.hint == f"{REMOVE}: `preference: {preference}` alone does the same"


@pytest.mark.parametrize(("factor", "nearest"), [("1.2", "speed"), ("9", "quality")])
def test_another_factor_becomes_the_nearest_preference(factor, nearest):
    hint = fault_of("balanced", f"{{balanced: {factor}}}").hint

    assert hint == f"{REMOVE}, and write `preference: {nearest}` instead of `preference: balanced`"


@pytest.mark.parametrize("factors", ["3", "[]", "{quality: 60}", "{balanced: much}", "{balanced: 0}"])
def test_what_said_nothing_of_the_preference_in_force_is_simply_removed(factors):
    assert fault_of("balanced", factors).hint == f"{REMOVE}: `preference: balanced` alone does the same"


def test_an_unknown_preference_is_a_fault_of_its_own():
    text = default_text().replace("preference: balanced", "preference: fastest")
    text = text.replace("  hop_seconds: 1.0", "  redo_factor: {balanced: 1}\n  hop_seconds: 1.0")

    with pytest.raises(ConfigError) as caught:
        check_config(text, "old.yaml", Path(), known_names())

    assert [fault.path for fault in caught.value.faults] == ["preference", "decision.redo_factor"]
