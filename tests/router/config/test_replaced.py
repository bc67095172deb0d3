"""A config of an older Tandem is told what to write now."""

import pytest

from router.config.faults import Fault
from router.config.load import default_text
from tests.tools.configs import faults_in

REMOVE = "remove decision.redo_factor"


def faults_of(preference: str, factors: str) -> list[Fault]:
    text = default_text().replace("preference: balanced", f"preference: {preference}")
    return faults_in(text.replace("  hop_seconds: 1.0", f"  redo_factor: {factors}\n  hop_seconds: 1.0"))


@pytest.mark.parametrize("preference", ["speed", "balanced", "quality"])
def test_the_shipped_factors_are_simply_removed(preference):
    (fault,) = faults_of(preference, "{speed: 1.5, balanced: 3.0, quality: 6.0}")

    assert fault.path == "decision.redo_factor"
    assert fault.hint == f"{REMOVE}: `preference: {preference}` alone does the same"


@pytest.mark.parametrize(("factor", "nearest"), [("1.2", "speed"), ("9", "quality")])
def test_another_factor_becomes_the_nearest_preference(factor, nearest):
    (fault,) = faults_of("balanced", f"{{balanced: {factor}}}")

    assert fault.hint == f"{REMOVE}, and write `preference: {nearest}` instead of `preference: balanced`"


@pytest.mark.parametrize("factors", ["3", "[]", "{quality: 60}", "{balanced: much}", "{balanced: 0}"])
def test_what_said_nothing_of_the_preference_in_force_is_simply_removed(factors):
    (fault,) = faults_of("balanced", factors)

    assert fault.hint == f"{REMOVE}: `preference: balanced` alone does the same"


def test_an_unknown_preference_is_a_fault_of_its_own():
    assert [fault.path for fault in faults_of("fastest", "{balanced: 1}")] == ["preference", "decision.redo_factor"]
