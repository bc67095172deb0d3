"""What every command says of a config that cannot be used: never a placeholder answer, never a secret."""

import os
from pathlib import Path

import pytest

from router.cli import main
from tests.conftest import SIMULATED
from tests.tools.running import two_targets

UNREADABLE = {
    "a folder": Path.mkdir,
    "a link that leads nowhere": lambda path: path.symlink_to("nowhere"),
    "a named pipe": os.mkfifo,
    "config.yml": lambda path: path.with_suffix(".yml").write_text(SIMULATED),
}
COMMANDS = {"check": 2, "serve --port 0": 2, "connect codex --yes": 2, "explain hi": 2}


@pytest.mark.parametrize("make", UNREADABLE.values(), ids=UNREADABLE)
@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_takes_the_simulated_tiers_instead(here, capsys, make, command):
    make(here / "config.yaml")

    assert main(command.split()) == COMMANDS[command]

    told = capsys.readouterr()
    assert "built-in default" not in told.out + told.err
    assert "simulated" not in told.out + told.err


@pytest.mark.parametrize("command", ["check", "check --live --json", "serve --port 0"])
def test_a_key_that_was_pasted_after_env_is_printed_by_no_command(here, capsys, command):
    (here / "config.yaml").write_text(two_targets("http://a/v1", "http://b/v1", fast_extra="api_key: 'env:sk-proj-CANARY',"))

    assert main(command.split()) != 0

    told = capsys.readouterr()
    assert "CANARY" not in told.out + told.err
    assert "env:***" in told.out + told.err
