"""The suite itself: every run ends with a summary and a status, however its tests fail and wherever it runs."""

import ast
import os
import signal
import subprocess
import sys
import textwrap
import tomllib
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
HANGS = """
import asyncio, ctypes, threading

def test_never_comes_back_from_c():
    library, mutex = ctypes.PyDLL(None), ctypes.create_string_buffer(128)  # PyDLL keeps Python's lock: no thread of it can run
    library.pthread_mutex_lock(mutex)
    library.pthread_mutex_lock(mutex)

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
    """Run a test file by the command line of `make test` with one worker, with this suite's own settings and fixtures."""
    file = folder / "test_written_for_this.py"
    file.write_text(content)
    command = [sys.executable, "-m", "pytest", "-n", "1", "--maxprocesses", "8", "--dist", "worksteal", *more]
    command += ["-p", "tests.conftest", "-c", str(CHECKOUT / "pyproject.toml"), "--rootdir", str(CHECKOUT), str(file)]
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


def test_a_test_that_hangs_in_c_or_in_its_teardown_ends_its_worker_and_the_run_ends_in_a_summary(tmp_path):
    done = run_suite(tmp_path, HANGS, "-o", "faulthandler_timeout=2")

    assert done.returncode == 1, done.stdout + done.stderr
    assert "test_never_comes_back_from_c" in done.stdout
    assert "in test_never_comes_back_from_c" in done.stderr  # the stack
    assert done.stdout.count("test_leaves_a_blocked_thread - assert False") == 1
    assert done.stdout.count("test_leaves_a_task_that_goes_on - assert False") == 1
    assert "5 failed, 1 passed" in done.stdout  # the last two once by themselves and once for the worker they took along


def test_a_test_that_waits_forever_fails_by_its_limit_and_takes_no_worker_along(tmp_path):
    done = run_suite(tmp_path, WAITS_FOREVER, "-o", "timeout=1")

    assert done.returncode == 1, done.stdout + done.stderr
    assert "test_waits - Failed: Timeout (>1.0s)" in done.stdout
    assert "1 failed, 1 passed" in done.stdout


def test_the_watchdog_waits_longer_than_the_limit_of_a_test(pytestconfig):
    assert pytestconfig.getini("faulthandler_exit_on_timeout")
    assert float(pytestconfig.getini("faulthandler_timeout")) > float(pytestconfig.getini("timeout"))


_CLOCKS = {f"time.{clock}" for clock in ("time", "monotonic", "perf_counter", "process_time", "thread_time")}
_CLOCKS |= {"loop.time", "asyncio.get_running_loop().time"}
_WAITS = {"wait_for", "timeout", "until", "until_steady"}
_CALLS = [f"{name.rpartition('.')[2]}(" for name in _CLOCKS | _WAITS]


def reads_a_clock(node: ast.AST, names: set[str]) -> bool:
    """Whether an expression reads a clock, or a name that holds what was read from one."""
    calls = (inner for inner in ast.walk(node) if isinstance(inner, ast.Call))
    return any(ast.unparse(call.func) in _CLOCKS for call in calls) or any(
        isinstance(inner, ast.Name) and inner.id in names for inner in ast.walk(node)
    )


def is_number(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float)


def limits_in_seconds(source: str) -> list[str]:
    """What asserts that some time is below a number, or gives something less than thirty seconds to happen.

    A timeout that is expected, and one by a clock that jumps, is no limit.
    """
    if "pytestmark = pytest.mark.jumping_clock" in source or not any(call in source for call in _CALLS):
        return []
    names, exempt, nodes = set(), set(), list(ast.walk(ast.parse(source)))
    for node in nodes:
        if isinstance(node, ast.Assign) and reads_a_clock(node.value, names):
            names.update(target.id for target in node.targets if isinstance(target, ast.Name))
        is_expected = isinstance(node, ast.With) and ast.unparse(node.items[0]).startswith(
            ("pytest.raises", "contextlib.suppress")
        )
        if is_expected or "jumping_clock" in map(ast.unparse, getattr(node, "decorator_list", ())):
            exempt.update(ast.walk(node))
    found = []
    for node in (node for node in nodes if node not in exempt):
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in _WAITS and node.args:
            if is_number(node.args[-1]) and node.args[-1].value < 30:
                found.append(ast.unparse(node))
        elif isinstance(node, ast.Assert) and isinstance(node.test, ast.Compare):
            compared = [node.test.left, *node.test.comparators]
            found += [
                ast.unparse(node)
                for left, sign, right in zip(compared, node.test.ops, compared[1:], strict=False)
                if isinstance(sign, ast.Lt | ast.LtE) and reads_a_clock(left, names) and is_number(right)
            ]
    return found


@pytest.mark.parametrize(
    "line",
    [
        "assert time.perf_counter() - began < 0.5",
        "took = time.thread_time() - began\nassert took <= 2",
        "took = asyncio.get_running_loop().time() - began\nassert 1 < took < 3",
        "await asyncio.wait_for(answer, 5)",
        "await until(is_done, 20)",
    ],
)
def test_a_limit_in_seconds_is_found(line):
    assert limits_in_seconds(f"async def test_it():\n{textwrap.indent(line, '    ')}") == [
        line.splitlines()[-1].removeprefix("await ")
    ]


def test_no_test_has_a_limit_in_seconds_outside_the_bench():
    """A busy machine breaks them. Count steps, use a clock that jumps, or give a thing that must happen thirty seconds."""
    files = [path for path in (CHECKOUT / "tests").rglob("*.py") if "bench" not in path.parts]

    found = {str(path.relative_to(CHECKOUT)): limits_in_seconds(path.read_text()) for path in files}

    assert {path: limits for path, limits in found.items() if limits} == {}


