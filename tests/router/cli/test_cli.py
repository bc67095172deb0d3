"""The command line as a person meets it."""

import pytest

from router.cli import COMMANDS, main


@pytest.mark.parametrize("command", [[], *([name] for name in COMMANDS)])
def test_help_of_every_command_says_what_it_does(command, capsys):
    with pytest.raises(SystemExit) as caught:
        main([*command, "--help"])

    assert caught.value.code == 0
    assert "usage: tandem" in capsys.readouterr().out


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
