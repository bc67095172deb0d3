"""The process that runs an agent: what becomes of its worktree, its log and its change."""

import io
import os
import signal

import pytest

from router.cli.agent import worker
from router.cli.agent.worker import Worker, main, read_assignment
from router.cli.background import Refused
from tests.tools.coding_agents import AWAY, GONE, WAITS, NotedJobs, apply_change, git, make_assignment, make_repository

NEW = "open('new.txt', 'w').write('new\\n')"


@pytest.fixture
def repository(tmp_path):
    return make_repository(tmp_path / "repository")


@pytest.fixture
def jobs(monkeypatch):
    monkeypatch.setattr(worker, "_LOOK_SECONDS", 0.02)
    return NotedJobs()


@pytest.fixture
def run(repository, tmp_path, jobs):
    """Have an agent work that does what a script says; returns how its job ended."""

    def run(script: str, **more) -> dict:
        Worker(make_assignment(repository, tmp_path / "folder", script, **more), jobs, pause=lambda _: None).run()
        return jobs.ends[-1] if jobs.ends else {}

    return run


def count_worktrees(repository) -> int:
    return len(git(repository, "worktree", "list").splitlines())


def test_the_change_has_edits_new_files_and_commits_and_applies(repository, run, jobs, tmp_path):
    script = f"""
import os, subprocess
print("at", os.environ["ASKED_AT"])
open("kept.txt", "a").write("edited\\n")
subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qam", "mine"], check=True)
{NEW}
os.remove("inside/deep.txt")
open("picture", "wb").write(bytes(range(256)))
"""
    end = run(script)

    assert (end["state"], end["error"]) == ("completed", "")
    assert "at here\n" in jobs.text
    apply_change(repository, end["change"])
    assert (repository / "kept.txt").read_text() == "one\nedited\n"
    assert (repository / "new.txt").read_text() == "new\n"
    assert (repository / "picture").read_bytes() == bytes(range(256))
    assert not (repository / "inside" / "deep.txt").exists()


def test_nothing_is_left_of_work_that_was_handed_in(repository, run, tmp_path):
    run(NEW)

    assert count_worktrees(repository) == 1
    assert not (tmp_path / "folder").exists()
    assert git(repository, "status", "--porcelain") == ""


def test_the_agent_begins_in_the_folder_in_which_it_was_asked_for(run):
    assert "inside/new.txt" in run(NEW, inside="inside")["change"]


def test_a_folder_that_is_not_committed_is_no_obstacle(run):
    assert "+++ b/new.txt" in run(NEW, inside="uncommitted")["change"]


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("import sys; sys.exit('no idea')", "ended with exit status 1"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "ended with signal 9"),
    ],
)
def test_an_agent_that_fails_leaves_its_log_and_what_it_changed(run, jobs, script, words):
    end = run(f"{NEW}; print('so far', flush=True); {script}")

    assert end["state"] == "failed"
    assert words in end["error"]
    assert "so far" in jobs.text
    assert "new.txt" in end["change"]


def test_an_agent_that_cannot_be_started_is_named(run, jobs):
    end = run("", command=("/missing/agent", "the task"))

    assert (end["state"], end["error"]) == ("failed", "/missing/agent could not be started: No such file or directory")


def test_a_worktree_that_cannot_be_made_is_explained_by_git(run, jobs, tmp_path):
    end = run(NEW, commit="0" * 40)

    assert (end["state"], end["change"]) == ("failed", "")
    assert "fatal: " in jobs.text
    assert not (tmp_path / "folder").exists()


def test_cancelling_ends_the_agent_with_its_children(run, jobs):
    def cancel_once_it_works() -> None:
        jobs.is_cancelled = "child " in jobs.text

    jobs.on_log = cancel_once_it_works
    end = run(WAITS)

    assert (end["state"], end["error"]) == ("cancelled", "")
    assert "new.txt" in end["change"]
    child = int(jobs.text.partition("child ")[2].partition(".")[0])
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)


def test_an_agent_that_works_past_the_deadline_is_ended(run):
    end = run(WAITS, deadline_seconds=0.0)

    assert end["state"] == "failed"
    assert "did not end within" in end["error"]


@pytest.mark.parametrize("fault", [GONE, Refused(401, "unauthorized", "no key")], ids=["gone", "refused"])
def test_a_change_that_nobody_took_stays_in_its_worktree(repository, run, jobs, tmp_path, fault):
    jobs.end_fault = fault
    run(NEW)

    assert count_worktrees(repository) == 2
    assert (tmp_path / "folder" / "tree" / "new.txt").read_text() == "new\n"
    assert "is left as it is" in (tmp_path / "folder" / "log").read_text()


def test_a_router_that_is_away_for_a_while_still_gets_the_result(run, jobs, tmp_path):
    jobs.faults = [AWAY] * 5

    assert "new.txt" in run(NEW)["change"]
    assert not (tmp_path / "folder").exists()


def test_an_agent_of_a_job_that_was_deleted_is_ended(run, jobs, tmp_path):
    jobs.on_log = lambda: jobs.faults.append(GONE) if "child " in jobs.text else None
    run(WAITS)

    assert jobs.ends == []
    assert (tmp_path / "folder" / "tree" / "new.txt").exists()


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("open('new.txt', 'wb').write(b'gr\\xf6sser\\n')", "not text in UTF-8"),
        ("open('new.txt', 'w').write('long line\\n' * 250_000)", "too large to be kept"),
    ],
)
def test_a_change_that_cannot_be_kept_is_left_and_said_where(run, tmp_path, script, words):
    end = run(script)

    assert (end["state"], end["change"]) == ("failed", "")
    assert words in end["error"]
    assert str(tmp_path / "folder" / "tree") in end["error"]
    assert (tmp_path / "folder" / "tree" / "new.txt").exists()


def test_an_agent_that_deletes_gits_own_file_does_not_lead_git_elsewhere(repository, run):
    end = run(f"import os; os.remove('.git'); {NEW}")

    assert "+++ b/new.txt" in end["change"]
    assert git(repository, "status", "--porcelain") == ""


def test_a_process_that_is_stopped_ends_its_agent_and_says_so(monkeypatch, repository, tmp_path, jobs):
    given = make_assignment(repository, tmp_path / "folder", WAITS)
    monkeypatch.setattr(worker, "Jobs", lambda url, key: jobs)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(given.write())))
    jobs.on_log = lambda: os.kill(os.getpid(), signal.SIGTERM) if "child " in jobs.text else None
    before = signal.getsignal(signal.SIGTERM)
    try:
        main()
    finally:
        signal.signal(signal.SIGTERM, before)

    assert jobs.ends[0]["error"] == "the process that ran the agent was stopped"
    assert read_assignment(given.write()) == given
