"""Programs that end with all that they have started."""

import os
import subprocess
import sys

import pytest

from router.cli.agent.group import end_group, start_group

DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True); signal.pause()"
PARENT = f"import subprocess, sys; p = subprocess.Popen([sys.executable, '-c', {DEAF!r}]); p.wait()"


def start(folder, script: str) -> tuple[subprocess.Popen[bytes], int]:
    """A program, and a pipe that is at its end once nobody of its group is left."""
    reader, writer = os.pipe()
    with os.fdopen(writer, "wb") as output:
        return start_group([sys.executable, "-c", script], folder, os.environ, output, output), reader


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
        "import os, signal, sys; from pathlib import Path; from router.cli.agent.group import start_group; "
        f"start_group([sys.executable, '-c', {agent!r}], Path('.'), os.environ, sys.stdout, sys.stderr); signal.pause()"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as worker:
        assert worker.stdout.readline() == b"ready\n"

        worker.kill()

        assert worker.stdout.read() == b""  # nobody is left who could write


def test_a_program_that_cannot_be_started_is_an_error_of_the_system(tmp_path):
    with (tmp_path / "log").open("wb") as output, pytest.raises(FileNotFoundError):
        start_group([str(tmp_path / "missing")], tmp_path, {}, output, output)
