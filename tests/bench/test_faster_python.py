"""Which other Python `make setup` names, and when it says nothing."""

import json
import subprocess
import sys
import time

import pytest

from tests.bench import faster_python
from tests.bench.faster_python import find_faster, is_script, others, says_optimised

MINE = {"is_optimised": False, "is_usable": True, "seconds": 1.0}
FASTER = {"is_optimised": True, "is_usable": True, "seconds": 0.7}


@pytest.fixture
def python(tmp_path):
    """Makes a program that answers a probe."""

    def make(name: str, *, says: object = None, script: str = "") -> str:
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\n{script}\ncat <<'END'\n{json.dumps(says)}\nEND\n")
        path.chmod(0o755)
        return str(path)

    return make


@pytest.mark.parametrize(
    ("configured", "said"),
    [
        (
            {"CONFIG_ARGS": "'--enable-shared' '--enable-optimizations' '--with-lto'", "PGO_PROF_USE_FLAG": "-fprofile-use"},
            True,
        ),
        ({"CONFIG_ARGS": "'--prefix=/home/me/.pyenv'", "PGO_PROF_USE_FLAG": "-fprofile-use -fprofile-correction"}, False),
        ({"CONFIG_ARGS": "'--prefix=/usr' '--with-dtrace'", "PGO_PROF_USE_FLAG": ""}, None),  # Debian's
        ({}, None),
    ],
)
def test_a_build_says_that_it_was_optimised_or_not_or_nothing(configured, said):
    assert says_optimised(configured) is said


def test_the_first_build_that_is_clearly_faster_is_named(python):
    slow = python("slow", says={**FASTER, "seconds": 0.9})
    fast = python("fast", says=FASTER)

    assert find_faster(MINE, [slow, fast, python("faster", says={**FASTER, "seconds": 0.5})]) == fast


@pytest.mark.parametrize(
    "says",
    [{**FASTER, "is_usable": False}, {**FASTER, "is_optimised": False, "seconds": None}, {**FASTER, "seconds": 0.86}, None],
    ids=["makes no environments", "is not optimised", "is hardly faster", "says nothing"],
)
def test_no_build_is_named_that(python, says):
    assert find_faster(MINE, [python("other", says=says)]) is None


@pytest.mark.parametrize("script", ["exit 1", "echo no json; exit 0"])
def test_one_that_fails_is_passed_over(python, script):
    broken, fast = python("broken", script=script), python("fast", says=FASTER)

    assert find_faster(MINE, [broken, "/no/such/python", fast]) == fast


def test_one_that_hangs_is_given_up_in_time(python):
    began = time.monotonic()

    assert find_faster(MINE, [python("hangs", script="exec sleep 20"), python("fast", says=FASTER)]) is None
    assert time.monotonic() - began < 10


def test_each_interpreter_is_asked_once_and_no_shim(tmp_path, monkeypatch):
    binary, shims = tmp_path / "bin", tmp_path / "shims"
    binary.mkdir()
    shims.mkdir()
    (binary / "python3.11").write_bytes(b"\x7fELF")
    (binary / "python3.11").chmod(0o755)
    (binary / "python3").symlink_to("python3.11")
    (shims / "python3.12").write_text("#!/usr/bin/env bash\n")
    (shims / "python3.12").chmod(0o755)
    monkeypatch.setenv("PATH", f"{shims}:{binary}")

    assert [path for path in others() if path.startswith(str(tmp_path))] == [str(binary / "python3.11")]
    assert is_script(str(shims / "python3.12"))


def test_an_optimised_build_looks_for_no_other(monkeypatch, capsys):
    monkeypatch.setattr(faster_python, "probe", lambda: {**MINE, "is_optimised": True})
    monkeypatch.setattr(faster_python, "others", lambda: pytest.fail("asked"))

    assert faster_python.main() == 0
    assert capsys.readouterr().out == ""


def test_the_hint_is_one_line_with_a_command_to_paste(monkeypatch, capsys, python):
    fast = python("python3.11", says=FASTER)
    monkeypatch.setattr(faster_python, "probe", lambda: MINE)
    monkeypatch.setattr(faster_python, "others", lambda: [fast])

    assert faster_python.main() == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line == f"hint: {fast} is an optimised build, about 15 % faster: rm -rf .venv && make setup PYTHON={fast}"


def test_an_interpreter_answers_a_probe_with_nothing_but_the_standard_library():
    command = [sys.executable, "-I", "-S", faster_python.__file__, "--probe"]

    said = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)

    assert set(said) == {"is_optimised", "is_usable", "seconds"}
    assert said["is_usable"]
    assert (said["seconds"] is None) == (said["is_optimised"] is False)
