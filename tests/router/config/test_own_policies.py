"""Entries of `policies:` that name an own file: what is a fault, and what is switched off."""

import pytest

from tests.conftest import SIMULATED
from tests.tools.configs import faults_in, load_text
from tests.tools.own_policy import NIGHT, OWN


@pytest.fixture
def write(tmp_path):
    return lambda text: (tmp_path / "night.py").write_text(text)


def test_a_file_adds_to_the_shipped_policies(tmp_path, write):
    write(NIGHT)

    loaded = load_text(OWN, tmp_path)

    (own,) = loaded.own_policies
    assert (own.name, own.settings.from_hour, own.trouble) == ("night", 0, "")
    assert len(loaded.policies) == 8  # without that of rules, of which there are none


def test_a_shipped_policy_that_is_named_next_to_it_is_the_only_one(tmp_path, write):
    write(NIGHT)

    loaded = load_text(OWN + "  - window\n", tmp_path)

    assert [name for name, _ in loaded.policies] == ["window"]
    assert [own.name for own in loaded.own_policies] == ["night"]


@pytest.mark.parametrize(
    ("entry", "path", "problem"),
    [
        ("{file: ./night.py, settings: {from_hour: noon}}", "policies[0].settings.from_hour", "whole number"),
        ("{file: ./night.py, settings: {form_hour: 2}}", "policies[0].settings.form_hour", "no such setting"),
        ("{file: ./night.py, package: night}", "policies[0]", "not both"),
        ("{file: ./night.py, name: night}", "policies[0].name", "no such setting"),
    ],
)
def test_wrong_settings_are_faults_of_the_config(tmp_path, write, entry, path, problem):
    write(NIGHT)

    (fault,) = faults_in(f"{SIMULATED}policies:\n  - {entry}\n", tmp_path)

    assert fault.path == path
    assert problem in fault.problem


def test_a_policy_is_listed_once(tmp_path, write):
    write(NIGHT)

    (fault,) = faults_in(OWN + "  - file: ./night.py\n", tmp_path)

    assert fault.problem == 'duplicate policy "night"'


def test_a_missing_file_is_named(tmp_path):
    (own,) = load_text(OWN, tmp_path).own_policies

    assert own.kind is None
    assert "night.py" in own.trouble
