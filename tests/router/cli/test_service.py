"""`tandem service`, with a service manager that only notes what it is told."""

import plistlib
import shlex
import shutil
import sys
from pathlib import Path

import pytest

from router.cli import main, service
from router.cli.service import find_manager
from tests.conftest import SIMULATED

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
    assert (home / "steps").read_text().splitlines() == [
        "--user daemon-reload",
        "--user enable tandem",
        "--user restart tandem",
    ]
    assert "will start at every login" in capsys.readouterr().err


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

    assert not manager.exists()
    assert "--user disable --now tandem" in (home / "steps").read_text()
    assert main(["service", "remove"]) == 0
    assert "no service is installed" in capsys.readouterr().err


def test_a_unit_of_the_persons_own_is_left_alone(manager, capsys):
    manager.parent.mkdir(parents=True)
    manager.write_text("[Service]\nExecStart=mine\n")

    assert main(["service", "install"]) == main(["service", "remove"]) == 1

    assert manager.read_text() == "[Service]\nExecStart=mine\n"
    assert "was not written by tandem service" in capsys.readouterr().err


def test_a_system_without_a_known_manager_is_told(home, capsys, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(sys, "platform", "linux")

    assert main(["service", "install"]) == 2
    assert "neither systemd nor launchd was found" in capsys.readouterr().err
    assert not service.is_offered()
    assert find_manager("win32", home) is None


def test_a_unit_is_the_one_of_the_docs_with_quoted_commands_and_this_folder(manager, home):
    unit = find_manager("linux", home).write(COMMAND, ["/opt/tandem", "check"], Path("/home/ann/100%"))

    own = set(unit.splitlines()) - set((USER / "tandem.service").read_text().splitlines())
    (line,) = [line for line in own if line.startswith("ExecStart=")]
    told = [word.replace("%%", "%").replace("$$", "$") for word in shlex.split(line.removeprefix("ExecStart="))]
    assert told == COMMAND
    assert {"WorkingDirectory=/home/ann/100%%", "ExecReload=/opt/tandem check"} < own
    assert len(own) == 4, "and the line that says who wrote it"
    assert "ExecReload=/bin/kill -HUP $MAINPID" in unit


def test_a_plist_is_the_one_of_the_docs_with_the_command_as_it_is(home):
    agent = find_manager("darwin", home)

    told = plistlib.loads(agent.write(COMMAND, [], Path("/home/<ann>")).encode())

    usual, log = plistlib.loads((USER / agent.path.name).read_bytes()), str(home / "Library" / "Logs" / "tandem.log")
    own = {"ProgramArguments": COMMAND, "WorkingDirectory": "/home/<ann>", "StandardOutPath": log, "StandardErrorPath": log}
    assert told == usual | own
    assert told["KeepAlive"] == {"SuccessfulExit": False}
    assert agent.path == home / "Library" / "LaunchAgents" / f"{told['Label']}.plist"


@pytest.mark.parametrize("platform", ["linux", "darwin"])
def test_only_a_file_of_ours_is_ours(manager, home, platform):
    written = find_manager(platform, home)
    assert not written.is_ours()
    written.path.parent.mkdir(parents=True)
    written.path.write_text(written.write(["tandem"], [], home))
    assert written.is_ours()
    written.path.write_bytes(b"\xff")
    assert not written.is_ours()


def test_only_launchd_needs_a_log_file_of_ours(manager, home):
    assert find_manager("darwin", home).log == ("--log-file", str(home / "Library" / "Logs" / "tandem.log"))
    assert find_manager("linux", home).log == ()
