"""The process that runs an agent: what becomes of its worktree, its log and its change."""

import io
import os
import signal
import subprocess
import sys

import msgspec
import pytest

from router.cli.agent import worker
from router.cli.agent.worker import AgentLog, Worker, end_group, main, start_group
from router.cli.asking import Refused, Unreachable
from tests.tools.coding_agents import AWAY, GONE, WAITS, NotedJobs, apply_change, git, make_assignment, make_repository

DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True); signal.pause()"
PARENT = f"import subprocess, sys; p = subprocess.Popen([sys.executable, '-c', {DEAF!r}]); p.wait()"
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
    assert len(git(repository, "worktree", "list").splitlines()) == 1
    assert not (tmp_path / "folder").exists()


@pytest.mark.parametrize(("inside", "path"), [("inside", "inside/new.txt"), ("uncommitted", "new.txt")])
def test_the_agent_begins_in_the_folder_in_which_it_was_asked_for_if_that_is_committed(run, inside, path):
    assert f"+++ b/{path}\n" in run(NEW, inside=inside)["change"]


def test_an_agent_that_is_killed_leaves_its_log_and_what_it_changed(run, jobs):
    end = run(f"{NEW}; print('so far', flush=True); import os, signal; os.kill(os.getpid(), signal.SIGKILL)")

    assert end["state"] == "failed"
    assert "ended with signal 9" in end["error"]
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


def test_an_agent_that_works_past_the_deadline_is_ended(run):
    end = run(WAITS, deadline_seconds=0.0)

    assert end["state"] == "failed"
    assert "did not end within" in end["error"]


@pytest.mark.parametrize("fault", [GONE, Refused(401, "unauthorized", "no key")], ids=["gone", "refused"])
def test_a_change_that_nobody_took_stays_in_its_worktree(repository, run, jobs, tmp_path, fault):
    jobs.end_fault = fault
    run(NEW)

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
    assert len(git(repository, "worktree", "list").splitlines()) == 1


def test_an_agent_that_deletes_the_repositorys_config_loses_no_change(repository, run, jobs):
    end = run(f"import os; os.remove({str(repository / '.git' / 'config')!r}); {NEW}")

    assert "+++ b/new.txt" in end["change"]
    assert "/.git/config: read it before your next git command" in jobs.text


@pytest.fixture
def spy(tmp_path):
    """A program that notes that it was run, and with what."""
    path = tmp_path / "spy"
    path.write_text(f"#!/bin/sh\necho $0 $1 >> {tmp_path}/ran\ncat\n")
    path.chmod(0o755)
    return path


def test_nothing_that_an_agent_wrote_into_the_config_is_run(run, jobs, tmp_path, spy):
    script = f"""
import os, subprocess
def set(name, value): subprocess.run(["git", "config", name, value], check=True)
open("kept.txt", "a").write("edited\\n")
open(".gitattributes", "w").write("*.txt filter=spy diff=spy\\n")
set("core.fsmonitor", "{spy} fsmonitor")
set("filter.spy.clean", "{spy} clean")
set("diff.spy.textconv", "{spy} textconv")
set("diff.external", "{spy} external")
set("core.hooksPath", "{tmp_path}/hooks")
os.mkdir("{tmp_path}/hooks")
os.symlink("{spy}", "{tmp_path}/hooks/post-index-change")
open("{tmp_path}/ran", "w").close()  # what the agent itself has run
"""
    end = run(script)

    assert "+edited" in end["change"]
    assert (tmp_path / "ran").read_text() == ""
    assert "/.git/config: read it before your next git command" in jobs.text


def test_nothing_in_the_config_of_a_submodule_is_run(repository, run, tmp_path, spy):
    part = make_repository(tmp_path / "part")
    git(repository, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(part), "part")
    git(repository, "commit", "--quiet", "-m", "a part")
    end = run(f"""
import os, subprocess
def git(*arguments): subprocess.run(["git", "-c", "protocol.file.allow=always", *arguments], check=True)
git("submodule", "--quiet", "update", "--init")
git("-C", "part", "config", "filter.spy.clean", "{spy} clean")
open("part/.gitattributes", "w").write("*.txt filter=spy\\n")
os.utime("part/kept.txt", (1, 1))  # or git would not read it
{NEW}
""")

    assert "+++ b/new.txt" in end["change"]
    assert not (tmp_path / "ran").exists()


