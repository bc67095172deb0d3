"""`make` on a machine as it is: an interpreter that is missing, too old or without venv, and what an environment has already."""

import importlib.util
import io
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
spec = importlib.util.spec_from_file_location("install", ROOT / "requirements" / "install.py")
install = importlib.util.module_from_spec(spec)
spec.loader.exec_module(install)

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


def make(target: str, folder: Path, python: Path | str = "", *more: str) -> subprocess.CompletedProcess:
    """Run a target with an environment in the given folder. What make itself says of the failure is left out."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    command = ["make", "--no-print-directory", "-C", str(ROOT), target, f"VENV={folder / '.venv'}", *more]
    if python:
        command.append(f"PYTHON={python}")
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    done.stderr = "".join(line for line in done.stderr.splitlines(keepends=True) if not line.startswith("make:"))
    return done


def interpreter(folder: Path, *cases: str) -> Path:
    """A program that answers as the cases of a shell's `case` say, and otherwise is Python."""
    path = folder / "python"
    path.write_text("\n".join(["#!/bin/sh", 'case "$*" in', *cases, f'*) exec "{sys.executable}" "$@" ;; esac', ""]))
    path.chmod(0o755)
    return path


def check_only_line(done: subprocess.CompletedProcess, expected: str) -> str:
    assert done.returncode == 2
    assert done.stderr == ""
    (line,) = done.stdout.splitlines()
    assert expected in line
    return line


def described(version: list[int], *, creates: bool) -> str:
    """The case of an interpreter that describes itself so."""
    return f"*ensurepip*) echo '{json.dumps([version, ['', '', '-fprofile-use'], creates, True])}'; exit ;;"


def test_a_missing_interpreter_is_one_line_with_one_that_works(tmp_path):
    line = check_only_line(make("serve", tmp_path, "python3.4711"), "needs Python 3.11 or newer, and python3.4711 is not here")

    found = re.search(r"\. Without PYTHON, make takes (\S+) \(3\.\d+\.\d+\)$", line)
    assert found
    assert subprocess.run([found.group(1), "-c", "import ensurepip, venv, tomllib"]).returncode == 0
    assert not (tmp_path / ".venv").exists()


def test_an_old_interpreter_is_one_line_that_says_its_version(tmp_path):
    old = interpreter(tmp_path, described([3, 10, 13], creates=True))

    check_only_line(make("test", tmp_path, old), "needs Python 3.11 or newer, and " + f"{old} is Python 3.10.13")


def test_an_interpreter_without_venv_is_one_line_that_names_the_package(tmp_path):
    bare = interpreter(tmp_path, described([3, 12, 1], creates=False))

    check_only_line(make("serve", tmp_path, bare), "sudo apt install python3.12-venv")


def test_an_environment_that_works_is_kept_whatever_python_is_given(tmp_path):
    folder = tmp_path / ".venv" / "bin"
    folder.mkdir(parents=True)
    (folder / "python").write_text('#!/bin/sh\necho "kept: $*"\n')
    (folder / "python").chmod(0o755)

    done = make("setup", tmp_path, "python3.4711")

    assert done.returncode == 0
    assert "kept: requirements/install.py dev" in done.stdout
    assert "Creating" not in done.stdout


@pytest.mark.parametrize(
    ("stamps", "target", "installed"),
    [
        ([], "serve", "serve"),
        ([], "setup", "dev"),
        ([], "setup-shared", "shared"),
        ([], "setup-litellm", "litellm"),
        ([".serve"], "serve", None),
        ([".serve"], "test", "dev"),
        ([".serve"], "setup-litellm", "litellm"),
        ([".serve"], "setup-shared", "shared"),
        ([".shared"], "serve", None),
        ([".shared"], "setup-litellm", "litellm"),
        ([".litellm"], "serve", None),
        ([".litellm"], "setup-shared", None),
        ([".dev"], "serve", None),
        ([".dev"], "setup-litellm", None),
        ([".dev"], "setup-shared", None),
        ([".ready"], "serve", "dev"),
    ],
)
def test_a_target_installs_what_is_missing_and_keeps_a_larger_environment_whole(tmp_path, stamps, target, installed):
    (tmp_path / ".venv").mkdir()
    for stamp in stamps:
        (tmp_path / ".venv" / stamp).touch()

    planned = make(target, tmp_path, "", "--dry-run").stdout

    assert re.findall(r"install\.py (\w+)", planned) == ([installed] if installed else [])


@pytest.mark.parametrize("stamp", [".serve", ".shared", ".litellm", ".dev"])
def test_an_environment_from_another_lock_is_brought_up_to_date_with_all_that_it_had(tmp_path, stamp):
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / stamp).touch()
    os.utime(tmp_path / ".venv" / stamp, (0, 0))

    planned = make("serve", tmp_path, "", "--dry-run").stdout

    assert re.findall(r"install\.py (\w+)", planned) == [stamp[1:]]


def test_clean_deletes_no_ledger_no_key_and_no_config(tmp_path):
    kept = {"tandem.db", "tandem.db-wal", "tandem.db.key", "tandem.db.before-4", "jobs.db", "keys.yaml", ".env", "config.yaml"}
    made = {".venv", "dist", "site", ".cache", "tandem_router.egg-info"}
    for name in kept:
        (tmp_path / name).touch()
    for name in made:
        (tmp_path / name).mkdir()
    shutil.copy(ROOT / "Makefile", tmp_path)

    subprocess.run(["make", "-C", str(tmp_path), "clean"], check=True, capture_output=True)

    assert {path.name for path in tmp_path.iterdir()} == kept | {"Makefile"}


PIP_SAYS = """\
Ignoring colorama: markers 'sys_platform == "win32"' don't match your environment
Collecting anyio==4.16.0 (from -r requirements/serve.txt (line 11))
  Downloading anyio-4.16.0-py3-none-any.whl (134 kB)
Processing /wheels/charset_normalizer-3.5.2-cp311-cp311-manylinux.whl (from -r requirements/serve.txt (line 19))
Requirement already satisfied: pydantic-core==2.50.4 in ./lib (from -r requirements/serve.txt (line 20)) (2.50.4)
Installing collected packages: anyio, charset-normalizer
"""


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_sees_one_line_that_counts_every_package():
    out = Terminal()
    progress = install.Progress(4, out)

    for line in PIP_SAYS.splitlines():
        progress.hear(line)
    progress.clear()

    shown = [text.strip() for text in out.getvalue().split("\r\033[K")]
    assert shown == ["", "1 of 3  anyio", "2 of 3  charset_normalizer", "3 of 3  pydantic-core", "3 of 3  unpacking", ""]


def test_a_log_gets_a_line_for_every_tenth_package():
    out = io.StringIO()
    progress = install.Progress(25, out)

    for number in range(25):
        progress.hear(f"Collecting package{number}==1.0 (from -r x)")

    assert out.getvalue() == "  10 of 25  package9\n  20 of 25  package19\n"


def test_a_failed_installation_shows_pips_own_reason(tmp_path, capsys):
    lock = tmp_path / "bad.txt"
    lock.write_text("what is this\n")

    assert install.install(lock, io.StringIO()) != 0

    assert "Invalid requirement" in capsys.readouterr().err
