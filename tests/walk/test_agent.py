"""`tandem delegate --agent`, from the command to the agent's requests and the job's result."""

import asyncio
import json
import os

import pytest

from router.cli import main
from router.cli.background import Jobs, is_end
from tests.conftest import SIMULATED
from tests.tools.background import poll
from tests.tools.coding_agents import EDITS, WAITS, apply_change, make_repository, write_agent
from tests.tools.keyed import KEYS, Callers


@pytest.fixture
def repository(tmp_path, monkeypatch):
    root = make_repository(tmp_path / "repository")
    monkeypatch.chdir(root)
    return root


@pytest.fixture
def serve(start, tmp_path):
    """A router with an agent, and the options that lead to it."""

    async def serve(script: str, extra: str = ""):
        config = SIMULATED + extra + f"\ndelegation: {{runner: {json.dumps(write_agent(tmp_path, script))}}}\n"
        (tmp_path / "router.yaml").write_text(config)
        tandem = await start(config)
        return tandem, ("--url", tandem.url), ("--config", str(tmp_path / "router.yaml"))

    return serve


@pytest.fixture
def tandem_command(capsys):
    """Run a command in a thread, since the router has the test's loop."""

    async def run(*arguments: str) -> tuple[int, str, str]:
        code = await asyncio.to_thread(main, list(arguments))
        out, err = capsys.readouterr()
        # The router logs to this stream at any moment.
        return code, out, "".join(line for line in err.splitlines(keepends=True) if '"event":' not in line)

    return run


async def test_an_agent_asks_the_router_and_its_change_is_collected(serve, repository, tandem_command):
    tandem, at, named = await serve(EDITS)

    code, watched, log = await tandem_command("delegate", "--agent", "fix the race", "--wait", *at, *named)
    (job,) = (await tandem.built.jobs.store.list_jobs(None, None, 9, None)).jobs
    await poll(tandem, job.id)
    _, listed, _ = await tandem_command("jobs", "list", "--json", *at)
    (job,) = json.loads(listed)
    result_code, change, end = await tandem_command("jobs", "result", job["id"], *at)
    replayed_code, replayed, replayed_log = await tandem_command("jobs", "watch", job["id"], *at)

    assert (code, result_code, replayed_code) == (0, 0, 0)
    assert "task: fix the race\nheard: This is Tandem's simulated" in log
    assert "task: fix the race\nheard: " in replayed_log
    assert (change, replayed) == (watched, watched)
    assert (job["title"], job["state"]) == ("fix the race", "completed")
    assert end.splitlines()[-1].startswith("completed")
    apply_change(repository, change)
    assert (repository / "kept.txt").read_text() == "one\nedited\n"
    assert (repository / "new.txt").read_text() == "new\n"


async def test_cancelling_reaches_the_agent_and_its_children(serve, repository, tandem_command):
    tandem, at, named = await serve(WAITS)
    _, out, _ = await tandem_command("delegate", "--agent", "wait", *at, *named)
    job_id, jobs = out.strip(), Jobs(tandem.url)

    def find_child() -> int:
        seen = ""
        for _, event in jobs.follow(job_id):
            seen += str(event.get("delta", ""))
            if "." in seen.partition("child ")[2]:
                return int(seen.partition("child ")[2].partition(".")[0])
        raise AssertionError(seen)

    child = await asyncio.to_thread(find_child)
    await tandem_command("jobs", "cancel", job_id, *at)
    *_, (last, _) = await asyncio.to_thread(lambda: list(jobs.follow(job_id)))
    await poll(tandem, job_id)
    code, change, end = await tandem_command("jobs", "result", job_id, *at)

    assert is_end(last)
    assert code == 1
    assert end.endswith("cancelled\n")
    assert "+++ b/new.txt" in change
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)


async def test_an_agent_that_crashes_fails_the_job_and_leaves_its_log(serve, repository, tandem_command):
    _, at, named = await serve("import sys; print('so far', flush=True); sys.exit(3)")

    code, change, log = await tandem_command("delegate", "--agent", "crash", "--wait", *at, *named)

    assert (code, change) == (1, "")
    assert "so far\n" in log
    assert log.splitlines()[-1].startswith("failed: python")
    assert log.endswith("ended with exit status 3\n")


async def test_where_keys_are_needed_an_admins_key_is_the_agents_too(serve, repository, tandem_command, tmp_path, monkeypatch):
    callers = Callers(tmp_path, ada={"admin": True}, bob={})
    for name in ("ada", "bob"):
        monkeypatch.setenv(name.upper(), callers[name]["authorization"].removeprefix("Bearer "))
    _, at, named = await serve(EDITS, KEYS)
    asked = ("delegate", "--agent", "fix the race", "--wait", *at, *named)

    refused, out, why = await tandem_command(*asked, "--key-env", "BOB")
    code, change, _ = await tandem_command(*asked, "--key-env", "ADA")
    missing, _, no_key = await tandem_command(*asked)

    assert (refused, out) == (1, "")
    assert "hint: an admin's key" in why
    assert (code, missing) == (0, 1)
    assert "+++ b/new.txt" in change
    assert "--key-env NAME" in no_key
