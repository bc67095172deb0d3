"""Commands that find the router."""

import pytest

from router.cli.pointed import point_command
from tests.conftest import SIMULATED
from tests.tools.configs import load_text


def point(tmp_path, *command: str) -> tuple[list[str], dict[str, str]]:
    return point_command(load_text(SIMULATED), "http://127.0.0.1:9", list(command), None, tmp_path)


def test_any_command_finds_the_router_in_the_usual_variables(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "mine")
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)

    command, variables = point(tmp_path, "/bin/agent", "the task")

    assert command == ["/bin/agent", "the task"]
    assert variables == {
        "OPENAI_BASE_URL": "http://127.0.0.1:9/v1",
        "OPENAI_API_BASE": "http://127.0.0.1:9/v1",
        "ANTHROPIC_BASE_URL": "http://127.0.0.1:9",
        "TANDEM_URL": "http://127.0.0.1:9",
        "OPENAI_API_KEY": "mine",
        "ANTHROPIC_API_KEY": "tandem",
    }
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("program", ["codex", "/opt/bin/codex"])
def test_a_known_client_is_pointed_by_its_recipe_before_its_own_arguments(tmp_path, monkeypatch, program):
    monkeypatch.setenv("PATH", str(tmp_path))  # no client is asked for its models

    command, _ = point(tmp_path, program, "exec", "the task")

    assert command[0] == program
    assert command[-2:] == ["exec", "the task"]
    assert any("http://127.0.0.1:9/v1" in argument for argument in command[1:-2])
