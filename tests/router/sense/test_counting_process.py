"""The router's end of the process that counts."""

import os
from pathlib import Path

import pytest

from router.sense.counting_process import CountingProcess

pytestmark = pytest.mark.starts

LISTS_ITS_ENVIRONMENT = """
import os, struct, sys
sys.stdout.buffer.write(struct.pack("<q", -1))
sys.stdout.flush()
sys.stdin.buffer.read(4)
open(os.environ["TIKTOKEN_CACHE_DIR"] + "/seen", "w").write(" ".join(os.environ))
sys.stdout.buffer.write(struct.pack("<q", 7))
"""


@pytest.fixture
def process(tmp_path):
    """Start a program as the counting process."""
    started: list[CountingProcess] = []

    def start(program: str) -> CountingProcess:
        (tmp_path / "program.py").write_text(program)
        started.append(CountingProcess(tmp_path / "program.py", tmp_path))
        return started[-1]

    yield start
    for process in started:
        process.stop()


def test_the_process_sees_no_key_of_ours(process, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary")

    assert process(LISTS_ITS_ENVIRONMENT).count([[]], 20) == [7]

    assert "OPENAI_API_KEY" not in (tmp_path / "seen").read_text()


def test_a_process_that_says_nothing_is_killed_when_the_time_is_up(process):
    silent = process("import time; time.sleep(60)")

    with pytest.raises(BrokenPipeError):
        silent.count([["x"]], 0.3)
    assert not silent.is_ready


def test_a_process_that_reads_nothing_does_not_hold_up_a_large_text(process):
    deaf = process(
        "import sys, struct, time; sys.stdout.buffer.write(struct.pack('<q', -1)); sys.stdout.flush(); time.sleep(60)"
    )

    with pytest.raises(BrokenPipeError):
        deaf.count([["x" * 1_000_000]], 1.0)
    assert deaf.is_ready


def test_a_stopped_process_is_gone_and_its_pipes_are_closed(process):
    stopped = process("import time; time.sleep(60)")
    folder = Path("/proc") / str(stopped._process.pid)
    before = len(os.listdir("/proc/self/fd"))

    stopped.stop()

    assert not folder.exists()
    assert len(os.listdir("/proc/self/fd")) == before - 2
