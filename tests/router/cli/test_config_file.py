"""Writing into a config: checked before, undone by the command that is said, and a link stays a link."""

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest
import yaml

from router.cli import Ended
from router.cli.config_file import NewRule, add_rules, change_config
from router.connect.formats import CannotEdit
from tests.conftest import SIMULATED

HERE = Path("config.yaml")


def add_line(text: str) -> str:
    return f"{text}preference: quality\n"


def undo(said: str) -> None:
    """Do what was said to undo it."""
    (line,) = [line for line in said.splitlines() if "to undo: " in line]
    subprocess.run(shlex.split(line.split("to undo: ")[1]), check=True)


def test_the_old_file_comes_back_by_the_command_that_is_said(home, capsys):
    (home / "config.yaml").chmod(0o600)
    change_config(HERE, add_line)
    assert (home / "config.yaml").read_text() == add_line(SIMULATED)
    assert [path.stat().st_mode & 0o777 for path in home.glob("config.yaml*")] == [0o600, 0o600]

    undo(capsys.readouterr().err)

    assert (home / "config.yaml").read_text() == SIMULATED
    assert not (home / "config.yaml.bak").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_what_root_changes_stays_its_owners(home):
    os.chown(home / "config.yaml", 65_534, 65_534)

    change_config(HERE, add_line)

    assert (home / "config.yaml").stat().st_uid == 65_534


def test_a_later_backup_leaves_the_first_one_where_it_is(home, capsys):
    change_config(HERE, add_line)
    change_config(HERE, lambda text: f"{text}# again\n")

    assert "the old file is config.yaml.bak.1" in capsys.readouterr().err
    assert (home / "config.yaml.bak").read_text() == SIMULATED
    assert (home / "config.yaml.bak.1").read_text() == add_line(SIMULATED)


def test_a_link_stays_a_link_when_it_is_written_to_and_when_that_is_undone(home, capsys):
    (home / "dotfiles").mkdir()
    (home / "config.yaml").rename(home / "dotfiles/tandem.yaml")
    (home / "config.yaml").symlink_to(home / "dotfiles/tandem.yaml")

    change_config(HERE, add_line)
    assert (home / "config.yaml").is_symlink()
    assert (home / "dotfiles/tandem.yaml").read_text() == add_line(SIMULATED)

    undo(capsys.readouterr().err)

    assert (home / "config.yaml").is_symlink()
    assert (home / "dotfiles/tandem.yaml").read_text() == SIMULATED


def refuse(text: str) -> str:
    raise CannotEdit("no line of its own")


@pytest.mark.parametrize(
    ("change", "said"),
    [(lambda text: f"{text}what: 1\n", "not applied: what: no such setting"), (refuse, "not applied: no line of its own")],
)
def test_what_would_be_no_config_is_not_written(home, change, said):
    with pytest.raises(Ended, match=said):
        change_config(HERE, change)

    assert (home / "config.yaml").read_text() == SIMULATED
    assert [path.name for path in home.iterdir()] == ["config.yaml"]


def test_a_file_that_cannot_be_written_is_named(home, monkeypatch):
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device", "config.yaml")

    monkeypatch.setattr("os.replace", fail)

    with pytest.raises(Ended, match="not applied: config.yaml: No space left on device"):
        change_config(HERE, add_line)
    assert (home / "config.yaml").read_text() == SIMULATED


def test_without_a_file_of_ones_own_it_is_said_how_to_get_one():
    with pytest.raises(Ended, match="init writes one"):
        change_config(None, add_line)


def line_ends(text: str) -> list[str]:
    return re.findall(r"\r?\n", text)


RULES = [NewRule("deploy", "deep", "tandem wrong"), NewRule('say "docs"', "fast", "tandem wrong")]
READ = [{"when": {"words": "deploy"}, "tier": "deep"}, {"when": {"words": 'say "docs"'}, "tier": "fast"}]
MINE = [{"when": {"words": "mine"}, "tier": "fast"}]


def test_rules_are_added_after_those_that_are_there_and_nothing_else_changes(subtests):
    for text, before in [
        ("a: 1\n", []),
        ("a: 1", []),
        ("rules: []\nz: 1\n", []),
        ("rules: []  # mine\n#  - {an: example}\nz: 1\n", []),
        ("rules:\nz: 1\n", []),
        ("rules: null\nz: 1\n", []),
        ("rules:", []),
        ("rules: # mine\r\nz: 1\r\n", []),
        ("rules:\n  - {when: {words: mine}, tier: fast}  # mine\n\n# of z\nz: 1\n", MINE),
        ("rules:\n- when: {words: mine}\n  tier: fast\n# of z\nz: 1\n", MINE),
        ("rules:\n    - tier: fast\n      when:\n        words: mine\nz: 1", MINE),
        ("z: 1\nrules:\n  - {when: {words: mine}, tier: fast}", MINE),
    ]:
        with subtests.test(text=text, before=before):
            new = add_rules(text, RULES)

            assert yaml.safe_load(new) == {**yaml.safe_load(text), "rules": [*before, *READ]}
            assert "# tandem wrong" in new
            added = [line for line in new.splitlines() if line not in text.splitlines()]
            assert len([line for line in added if line.strip().startswith("-")]) == 2
            assert [
                line for line in text.splitlines() if "#" in line and "rules" not in line and line not in new.splitlines()
            ] == []
            assert len(set(line_ends(new))) <= 1


@pytest.mark.parametrize("text", ["rules: [{when: {words: mine}, tier: fast}]\n", "rules: [\n", "rules: 7\n"])
def test_rules_that_have_no_lines_of_their_own_are_left_alone(text):
    with pytest.raises(CannotEdit):
        add_rules(text, RULES)
