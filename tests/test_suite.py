"""The suite itself: every run ends with a summary and a status, however its tests fail and wherever it runs."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[1]
PATIENCE_SECONDS = 100
SURROUNDINGS = {
    "plain": {},
    "under nohup, without a terminal, with another hash seed": {
        "preexec_fn": lambda: [signal.signal(number, signal.SIG_IGN) for number in (signal.SIGHUP, signal.SIGINT)],
        "start_new_session": True,
        "env": {**os.environ, "PYTHONHASHSEED": "7"},
    },
}
LEAVES_A_SERVER_OPEN = """
import asyncio

async def test_fails_with_an_open_server():
    server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    assert server.sockets == ()

async def test_passes():
    await asyncio.sleep(0)
"""
HANGS_IN_C = """
import ctypes

def test_never_comes_back_from_c():
    library, mutex = ctypes.PyDLL(None), ctypes.create_string_buffer(128)  # PyDLL keeps Python's lock: no thread of it can run
    library.pthread_mutex_lock(mutex)
    library.pthread_mutex_lock(mutex)

def test_passes():
    pass
"""
HANGS_AFTER_ITS_FAILURE = """
import asyncio, threading

kept = []

async def ignore_cancellation():
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            pass

async def test_leaves_a_blocked_thread():
    asyncio.get_running_loop().run_in_executor(None, threading.Event().wait)
    assert False

async def test_leaves_a_task_that_goes_on():
    kept.append(asyncio.get_running_loop().create_task(ignore_cancellation()))
    await asyncio.sleep(0)
    assert False

def test_passes():
    pass
"""
WAITS_FOREVER = """
import asyncio

async def test_waits():
    server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
    async with server:
        await asyncio.Event().wait()

def test_passes():
    pass
"""


def run_suite(folder: Path, content: str, *more: str, **surroundings) -> subprocess.CompletedProcess:
    """Run a test file by the command line of `make test`, with this suite's own settings and fixtures."""
    file = folder / "test_written_for_this.py"
    file.write_text(content)
    command = [sys.executable, "-m", "pytest", "-n", "2", "--maxprocesses", "8", "--dist", "worksteal", "-p", "tests.conftest"]
    command += ["-c", str(CHECKOUT / "pyproject.toml"), "--rootdir", str(CHECKOUT), *more, str(file)]
    return subprocess.run(
        command,
        cwd=CHECKOUT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        **surroundings,
    )


@pytest.mark.parametrize("surroundings", SURROUNDINGS.values(), ids=SURROUNDINGS)
def test_a_failed_test_with_an_open_server_ends_in_a_summary_that_names_it(tmp_path, surroundings):
    done = run_suite(tmp_path, LEAVES_A_SERVER_OPEN, **surroundings)

    assert done.returncode == 1, done.stdout + done.stderr
    assert "test_fails_with_an_open_server - " in done.stdout
    assert "1 failed, 1 passed" in done.stdout


def test_a_test_that_hangs_in_c_ends_its_worker_which_is_reported_with_the_stack(tmp_path):
    done = run_suite(tmp_path, HANGS_IN_C, "-o", "faulthandler_timeout=2")

    assert done.returncode == 1, done.stdout + done.stderr
    assert "test_never_comes_back_from_c" in done.stdout
    assert "1 failed, 1 passed" in done.stdout
    assert "in test_never_comes_back_from_c" in done.stderr  # the stack


def test_a_failed_test_whose_teardown_hangs_ends_in_a_summary_too(tmp_path):
    done = run_suite(tmp_path, HANGS_AFTER_ITS_FAILURE, "-o", "faulthandler_timeout=2")

    assert done.returncode == 1, done.stdout + done.stderr
    assert done.stdout.count("test_leaves_a_blocked_thread - assert False") == 1
    assert done.stdout.count("test_leaves_a_task_that_goes_on - assert False") == 1
    assert "4 failed, 1 passed" in done.stdout  # each once by itself and once for the worker it took along


def test_a_test_that_waits_forever_fails_by_its_limit_and_takes_no_worker_along(tmp_path):
    done = run_suite(tmp_path, WAITS_FOREVER, "-o", "timeout=1")

    assert done.returncode == 1, done.stdout + done.stderr
    assert "test_waits - Failed: Timeout (>1.0s)" in done.stdout
    assert "1 failed, 1 passed" in done.stdout


def test_the_watchdog_waits_longer_than_the_limit_of_a_test(pytestconfig):
    assert pytestconfig.getini("faulthandler_exit_on_timeout")
    assert float(pytestconfig.getini("faulthandler_timeout")) > float(pytestconfig.getini("timeout"))
