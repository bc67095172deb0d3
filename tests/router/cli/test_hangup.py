"""What SIGHUP means to a router: a closed terminal, or a wish to reload."""

import asyncio
import os
import pty
import signal
import subprocess
import sys

import pytest

from router.cli.hangup import Hangup, has_terminal
from router.config.faults import ConfigError, Fault
from tests.conftest import SIMULATED
from tests.tools.waiting import until


class Reloads:
    """A reloader that counts."""

    def __init__(self, error: Exception | None = None) -> None:
        self.count, self.error = 0, error

    async def reload(self) -> None:
        self.count += 1
        if self.error is not None:
            raise self.error


def hang_up(*looks: bool, reloader: Reloads | None) -> list[str]:
    """What a router does that finds its terminal like this: at the start, at the signal, and later."""
    seen, stops = iter(looks), []
    hangup = Hangup(reloader, lambda: stops.append("stop"), lambda: next(seen))
    hangup.hear()
    return stops


@pytest.mark.parametrize(
    ("looks", "error"),
    [((False,), None), ((False,), ConfigError("config.yaml", [Fault("a", "b")])), ((True, True), None)],
    ids=["a service", "a service with a faulty config", "a signal from another program, in a terminal"],
)
async def test_a_router_that_has_lost_no_terminal_reloads(looks, error):
    reloads = Reloads(error)

    assert hang_up(*looks, reloader=reloads) == []
    await until(lambda: reloads.count == 1)


async def test_a_router_whose_terminal_was_closed_stops():
    reloads = Reloads()

    assert hang_up(True, False, reloader=reloads) == ["stop"]
    await asyncio.sleep(0)
    assert reloads.count == 0


@pytest.mark.jumping_clock
async def test_a_terminal_that_closes_after_the_signal_stops_the_router():
    stops = hang_up(True, True, False, reloader=Reloads())

    await until(lambda: stops)
    assert stops == ["stop"]


async def test_without_a_config_to_read_again_it_stops():
    assert hang_up(False, reloader=None) == ["stop"]


def test_a_process_in_a_session_of_its_own_has_no_terminal():
    asked = [sys.executable, "-c", "import sys; from router.cli.hangup import has_terminal; sys.exit(has_terminal())"]

    assert subprocess.run(asked, start_new_session=True, check=False).returncode == 0


def test_a_terminal_is_gone_once_its_other_end_is_closed():
    ready, told = os.pipe()
    ended, go = os.pipe()
    child, terminal = pty.fork()
    if child == 0:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        before = has_terminal()
        os.write(told, b"x")
        os.read(ended, 1)
        os._exit(0 if before and not has_terminal() else 1)
    os.read(ready, 1)
    os.close(terminal)
    os.write(go, b"x")

    _, status = os.waitpid(child, 0)

    for handle in (ready, told, ended, go):
        os.close(handle)
    assert os.waitstatus_to_exitcode(status) == 0


def test_sighup_reloads_a_router_without_a_terminal_and_sigterm_ends_it(here):
    (here / "config.yaml").write_text(SIMULATED)
    command = [sys.executable, "-m", "router.cli", "serve", "--port", "0", "--log", "json"]
    server = subprocess.Popen(
        command,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),
    )
    with server:
        assert '"server.started"' in server.stderr.readline()
        (here / "config.yaml").write_text(SIMULATED.replace("window_tokens: 400000", "window_tokens: 200000"))
        server.send_signal(signal.SIGHUP)
        reloaded = server.stderr.readline()
        (here / "config.yaml").write_text("tiers:\n")
        server.send_signal(signal.SIGHUP)
        kept = server.stderr.readline()
        server.terminate()
        code = server.wait(60)

    assert "tiers.deep (simulated-deep)" in reloaded
    assert '"config.kept"' in kept
    assert code == 0
