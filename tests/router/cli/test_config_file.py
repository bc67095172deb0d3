"""Writing into a config: checked before, undone by the command that is said, and a link stays a link."""

import argparse
import shlex
import subprocess

import pytest

from router.cli import Ended
from router.cli.config_file import change_config
from router.cli.edit import CannotEdit
from tests.conftest import SIMULATED

HERE = argparse.Namespace(config=None)


def add_line(text: str) -> str:
    return f"{text}preference: quality\n"


def undo(said: str) -> None:
    """Do what was said to undo it."""
    (line,) = [line for line in said.splitlines() if "to undo: " in line]
    subprocess.run(shlex.split(line.split("to undo: ")[1]), check=True)


def test_the_old_file_comes_back_by_the_command_that_is_said(home, capsys):
    change_config(HERE, add_line)
    assert (home / "config.yaml").read_text() == add_line(SIMULATED)

    undo(capsys.readouterr().err)

    assert (home / "config.yaml").read_text() == SIMULATED
    assert not (home / "config.yaml.bak").exists()


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


def test_without_a_file_of_ones_own_it_is_said_how_to_get_one(home):
    (home / "config.yaml").unlink()

    with pytest.raises(Ended, match="init writes one"):
        change_config(HERE, add_line)
