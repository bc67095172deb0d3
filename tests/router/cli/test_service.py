"""`tandem service`, with a service manager that only notes what it is told."""

import asyncio
import plistlib
import shlex
import shutil
import socket
import sys
from pathlib import Path

import pytest

from router.cli import main
from router.cli.service import find_manager, find_service
from tests.conftest import SIMULATED
from tests.router.cli.systemd import Systemd
from tests.tools.http import call, chat
from tests.tools.ports import keepable_port

COMMAND = ["/opt/a b/tandem", "serve", "--config", "/home/ann/100%/<x>&$Y.yaml"]
USER = Path(__file__).parents[3] / "docs" / "deploy" / "user"


@pytest.fixture
def manager(home, monkeypatch):
    """A `systemctl` that notes its arguments, and fails if a file says so."""
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    (home / "bin").mkdir()
    script = f"#!/bin/sh\necho \"$@\" >> {home}/steps\n[ -f {home}/fails ] && echo 'no bus' >&2 && exit 1\necho active\n"
    (home / "bin" / "systemctl").write_text(script)
    (home / "bin" / "systemctl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{home / 'bin'}:/bin:/usr/bin")
    (home / "config.yaml").write_text(f"server: {{port: 1}}\n{SIMULATED}")
    return home / ".config" / "systemd" / "user" / "tandem.service"


def test_install_writes_the_unit_and_starts_it(manager, home, capsys):
    assert main(["service", "install"]) == 0

    unit = manager.read_text()
    assert f"serve --log json --config {home / 'config.yaml'}\n" in unit
    assert f"WorkingDirectory={home}\n" in unit
    assert "ListenStream=127.0.0.1:1\n" in (manager.parent / "tandem.socket").read_text()
    assert (home / "steps").read_text().splitlines() == [
        "--user disable --now tandem.socket",
        "--user disable --now tandem.service",
        "--user daemon-reload",
        "--user enable tandem.socket tandem.service",
        "--user start tandem.socket tandem.service",
    ]
    assert "the service starts it at login, and with the first request if it is not running" in capsys.readouterr().err


@pytest.mark.starts
async def test_a_request_starts_the_router_whenever_it_is_not_running(manager, home, capsys):
    port, body = keepable_port(), chat("fix the typo")
    (home / "config.yaml").write_text(f"server: {{port: {port}}}\n{SIMULATED}")
    assert main(["service", "install"]) == 0

    with Systemd(manager.parent) as systemd:
        first = await call(port, "/v1/chat/completions", body)
        reloaded = await asyncio.to_thread(main, ["reload"])
        stopped = [await asyncio.to_thread(main, ["stop"]) for _ in range(2)]
        second = await call(port, "/v1/chat/completions", body)

        assert (first.status, second.status) == (200, 200), systemd.log.read_text()
        assert systemd.starts == 2, "one for each request, none for a command"
    assert (reloaded, stopped) == (0, [0, 1])
    words = capsys.readouterr()
    assert f"stopped the router at http://127.0.0.1:{port}" in words.out
    assert "a service manager started it, and may start it again" in words.err
    assert "no router is running" in words.err


def test_what_would_be_installed_is_printed_and_nothing_is_changed(manager, home, capsys):
    assert main(["service", "install", "--print"]) == 0

    printed = capsys.readouterr()
    assert printed.out.startswith(f"# {manager}\n# written by tandem service")
    assert f"\n# {manager.parent / 'tandem.socket'}\n" in printed.out
    assert "ListenStream=127.0.0.1:1\n" in printed.out
    assert printed.err == ""
    assert not manager.parent.exists()
    assert not (home / "steps").exists()
    assert main(["service", "remove", "--print"]) == 2


def test_a_service_whose_address_is_in_use_waits_for_the_next_login(manager, home, capsys):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        (home / "config.yaml").write_text(f"server: {{port: {port}}}\n{SIMULATED}")

        assert main(["service", "install"]) == 0

    assert (home / "steps").read_text().splitlines()[-1] == "--user enable tandem.socket tandem.service"
    err = capsys.readouterr().err
    assert f"another router or program uses http://127.0.0.1:{port}, so the service starts with the next login" in err
    assert "To start it now: tandem stop, then tandem service install" in err


@pytest.mark.parametrize(
    ("host", "listens"), [("localhost", "127.0.0.1:4000"), ("::1", "[::1]:4000"), ("127.0.0.2", "127.0.0.2:4000")]
)
def test_the_socket_has_the_address_of_the_config(manager, home, capsys, host, listens):
    (home / "config.yaml").write_text(f"server: {{host: '{host}'}}\n{SIMULATED}")

    assert main(["service", "install", "--print"]) == 0

    assert f"ListenStream={listens}\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("server", "words"), [("port: 0", "server.port is 0"), ("host: 0.0.0.0", "not a loopback address, and without caller keys")]
)
def test_an_address_that_a_service_cannot_have_is_refused(manager, home, capsys, server, words):
    (home / "config.yaml").write_text(f"server: {{{server}}}\n{SIMULATED}")

    assert main(["service", "install"]) == 2

    assert words in capsys.readouterr().err
    assert not manager.exists()


