"""Whether an agent can work here, and what the process that runs it is told."""

import json
from pathlib import Path

import pytest

from router.cli import Ended, main
from router.cli.agent import start as starting
from router.cli.agent.start import find_repository
from router.cli.agent.worker import without_git
from router.cli.routers import Router, note_router
from router.config.folders import state_folder
from tests.conftest import SIMULATED
from tests.tools.coding_agents import EDITS, git, make_repository, write_agent
from tests.tools.jobs_server import serving_jobs


@pytest.fixture
def server(here):
    with serving_jobs() as running:
        yield running


@pytest.fixture
def config(tmp_path):
    """Writes a config with a runner, outside of the repository."""

    def write(runner: str | None) -> str:
        path = tmp_path / "router.yaml"
        path.write_text(SIMULATED + (f"\ndelegation: {{runner: {json.dumps(runner)}}}\n" if runner is not None else ""))
        return str(path)

    return write


@pytest.fixture
def repository(here, monkeypatch):
    root = make_repository(here / "repository")
    monkeypatch.chdir(root)
    return root


@pytest.fixture
def delegate(server):
    return lambda *arguments: main(["delegate", "--agent", "--url", server.url, *arguments])


def left_folders() -> list[Path]:
    folder = state_folder() / "agents"
    return list(folder.iterdir()) if folder.exists() else []


@pytest.mark.parametrize(
    ("task", "words"),
    [
        (" ", "the task is empty"),
        ("--full-auto", "the task begins with a dash"),
        ("a\0b", "the task contains a zero byte"),
        ("x" * 100_001, "the task is too long: 100,001 bytes"),
    ],
)
def test_a_task_that_is_no_argument_of_an_agent_is_refused(server, delegate, repository, config, capsys, task, words):
    assert delegate("--config", config("git"), "--", task) == 2
    assert words in capsys.readouterr().err
    assert server.asked == []


@pytest.mark.parametrize(
    ("runner", "words"),
    [
        (None, "delegation.runner is not set in"),
        ("missing-agent exec", "missing-agent is not installed, which delegation.runner names"),
    ],
)
def test_without_an_agent_nothing_is_sent(server, delegate, repository, config, capsys, runner, words):
    assert delegate("fix it", "--config", config(runner)) == 2
    assert words in capsys.readouterr().err
    assert server.asked == []


@pytest.mark.parametrize("runner", ["", "  ", "codex 'exec"])
def test_a_runner_that_is_no_command_is_a_fault_of_the_config(delegate, repository, config, capsys, runner):
    assert delegate("fix it", "--config", config(runner)) == 2
    assert "delegation.runner" in capsys.readouterr().err


def test_outside_of_a_repository_nothing_is_sent(server, delegate, here, config, capsys):
    assert delegate("fix it", "--config", config("git")) == 2

    err = capsys.readouterr().err
    assert "not a git repository" in err
    assert "hint: run it in a git repository" in err
    assert server.asked == []


@pytest.mark.parametrize(("option", "value"), [("--file", "kept.txt"), ("--tier", "deep")])
def test_options_that_an_agent_has_no_use_for_are_refused(server, delegate, repository, config, capsys, option, value):
    assert delegate("fix it", option, value, "--config", config("git")) == 2
    assert f"{option} cannot be used with --agent" in capsys.readouterr().err


def test_a_config_without_an_agent_is_refused(server, here, capsys):
    assert main(["delegate", "fix it", "--config", "x.yaml", "--url", server.url]) == 2
    assert capsys.readouterr().err == "--config can only be used with --agent\n"


def test_the_config_of_the_folder_never_names_the_agent(server, delegate, repository, capsys):
    (repository / "config.yaml").write_text(SIMULATED + '\ndelegation: {runner: "git"}\n')

    assert delegate("fix it") == 2
    assert "hint: --config FILE names the config" in capsys.readouterr().err
    assert server.asked == []


def test_the_config_of_the_router_that_runs_here_names_the_agent(server, delegate, repository, config, capsys):
    note_router(Router(server.url, None, 1.0, Path(config("missing-agent"))))

    assert delegate("fix it") == 2
    assert "missing-agent is not installed" in capsys.readouterr().err


@pytest.mark.parametrize(("status", "words"), [(403, "hint: an admin's key"), (401, "asks for a key"), (503, "refused")])
def test_a_router_that_refuses_leaves_nothing_behind(server, delegate, repository, config, capsys, status, words):
    before = left_folders()
    server.refusal = status, {"error": {"code": "no", "message": "no"}}

    assert delegate("fix it", "--config", config("git")) == 1
    assert words in capsys.readouterr().err
    assert left_folders() == before


def test_the_worker_gets_the_command_with_the_task_as_its_last_argument(
    server, delegate, repository, config, capsys, monkeypatch, tmp_path
):
    given = []
    monkeypatch.setattr(starting, "_leave_to_worker", given.append)
    monkeypatch.setattr(starting.Jobs, "begin_agent", lambda self, task: {"id": "resp_1", "owner": "outside-1", "number": 5})
    monkeypatch.setenv("MINE", "tdm_1")
    monkeypatch.chdir(repository / "inside")
    (repository / "kept.txt").write_text("dirty\n")
    runner = write_agent(tmp_path, EDITS)

    code = delegate("fix; $(touch x)", "--config", config(f"{runner} --flag 'two words'"), "--key-env", "MINE")

    out, err = capsys.readouterr()
    assert (code, out) == (0, "resp_1\n")
    assert "without 1 uncommitted change" in err
    assert "resp_1 | git apply" in err
    (assignment,) = given
    assert assignment.command[1:] == (str(tmp_path / "agent.py"), "--flag", "two words", "fix; $(touch x)")
    assert (assignment.inside, assignment.key, assignment.owner) == ("inside", "tdm_1", "outside-1")
    assert assignment.variables["OPENAI_BASE_URL"] == f"{server.url}/v1"
    assert assignment.variables["OPENAI_API_KEY"] == "tdm_1"


def test_a_folder_is_found_in_its_own_repository_at_its_newest_commit_also_in_a_hook_of_another(tmp_path, monkeypatch):
    hooked, root = make_repository(tmp_path / "hooked"), make_repository(tmp_path / "repository")
    (root / "new.txt").write_text("x")
    commit = git(root, "rev-parse", "HEAD")
    monkeypatch.setenv("GIT_DIR", str(hooked / ".git"))

    assert find_repository(root / "inside") == (root, "inside", commit, 1)
    assert without_git({"GIT_DIR": "x", "GIT_INDEX_FILE": "y", "GIT_AUTHOR_NAME": "Ada"}) == {"GIT_AUTHOR_NAME": "Ada"}


@pytest.mark.parametrize(
    ("made", "words"),
    [((), "not a git repository"), (("--bare",), "must be run in a work tree"), (("--quiet",), "has no commit yet")],
)
def test_a_folder_without_a_commit_to_begin_at_is_refused(tmp_path, made, words):
    if made:
        git(tmp_path, "init", *made)

    with pytest.raises(Ended, match=words):
        find_repository(tmp_path)


@pytest.mark.parametrize(
    ("script", "words"), [("", "git is not installed"), ("#!/bin/sh\n", "has no files of a git repository")]
)
def test_a_missing_git_and_an_old_one_that_names_no_root_are_refused(tmp_path, monkeypatch, script, words):
    if script:
        (tmp_path / "git").write_text(script)
        (tmp_path / "git").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(Ended, match=words):
        find_repository(tmp_path)
