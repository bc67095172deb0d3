"""Settings of older releases, which are gone."""

import pytest

from router.config.gone import GONE, find_preference, list_gone
from tests.conftest import SIMULATED
from tests.tools.configs import faults_in, load_text


@pytest.mark.parametrize(
    ("lines", "path", "problem", "hint"),
    [
        ("decision: {redo_factor: {balanced: 3.0}}", "decision.redo_factor", "has been replaced", "speed was 1.5, balanced 3, quality 6"),
        ("policies: [override, boundary: {edits_to_move: 9}]", "policies[1].boundary.edits_to_move", "is no longer used", "failure_seconds"),
        ("policies: [trajectory: {correction_log_odds: 2.0}]", "policies[0].trajectory.correction_log_odds", "is no longer used", "remove it"),
    ],
)  # fmt: skip
def test_a_setting_that_is_gone_is_answered_with_what_to_write_now(lines, path, problem, hint):
    (fault,) = faults_in(f"{SIMULATED}{lines}\n")

    assert (fault.path, fault.problem.split(":")[0]) == (path, problem)
    assert hint in fault.hint
    assert fault.hint.endswith("(tandem check --fix does it)")
    assert "did you mean" not in str(fault)


def test_a_setting_without_effect_is_left_out_with_a_warning():
    loaded = load_text(SIMULATED + "delegation: {note: item, runner: codex exec}\n")

    assert loaded.config.delegation.runner == "codex exec"
    assert [line for line in loaded.warnings if line.startswith("delegation.note: this setting is gone, so remove it; ")]
    assert not any("delegation" in line for line in load_text(SIMULATED + "delegation: {}\n").warnings)
    assert [fault.path for fault in faults_in(SIMULATED + "delegation: {note: item, notes: 1}\n")] == ["delegation.notes"]


@pytest.mark.parametrize(
    ("block", "old", "new"),
    [("ledger", "keep_places: false", "keep_word_hashes"), ("shared", "when_blind: stop", "on_store_outage")],
)
def test_a_setting_with_another_name_counts_under_both_and_the_old_one_is_warned_of(block, old, new):
    name, _, value = old.partition(": ")
    rest = SIMULATED.replace("ledger: {path: test.db}", "")
    before, after = (load_text(f"{rest}{block}: {{{line}}}\n") for line in (old, f"{new}: {value}"))

    assert getattr(before.config, block) == getattr(after.config, block) != getattr(load_text(rest).config, block)
    assert [line for line in before.warnings if line not in after.warnings] == [
        f"{block}.{name}: this setting is now called {new}; the old name goes with the next release (tandem check --fix rewrites it)"
    ]
    both = load_text(f"{rest}{block}: {{{name}: {'true' if block == 'ledger' else 'open'}, {new}: {value}}}\n")
    assert getattr(both.config, block) == getattr(after.config, block)


def test_settings_are_found_by_their_place_and_not_by_their_name_alone():
    content = {
        "decision": {"redo_factor": 3},
        "policies": ["override", {"boundary": {"calls_to_move": 9, "green_log_odds": -1}}, {"mine": {"redo_factor": 3}}],
        "delegation": {"note": "x"},
        "redo_factor": 3,
    }

    assert list(list_gone(content)) == [
        ("decision", "redo_factor"),
        ("policies", 1, "boundary", "calls_to_move"),
        ("delegation", "note"),
    ]
    assert not any(name in GONE for name in ("decision", "policies.boundary", "delegation"))


@pytest.mark.parametrize(
    ("preference", "factor", "nearest"),
    [
        (None, 3.0, None), (None, 1.4, "speed"), ("balanced", {"balanced": 5}, "quality"), ("speed", {"balanced": 6}, None),
        ("speed", {"speed": 1.5, "balanced": 6}, None), ("quality", {"quality": 2.5}, "balanced"), ("speed", -1, None),
        ("speed", "x", None), ("quality", None, None), (["speed"], 6, "quality"),
    ],
)  # fmt: skip
def test_the_preference_nearest_to_the_factor_in_force_takes_its_place(preference, factor, nearest):
    assert find_preference({"preference": preference, "decision": {"redo_factor": factor}}) == nearest