def test_a_service_of_an_earlier_version_is_installed_anew_and_starts_with_a_request(manager, home):
    main(["service", "install"])
    (manager.parent / "tandem.socket").unlink()
    assert find_service().starts == "at login"

    assert main(["service", "install"]) == 0

    assert find_service().starts == "at login, and with the first request if it is not running"


def test_a_key_that_only_the_shell_has_is_named(manager, home, capsys, monkeypatch):
    monkeypatch.setenv("SOME_KEY", "x")
    target = "{adapter: openai_http, base_url: http://127.0.0.1:1/v1, model: m, api_key: env:SOME_KEY, name: %s}"
    (home / "config.yaml").write_text(
        f"tiers: {{fast: {{targets: [{target % 'a'}]}}, deep: {{targets: [{target % 'b'}]}}}}\nledger: {{path: t.db}}\n"
    )

    assert main(["service", "install"]) == 0

    assert f"SOME_KEY is only set in this shell; add it to {home / '.env'}" in capsys.readouterr().err


def test_a_manager_that_fails_is_quoted_with_the_step(manager, home, capsys):
    (home / "fails").touch()

    assert main(["service", "install"]) == 1

    assert "the service could not be started: no bus\n  hint: systemctl --user daemon-reload" in capsys.readouterr().err


def test_status_says_whether_it_is_installed_and_whether_a_router_answers(manager, capsys):
    assert main(["service", "status"]) == 1
    assert "not installed" in capsys.readouterr().out
    main(["service", "install"])

    assert main(["service", "status"]) == 1

    out = capsys.readouterr().out
    assert "state: active" in out
    assert "router: does not answer at http://127.0.0.1:1" in out


def test_remove_takes_out_what_install_wrote(manager, home, capsys):
    main(["service", "install"])

    assert main(["service", "remove"]) == 0

    assert list(manager.parent.iterdir()) == []
    assert "--user disable --now tandem.socket\n--user disable --now tandem.service\n" in (home / "steps").read_text()
    assert main(["service", "remove"]) == 0
    assert "no service is installed" in capsys.readouterr().err


def test_a_system_without_a_known_manager_is_told(home, capsys, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(sys, "platform", "linux")

    assert main(["service", "install"]) == 2
    assert "neither systemd nor launchd was found" in capsys.readouterr().err
    assert find_service() is None
    assert find_manager("win32", home) is None


def test_a_unit_is_the_one_of_the_docs_with_quoted_commands_and_this_folder(manager, home):
    files = find_manager("linux", home).write(COMMAND, ["/opt/tandem", "check"], Path("/home/ann/100%"), "[::1]:4001")

    unit = files[manager]

    own = set(unit.splitlines()) - set((USER / "tandem.service").read_text().splitlines())
    (line,) = [line for line in own if line.startswith("ExecStart=")]
    told = [word.replace("%%", "%").replace("$$", "$") for word in shlex.split(line.removeprefix("ExecStart="))]
    assert told == COMMAND
    assert {"WorkingDirectory=/home/ann/100%%", "ExecReload=/opt/tandem check"} < own
    assert len(own) == 4, "and the line that says who wrote it"
    assert "ExecReload=/bin/kill -HUP $MAINPID" in unit
    listens = set(files[manager.parent / "tandem.socket"].splitlines()) - set((USER / "tandem.socket").read_text().splitlines())
    assert len(listens) == 2
    assert "ListenStream=[::1]:4001" in listens


def test_a_plist_is_the_one_of_the_docs_with_the_command_as_it_is(home):
    agent = find_manager("darwin", home)

    (written,) = agent.write(COMMAND, [], Path("/home/<ann>"), "").values()

    told = plistlib.loads(written.encode())

    usual, log = plistlib.loads((USER / agent.path.name).read_bytes()), str(home / "Library" / "Logs" / "tandem.log")
    own = {"ProgramArguments": COMMAND, "WorkingDirectory": "/home/<ann>", "StandardOutPath": log, "StandardErrorPath": log}
    assert told == usual | own
    assert told["KeepAlive"] == {"SuccessfulExit": False}
    assert agent.path == home / "Library" / "LaunchAgents" / f"{told['Label']}.plist"


@pytest.mark.parametrize("platform", ["linux", "darwin"])
def test_only_files_of_ours_are_replaced_and_removed(manager, home, capsys, monkeypatch, platform):
    monkeypatch.setattr(sys, "platform", platform)
    for path in find_manager(platform, home).files:
        main(["service", "install"])
        path.write_bytes(b"\xff")

        assert main(["service", "install"]) == main(["service", "remove"]) == 1

        assert path.read_bytes() == b"\xff"
        assert f"{path} was not written by tandem service, and was not removed" in capsys.readouterr().err
        path.unlink()