def test_filters_that_the_person_has_set_up_are_used(repository, run, tmp_path, spy):
    git(repository, "config", "filter.spy.clean", f"{spy} clean")
    run("open('.gitattributes', 'w').write('*.txt filter=spy\\n'); open('kept.txt', 'a').write('edited\\n')")

    assert "clean" in (tmp_path / "ran").read_text()


def test_an_agent_whose_key_was_revoked_is_ended(run, jobs):
    jobs.on_log = lambda: jobs.faults.append(Refused(401, "unauthorized", "no key")) if "child " in jobs.text else None
    run(WAITS, key="tdm_0")

    assert jobs.ends == []


def test_a_process_that_is_stopped_ends_its_agent_and_says_so(monkeypatch, repository, tmp_path, jobs):
    given = make_assignment(repository, tmp_path / "folder", WAITS)
    monkeypatch.setattr(worker, "Jobs", lambda url, key: jobs)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(msgspec.json.encode(given))))
    jobs.on_log = lambda: os.kill(os.getpid(), signal.SIGTERM) if "child " in jobs.text else None
    before = signal.getsignal(signal.SIGTERM)
    try:
        main()
    finally:
        signal.signal(signal.SIGTERM, before)

    assert jobs.ends[0]["error"] == "the process that ran the agent was stopped"


def start(folder, script: str) -> tuple[subprocess.Popen[bytes], int]:
    """A program, and a pipe that is at its end once nobody of its group is left."""
    reader, writer = os.pipe()
    with os.fdopen(writer, "wb") as output:
        return start_group([sys.executable, "-c", script], folder, os.environ, output), reader


@pytest.mark.parametrize("script", [DEAF, PARENT], ids=["deaf", "with a deaf child"])
def test_a_group_that_does_not_end_when_it_is_asked_is_killed_whole(tmp_path, script):
    leader, reader = start(tmp_path, script)
    with os.fdopen(reader, "rb") as output:
        assert output.readline() == b"ready\n"

        end_group(leader, grace_seconds=0.05)

        assert output.read() == b""
    assert leader.returncode is not None


def test_what_a_program_leaves_running_ends_after_it(tmp_path):
    script = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', 'import signal; signal.pause()'])"
    leader, reader = start(tmp_path, script)
    assert leader.wait() == 0

    end_group(leader)

    with os.fdopen(reader, "rb") as output:
        assert output.read() == b""


@pytest.mark.skipif(sys.platform != "linux", reason="others do not tell a program that its parent has ended")
def test_a_program_ends_when_the_process_that_runs_it_is_killed(tmp_path):
    agent = "import signal; print('ready', flush=True); signal.pause()"
    script = (
        "import os, signal, sys; from pathlib import Path; from router.cli.agent.worker import start_group; "
        f"start_group([sys.executable, '-c', {agent!r}], Path('.'), os.environ, sys.stdout); signal.pause()"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as worker:
        assert worker.stdout.readline() == b"ready\n"

        worker.kill()

        assert worker.stdout.read() == b""  # nobody is left who could write


def make_log(jobs, path, **more) -> AgentLog:
    path.touch()
    return AgentLog(jobs, "resp_1", "outside-1", 5, path, **more)


def test_what_could_not_be_sent_is_sent_under_the_same_number(jobs, tmp_path):
    log = make_log(jobs, tmp_path / "log")
    log.note("begins")
    jobs.faults = [AWAY]

    with pytest.raises(Unreachable):
        log.send()
    log.note("goes on")
    log.finish()

    assert jobs.log == {5: "tandem: begins\n", 6: "tandem: goes on\n"}


def test_a_character_that_is_cut_in_two_arrives_whole(jobs, tmp_path):
    log, whole = make_log(jobs, tmp_path / "log"), "größer".encode()
    for cut in (whole[:3], whole[3:], b"\xff\n"):
        with (tmp_path / "log").open("ab") as file:
            file.write(cut)
        log.send()

    assert jobs.text == "größer\ufffd\n"


def test_of_a_long_log_the_beginning_and_the_end_are_kept(jobs, tmp_path):
    log = make_log(jobs, tmp_path / "log", most_bytes=1_000)
    (tmp_path / "log").write_bytes(b"b" * 1_000 + b"m" * 100_000 + b"e" * 65_536)

    log.send()
    assert jobs.text == "b" * 1_000
    log.finish()

    left_out = "\ntandem: 100,000 bytes of the log are left out here\n"
    assert jobs.text == "b" * 1_000 + left_out + "e" * 65_536
