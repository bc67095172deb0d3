"""Names that were removed, and what is said instead of them."""

import re
from pathlib import Path

import pytest

from router.cli import COMMANDS, build_parser, main
from router.config.removed import read_removed, without_removed
from tests.conftest import SIMULATED
from tests.tools.configs import load_text

CHANGELOG = Path(__file__).resolve().parents[3] / "CHANGELOG.md"


def names_of(kind: str) -> list[str]:
    return [name.partition(" ")[2] for name in read_removed() if name.startswith(f"{kind} ")]


def test_a_config_is_opened_without_its_removed_settings_and_with_a_line_for_each():
    loaded = load_text(SIMULATED + "delegation: {runner: codex exec}\n")

    assert [line for line in loaded.warnings if "was removed" in line] == [
        "delegation was removed: run your own client in a git worktree"
    ]
    assert not any("was removed" in line for line in load_text(SIMULATED).warnings)


@pytest.mark.parametrize("name", names_of("setting"))
def test_every_removed_setting_is_accepted_wherever_its_block_is(name):
    *blocks, last = name.split(".")
    content: object = {last: {"any": [1]}}
    for block in reversed(blocks):
        content = {block: [content] if block == "policies" else content}

    rest, removed = without_removed({**content, "preference": "speed"})

    assert rest["preference"] == "speed"
    assert last not in str(rest)
    assert [*removed] == [name]


@pytest.mark.parametrize("name", names_of("command"))
def test_a_removed_command_ends_with_2_and_says_what_to_do(name, capsys):
    assert name not in COMMANDS
    assert main([name, "--help"]) == 2
    assert capsys.readouterr().err == f"tandem {name} was removed: {read_removed()[f'command {name}']}\n"


@pytest.mark.parametrize("name", names_of("option"))
def test_a_removed_option_ends_with_2_and_says_what_to_do(name, capsys):
    command, option = name.split()
    if command in COMMANDS:
        words = {"keys": ["keys", "add", "ann"], "explain": ["explain", "x"], "delegate": ["delegate", "x"]}
        assert main([*words.get(command, [command]), option, "2"]) == 2
        assert capsys.readouterr().err == f"tandem {name} was removed: {read_removed()[f'option {name}']}\n"
        assert option not in build_parser({command})[1][command]._option_string_actions


def test_the_changelog_names_all_of_them():
    removed = CHANGELOG.read_text().partition("### Removed")[2].partition("\n## ")[0]
    told = set(re.findall(r"`([^`]+)`", removed))

    assert [name for kind in ("setting", "command", "option") for name in names_of(kind) if name not in told] == []
