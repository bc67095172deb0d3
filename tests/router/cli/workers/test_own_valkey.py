"""The server that workers start for themselves."""

import socket
import stat
import tempfile
from pathlib import Path

import pytest

from router.cli.workers.own_valkey import CannotStart, OwnValkey, find_program
from router.stores.valkey.link import Address
from tests.tools.valkey import find_server


@pytest.fixture
def state(monkeypatch):
    """A state folder with a short path: that of a socket may not be long."""
    with tempfile.TemporaryDirectory(prefix="t") as folder:
        monkeypatch.setenv("XDG_STATE_HOME", folder)
        yield Path(folder) / "tandem/workers"


@pytest.mark.skipif(find_server() is None, reason="no Valkey or Redis server on this machine")
def test_only_its_user_can_open_it_and_nothing_is_left_of_it(state):
    valkey = OwnValkey(find_program())
    valkey.start()

    assert valkey.url == f"unix://{valkey.socket}"
    assert stat.S_IMODE(valkey.socket.stat().st_mode) == 0o600
    assert stat.S_IMODE(valkey.folder.stat().st_mode) == 0o700
    assert valkey.folder.parent == state
    valkey.stop()
    assert not valkey.is_running
    assert list(state.iterdir()) == []


@pytest.mark.skipif(find_server() is None, reason="no Valkey or Redis server on this machine")
def test_where_memory_runs_out_limits_are_kept_and_answers_are_dropped(state):
    valkey = OwnValkey(find_program())
    valkey.start()
    with socket.socket(socket.AF_UNIX) as client, client.makefile("rb") as answers:
        client.connect(str(valkey.socket))

        def send(line: str) -> bytes:
            client.sendall(f"{line}\r\n".encode())
            return answers.readline().strip()

        send("CONFIG SET maxmemory 3mb")
        for number in range(20):
            send(f"SET limit:{number} 1 EX 86400")
        said = {send(f"SET answer:{number} {'x' * 10_000} EX 3600") for number in range(1_000)}

        assert said == {b"+OK"}
        assert send("EXISTS " + " ".join(f"limit:{number}" for number in range(20))) == b":20"
        assert send("EXISTS answer:0 answer:1 answer:2") != b":3"
    valkey.stop()


def test_its_address_leads_to_its_socket_with_any_sign_in_the_path(state, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(state / "a%20b?c#d é"))

    valkey = OwnValkey("unused")

    assert Address.read(valkey.url).path == str(valkey.socket)
    valkey.stop()


def test_a_program_that_ends_at_once_is_reported_with_its_last_line(state, tmp_path):
    program = tmp_path / "broken"
    program.write_text("#!/bin/sh\necho first\necho cannot bind >&2\n")
    program.chmod(0o700)
    valkey = OwnValkey(str(program))

    with pytest.raises(CannotStart, match="does not start: cannot bind"):
        valkey.start()
    valkey.stop()


def test_what_a_killed_group_left_is_removed_and_what_is_in_use_stays(state):
    used = OwnValkey("unused")
    left = state / "left"
    left.mkdir()
    (left / "lock").touch()

    third = OwnValkey("unused")

    assert not left.exists()
    assert used.folder.exists()
    used.stop()
    third.stop()


@pytest.fixture
def no_state(monkeypatch):
    """No usable state folder, and a folder for temporary files that is this test's own."""
    monkeypatch.setenv("XDG_STATE_HOME", "/proc/nothing")
    with tempfile.TemporaryDirectory(prefix="t") as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        yield Path(folder)


def test_what_a_killed_group_left_among_temporary_files_is_removed_and_nothing_of_other_programs(no_state):
    used = OwnValkey("unused")
    left, others = used.folder.with_name(f"{used.folder.name}x"), no_state / "tandem-others"
    for folder in (left, others):
        folder.mkdir()
        (folder / "lock").touch()

    third = OwnValkey("unused")

    assert not left.exists()
    assert used.folder.exists()
    assert others.exists()
    used.stop()
    third.stop()


def test_where_every_path_is_too_long_a_shorter_one_is_asked_for(no_state, monkeypatch):
    (long := no_state / ("x" * 100)).mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))

    with pytest.raises(CannotStart, match="set TMPDIR to a folder with a shorter path"):
        OwnValkey("unused")
    assert list(long.iterdir()) == []


@pytest.mark.parametrize("home", ["/proc/nothing", "/tmp/" + "x" * 100])
def test_a_state_folder_that_cannot_be_used_is_replaced_by_a_temporary_one(home, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", home)

    valkey = OwnValkey("unused")

    assert not str(valkey.folder).startswith(home)
    assert stat.S_IMODE(valkey.folder.stat().st_mode) == 0o700
    valkey.stop()
