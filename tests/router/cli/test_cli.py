"""The command line as a person meets it."""

import re
import subprocess
import sys

import pytest

from router.cli import COMMANDS, main


@pytest.mark.parametrize("command", [[], *([name] for name in COMMANDS)])
def test_help_of_every_command_says_what_it_does(command, capsys):
    with pytest.raises(SystemExit) as caught:
        main([*command, "--help"])

    assert caught.value.code == 0
    assert "usage: tandem" in capsys.readouterr().out


def test_the_version_is_told(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["--version"])

    assert caught.value.code == 0
    assert re.fullmatch(r"tandem (\d+\.\d+\.\d+\S*|\(not installed\))\n", capsys.readouterr().out)


def test_help_does_not_wait_for_what_only_the_version_or_a_command_needs():
    code = "import sys; from router.cli import main\ntry: main(['--help'])\nfinally: print([m for m in ('importlib.metadata', 'asyncio', 'pydantic') if m in sys.modules])"

    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert printed.splitlines()[-1] == "[]"


def test_a_command_is_imported_without_the_collector_which_works_again_afterwards():
    code = "import gc; from router.cli import main; main(['check', '--config', 'none.yaml']); print(gc.isenabled(), gc.get_freeze_count(), gc.get_stats()[2])"

    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    is_enabled, frozen, rest = printed.split(" ", 2)

    assert is_enabled == "True"
    assert int(frozen) > 10_000
    assert "'collections': 0" in rest


def test_no_command_prints_help_and_fails(capsys):
    assert main([]) == 2
    assert "serve" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["explain"], 2, "give a text"),
        (["explain", "x", "--file", "y"], 2, "give a text"),
        (["explain", "  "], 2, "give a text"),
        (["explain", "x", "--header", "nocolon"], 1, "NAME:VALUE"),
        (["explain", "--file", "none.json"], 2, "No such file"),
        (["explain", "x", "--header", "x-tandem-tier: turbo"], 1, "fast, deep, auto"),
        (["serve", "--host", "0.0.0.0"], 2, "not a loopback address"),
        (["serve", "--config", "none.yaml"], 2, "No such file"),
    ],
)
def test_wrong_usage_is_said_plainly(here, capsys, arguments, code, said):
    assert main(arguments) == code
    assert said in capsys.readouterr().err
