"""The screen of a group of workers."""

import contextlib
import os
import re
import signal
import threading
from http.client import HTTPException
from pathlib import Path

import msgspec
import pytest
from msgspec import Raw

from router.cli.workers.screen_process import ScreenProcess
from router.past.turns import Begun
from router.screen.screen import Screen
from router.screen.seen import CallBegun, CallEnded, Seen
from router.screen.text import Style
from tests.conftest import SIMULATED
from tests.router.cli.test_screen import CALL, CLAUDE, CODEX, LONG, QUICK, RESULT, SLOW, ask, find_url, rows, serve_here
from tests.router.screen.test_screen import FACTS
from tests.tools.kept import LINE
from tests.tools.valkey import find_server

needs_valkey = pytest.mark.skipif(find_server() is None, reason="no Valkey or Redis server on this machine")


class File:
    """A terminal that is a file, of this process's child."""

    is_busy, size = False, (120, 24)

    def __init__(self, path: Path) -> None:
        self._path = path

    def give(self, text: str) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(text)

    close = give


@pytest.fixture
def shown(tmp_path):
    """A screen whose lines are written to a file, and what they are when it is closed."""
    path = tmp_path / "shown"
    screen = ScreenProcess(lambda: Screen(File(path), Style(), is_still=True))

    def close() -> str:
        screen.close()
        return path.read_text(encoding="utf-8")

    return screen, close


def see(*seen: Seen) -> Raw:
    return Raw(msgspec.json.encode(seen))


def begin(name: str) -> CallBegun:
    return CallBegun(Begun(name, 1_000.0, "ask", "fast", "looks like a quick edit: typo", session=name))


def test_turns_of_two_workers_are_rows_of_one_table_and_are_summed_up(shown):
    screen, close = shown
    screen.open(FACTS)
    for worker, name in ((1, "req_1"), (2, "req_2")):
        screen.show(worker, see(begin(name)))
        screen.show(worker, see(CallEnded(msgspec.structs.replace(LINE, id=name, tier="fast", because="x"))))
    text = close()

    assert text.count("quick edit: typo") == 2
    assert text.count("time ") == 1
    assert "2 turns, 2 fast" in text


def test_events_of_the_parent_are_rows_too_and_a_start_that_failed_has_no_sum(shown):
    screen, close = shown
    screen.note("worker 1 ended (killed by SIGKILL); another takes its place", "error")
    screen.reject(404, "no route /nowhere")
    text = close()

    assert re.search(r"\d\d:\d\d  ! worker 1 ended \(killed by SIGKILL\); another takes its place", text)
    assert "no route /nowhere" in text
    assert "no turns" not in text


def test_calls_of_a_worker_that_ended_no_longer_run(shown):
    screen, close = shown
    screen.open(FACTS)
    screen.show(1, see(begin("req_1")))
    screen.show(2, see(begin("req_2")))
    screen.leave(1)
    text = close()

    assert text.count("running") == 1


def test_a_screen_that_does_not_read_holds_nobody_up(shown):
    screen, close = shown
    os.kill(screen._pid, signal.SIGSTOP)
    for _ in range(400):
        screen.note("x" * 10_000, "info")
    os.kill(screen._pid, signal.SIGCONT)

    assert close().count("x" * 100) > 0


@needs_valkey
@pytest.mark.parametrize("columns", [80, 120])
def test_with_workers_the_terminal_has_the_table_of_one_router(here, columns):
    paced = SIMULATED.replace("tokens_per_second: 50000", "tokens_per_second: 1000").replace("d: 20000", "d: 200")
    with serve_here(here, "--workers", "2", columns=columns, config=paced) as terminal:
        url = find_url(terminal)
        for _ in range(6):  # each on a connection of its own, so that both workers serve some
            ask(url, CODEX, QUICK)
        ask(url, CODEX, QUICK, CALL, RESULT)
        ask(url, CLAUDE, LONG)
        terminal.wait_for(lambda lines: len(rows(lines)) == 7 and not any("running" in line for line in lines))
        terminal.type(b"\x03")
        lines = terminal.finish()

    assert terminal.process.wait(20) == 0
    assert [row.split()[2] for row in rows(lines) if row.startswith("codex")] == ["1", "2", "3", "4", "5", "6"]
    assert sum(line.startswith("time") for line in lines) == 1
    assert max(map(len, lines)) <= columns
    assert not any(re.search(r"\w=", line) for line in lines)
    assert "7 turns, 6 fast, 1 deep" in "\n".join(lines)
    assert terminal.screen.strange == []


@needs_valkey
def test_a_turn_of_a_worker_ticks_and_its_end_by_force_is_a_row(here):
    with serve_here(here, "--workers", "2", columns=120, config=SLOW) as terminal:
        url = find_url(terminal)

        def ask_in_vain() -> None:
            with contextlib.suppress(OSError, HTTPException):
                ask(url, CLAUDE, LONG)

        thread = threading.Thread(target=ask_in_vain)
        thread.start()
        terminal.wait_for(lambda lines: any("running" in line for line in lines))
        parent = terminal.process.pid
        children = map(int, Path(f"/proc/{parent}/task/{parent}/children").read_text().split())
        workers = [pid for pid in children if b"router.cli" in Path(f"/proc/{pid}/cmdline").read_bytes()]
        for pid in workers[1:]:  # the first is the screen
            os.kill(pid, signal.SIGKILL)
        lines = terminal.wait_for(lambda lines: sum("another takes its place" in line for line in lines) == 2)
        terminal.wait_for(lambda lines: not any("running" in line for line in lines))
        thread.join()

    assert any(
        re.fullmatch(r"\d\d:\d\d  ! worker \d ended \(killed by SIGKILL\); another takes its place", line) for line in lines
    )
