"""A log that is kept small while processes write to it."""

import os
import subprocess
import sys

import pytest

from router.cli import log_file, main
from router.cli.log_file import rotate


@pytest.fixture
def log(tmp_path, monkeypatch):
    monkeypatch.setattr(log_file, "MAX_BYTES", 100)
    return tmp_path / "tandem.log"


def copies(log) -> dict[str, str]:
    return {path.name: path.read_text() for path in sorted(log.parent.iterdir())}


def test_a_small_file_is_left_alone(log):
    log.write_text("x" * 99)

    rotate(log)

    assert copies(log) == {"tandem.log": "x" * 99}


def test_a_large_file_is_emptied_for_those_who_have_it_open_and_three_copies_are_kept(log):
    with log.open("ab", buffering=0) as first, log.open("ab", buffering=0) as second:
        for letter in b"abcde":
            first.write(bytes([letter]) * 60)
            second.write(bytes([letter]) * 60)
            rotate(log)
        first.write(b"first ")
        second.write(b"second")

    kept = {"tandem.log.1": "e" * 120, "tandem.log.2": "d" * 120, "tandem.log.3": "c" * 120}
    assert copies(log) == {"tandem.log": "first second", **kept}
    assert (log.with_name("tandem.log.1").stat().st_mode & 0o777) == 0o600


def test_a_file_that_another_process_is_copying_is_left_to_it(log):
    log.write_text("x" * 200)
    with log.open("rb") as other:
        log_file.fcntl.flock(other, log_file.fcntl.LOCK_EX)

        rotate(log)

    assert list(copies(log)) == ["tandem.log"]


def test_serve_writes_to_the_file_what_it_would_have_said_and_leaves_the_rest_silent(tmp_path):
    (tmp_path / "config.yaml").write_text("nothing: right\n")
    command = [sys.executable, "-m", "router.cli", "serve", "--log-file", "tandem.log", "--config", "config.yaml"]
    inherited = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}

    done = subprocess.run(command, cwd=tmp_path, env=inherited, capture_output=True, text=True, timeout=120, check=False)

    assert (done.returncode, done.stdout, done.stderr) == (2, "", "")
    assert "config.yaml: " in (tmp_path / "tandem.log").read_text()


def test_a_file_that_cannot_be_written_is_named(tmp_path, capsys):
    assert main(["serve", "--log-file", str(tmp_path)]) == 2
    assert f"--log-file: {tmp_path} cannot be written (Is a directory)" in capsys.readouterr().err