_CLOCK_TESTS = {
    "test_a_pause_longer_than_the_stall_timeout_is_not_the_targets_fault",
    "test_a_paused_call_pulls_nothing_until_resumed",
    "test_what_is_under_way_when_the_router_is_paused_is_answered_whole",
    "test_pausing_stops_the_bytes_and_resuming_lets_all_of_them_flow",
    "test_a_body_at_a_fair_pace_may_take_its_time",
    "test_a_message_that_comes_at_a_fair_pace_may_take_its_time",
    "test_without_free_file_handles_callers_wait_without_a_busy_loop_and_are_served_later",
}
"""Tests in which a time must pass, because a limit by the clock is what they are about."""


def bets_on_time(source: str) -> list[str]:
    """Sleeps that bet on what has happened when they are over.

    A helper may sleep between two looks (in a `while`), and a peer of a test has its pace (`by_the_clock`). A test itself waits for
    what it wants to see, or is in the list above.
    """
    if "pytestmark = pytest.mark.jumping_clock" in source or not ("sleep(" in source or "by_the_clock(" in source):
        return []
    found: list[str] = []

    def look(node: ast.AST, function: str, *, is_test: bool, is_loop: bool) -> None:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if any(ast.unparse(mark).endswith("jumping_clock") for mark in node.decorator_list):
                return
            function, is_test, is_loop = node.name, node.name.startswith("test_"), False
        is_loop = is_loop or isinstance(node, ast.While)
        called = node.value if isinstance(node, ast.Await | ast.Expr) else None
        if isinstance(called, ast.Call) and called.args and ast.unparse(called.args[0]) != "0":
            name = ast.unparse(called.func).rpartition(".")[2]
            is_bet = is_test or not is_loop if name == "sleep" else is_test and function not in _CLOCK_TESTS
            if name in ("sleep", "by_the_clock") and is_bet:
                found.append(ast.unparse(called))
                return
        for child in ast.iter_child_nodes(node):
            look(child, function, is_test=is_test, is_loop=is_loop)

    look(ast.parse(source), "", is_test=False, is_loop=False)
    return found


@pytest.mark.parametrize(
    ("function", "line", "is_found"),
    [
        ("test_it", "await asyncio.sleep(0.2)", True),
        ("test_it", "time.sleep(0.2)", True),
        ("test_it", "while before != sent:\n    await asyncio.sleep(0.2)", True),
        ("test_it", "await by_the_clock(0.2)", True),
        ("test_it", "await asyncio.sleep(0)", False),
        ("test_it", "async def script(wire, seen):\n    await by_the_clock(0.2)", False),
        ("test_it", "async def script(wire, seen):\n    await asyncio.sleep(0.2)", True),
        ("settle", "await asyncio.sleep(0.2)", True),
        ("until", "while not is_so():\n    await asyncio.sleep(0.2)", False),
    ],
)
def test_a_bet_on_time_is_found(function, line, is_found):
    assert bool(bets_on_time(f"async def {function}():\n{textwrap.indent(line, '    ')}")) is is_found


def test_no_test_bets_on_time_outside_the_bench_and_the_soak():
    """Wait for what must be so with `until`, let the loop turn with `some_turns`, or use a clock that jumps."""
    left_out = CHECKOUT / "tests/tools/waiting.py"
    files = [
        path for path in (CHECKOUT / "tests").rglob("*.py") if not {"bench", "soak"} & set(path.parts) and path != left_out
    ]

    found = {str(path.relative_to(CHECKOUT)): bets_on_time(path.read_text()) for path in files}

    assert {path: bets for path, bets in found.items() if bets} == {}


STARTS_THINGS = """
import asyncio
import pytest
from os import sys
from importlib import import_module
from tests.tools.quick import starts

async def test_opens_a_server():
    await asyncio.get_running_loop().create_server(asyncio.Protocol, "127.0.0.1", 0)

def test_runs_a_program():
    import_module("sub" + "process").run([sys.executable, "-V"])

async def test_asks_for_a_router(start):
    pass

@pytest.fixture(scope="session")
@starts
def server():
    pass

@pytest.fixture
def place(server):
    pass

def test_closes_over_a_server(place):
    pass

@pytest.mark.parametrize("case", [1, 2])
def test_asks_for_a_server_late(request, case):
    request.getfixturevalue("place")

@pytest.mark.starts
def test_is_marked():
    pass

def test_passes():
    pass
"""


def test_a_quick_run_leaves_out_what_starts_servers_and_fails_what_does_so_unmarked(tmp_path):
    done = run_suite(tmp_path, STARTS_THINGS, "-p", "tests.tools.quick")

    assert "test_opens_a_server - Failed: a quick test starts no server" in done.stdout, done.stdout + done.stderr
    assert "test_runs_a_program - Failed: a quick test starts no server" in done.stdout
    assert "2 failed, 1 passed, 2 skipped" in done.stdout


def test_every_module_that_is_mutated_is_there_with_its_tests():
    settings = tomllib.loads((CHECKOUT / "tests/mutants.toml").read_text())["cosmic-ray"]
    tests = [word for word in settings["test-command"].split() if word.startswith("tests/")]

    assert [f"tests/{Path(path).parent}/test_{Path(path).name}" for path in settings["module-path"]] == tests
    assert all((CHECKOUT / path).is_file() for path in [*settings["module-path"], *tests])
