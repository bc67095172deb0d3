"""The settings of a policy: frozen, strict, and with paths that are whole."""

from pathlib import Path
from typing import ClassVar

import pytest
from pydantic import ValidationError

from router.contract.opinions import PolicyConfig, Rank


class Weighty(PolicyConfig):
    paths: ClassVar[tuple[str, ...]] = ("weights", "spare")
    weights: str = ""
    spare: str = ""
    strength: float = 1.0


def test_paths_are_relative_to_the_file_that_names_them(monkeypatch):
    monkeypatch.setenv("HOME", "/home/someone")

    rooted = Weighty(weights="mine.weights", strength=2.0).rooted(Path("/etc/tandem"))

    assert (rooted.weights, rooted.spare, rooted.strength) == ("/etc/tandem/mine.weights", "", 2.0)
    assert Weighty(weights="/elsewhere/x").rooted(Path("/etc")).weights == "/elsewhere/x"
    assert Weighty(weights="~/x").rooted(Path("/etc")).weights == "/home/someone/x"


def test_a_typo_in_a_setting_is_refused_and_nothing_can_be_changed():
    with pytest.raises(ValidationError, match="strenght"):
        Weighty(strenght=1.0)
    with pytest.raises(ValidationError, match="frozen"):
        Weighty().strength = 3.0


def test_a_policy_that_reads_no_weights_has_no_fingerprint():
    assert Weighty().fingerprint == ""


def test_who_may_insist_is_ranked_from_habit_to_header():
    assert sorted(Rank, reverse=True) == [
        Rank.HEADER,
        Rank.IN_BAND_LINE,
        Rank.SESSION_SCOPE,
        Rank.MODEL_NAME,
        Rank.OPERATOR_RULE,
        Rank.RUNNING_TURN,
    ]
