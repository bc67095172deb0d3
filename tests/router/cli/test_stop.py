"""`tandem stop`."""

import json
import os
import socket
import time

import pytest

from router.cli import main
from router.cli.routers import Router, all_routers, note_router
from tests.conftest import SIMULATED
from tests.router.cli.test_serve import ask_for_stream
from tests.tools.serve import serving

SLOW = SIMULATED.replace("tokens_per_second: 20000", "tokens_per_second: 1")


@pytest.mark.parametrize("given", [[], ["--no-ledger"]])
def test_a_router_is_stopped_and_its_process_named(here, capsys, given):
    (here / "config.yaml").write_text(SIMULATED)
    with serving(here, *given) as url:
        (router,) = all_routers()

        assert main(["stop"]) == 0

        assert not router.is_running()
    assert capsys.readouterr().out.startswith(f"stopped the router at {url} (pid {router.pid}) in ")
    assert main(["stop"]) == 1
    assert "no router is running" in capsys.readouterr().err


def test_what_is_served_is_finished_first_or_cut_off_with_now(here, capsys):
    (here / "config.yaml").write_text(f"{SLOW}limits: {{drain_seconds: 2}}\n")
    with serving(here) as url, ask_for_stream(int(url.rpartition(":")[2])):
        assert main(["stop", "--json"]) == 0
        printed = capsys.readouterr()

    told = json.loads(printed.out)
    assert "waiting for 1 request, up to limits.drain_seconds; tandem stop --now cuts them off" in printed.err
    assert (told["url"], told["waited_for"]) == (url, 1)
    assert told["took_seconds"] >= 2


def test_now_does_not_wait_for_the_drain(here, capsys):
    (here / "config.yaml").write_text(f"{SLOW}limits: {{drain_seconds: 600}}\n")
    with serving(here) as url, ask_for_stream(int(url.rpartition(":")[2])):
        assert main(["stop", "--now"]) == 0

    assert "stopped the router" in capsys.readouterr().out


def test_a_router_of_another_config_is_only_stopped_by_its_address(here, capsys):
    (here / "config.yaml").write_text(SIMULATED)
    (here / "other.yaml").write_text(SIMULATED.replace("test.db", "other.db"))
    with serving(here, "--config", "other.yaml") as url:
        assert main(["stop"]) == 1
        assert f"a router is running, but not with a config of this folder:\n  {url}" in capsys.readouterr().err

        assert main(["stop", "--url", url]) == 0


@pytest.mark.parametrize("ledger", ["test.db", None])
def test_a_process_is_not_signalled_that_is_not_the_router(here, capsys, monkeypatch, ledger):
    """The record is of a router that was killed; another program has its address, and maybe its process id."""
    (here / "config.yaml").write_text(SIMULATED)
    (here / "test.db").touch()
    with socket.create_server(("127.0.0.1", 0)) as other:
        url = f"http://127.0.0.1:{other.getsockname()[1]}"
        kept = here / ledger if ledger else None
        note_router(Router(url, kept, time.time(), here / "config.yaml", pid=os.getpid()))
        monkeypatch.setattr("router.cli.stop._ASK_SECONDS", 0.2)

        assert main(["stop"]) == 1

    assert f"which process serves {url} is not known" in capsys.readouterr().err


def test_one_that_a_service_manager_started_is_said_to_come_back(here, capsys, monkeypatch):
    (here / "config.yaml").write_text(SIMULATED)
    with serving(here):
        (router,) = all_routers()
        note_router(router._replace(is_service=True))

        assert main(["stop"]) == 0

    assert "a service manager started it, and may start it again" in capsys.readouterr().err
