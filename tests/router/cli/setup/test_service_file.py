"""The files of services."""

import plistlib
import shlex
from pathlib import Path

import pytest

from router.cli.setup.service_file import find_manager

COMMAND = ["/opt/a b/tandem", "serve", "--config", "/home/ann/100%/<x>&$Y.yaml"]


@pytest.fixture
def systemctl(tmp_path, monkeypatch):
    (tmp_path / "systemctl").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)


def test_a_unit_quotes_what_systemd_would_expand(systemctl, tmp_path):
    unit = find_manager("linux", tmp_path).write(COMMAND, ["tandem", "check"], Path("/home/ann/100%"))

    (line,) = [line for line in unit.splitlines() if line.startswith("ExecStart=")]
    told = [word.replace("%%", "%").replace("$$", "$") for word in shlex.split(line.removeprefix("ExecStart="))]
    assert told == COMMAND
    assert "WorkingDirectory=/home/ann/100%%\n" in unit


def test_a_plist_holds_the_command_as_it_is(tmp_path):
    service = find_manager("darwin", tmp_path)

    told = plistlib.loads(service.write(COMMAND, [], Path("/home/<ann>")).encode())

    assert told["ProgramArguments"] == COMMAND
    assert told["WorkingDirectory"] == "/home/<ann>"
    assert told["KeepAlive"] == {"SuccessfulExit": False}
    assert service.path == tmp_path / "Library" / "LaunchAgents" / f"{told['Label']}.plist"


def test_only_a_file_of_ours_is_ours(systemctl, tmp_path):
    service = find_manager("linux", tmp_path)
    assert not service.is_ours()
    service.path.parent.mkdir(parents=True)
    service.path.write_text(service.write(["tandem"], [], tmp_path))
    assert service.is_ours()
    service.path.write_bytes(b"\xff")
    assert not service.is_ours()
