"""Which Python `make` creates the environment with, and the line that says why."""

import subprocess
import sys

import pytest

from requirements import choose_python
from requirements.choose_python import Choice, Interpreter, choose, decide, describe, find, is_guided, is_script, main

PLAIN = Interpreter("python3", (3, 11, 7), is_guided=False)
GUIDED = Interpreter("/usr/bin/python3.11", (3, 11, 2), is_guided=True)
NEWER = Interpreter("/uv/3.13/bin/python3", (3, 13, 9), is_guided=True)
NEWEST = Interpreter("/uv/3.14/bin/python3", (3, 14, 0), is_guided=True)
OLD = Interpreter("python3", (3, 9, 18), is_guided=True)
BARE = GUIDED._replace(creates_environments=False)
BARE_SAYS = (
    "/usr/bin/python3.11 (3.11.2) has profile guidance (6 to 12 % less CPU) but cannot create environments. "
    "On Debian and Ubuntu: sudo apt install python3.11-venv"
)


@pytest.mark.parametrize(
    ("settings", "guided"),
    [
        (("'--enable-shared' '--enable-optimizations' '--with-lto'", "-O3", "-fprofile-use"), True),
        (("'--prefix=/opt'", "-O3 -fprofile-use", "-fprofile-use"), True),
        (("'--prefix=/home/me/.pyenv'", "-O3", "-fprofile-use -fprofile-correction"), False),
        (("'--prefix=/usr' '--with-dtrace'", "-O2", ""), True),  # Debian's
        ((None, None, None), False),
    ],
)
def test_a_builds_settings_name_profile_guidance(settings, guided):
    assert is_guided(*settings) is guided


@pytest.mark.parametrize(
    ("default", "others", "expected"),
    [
        pytest.param(PLAIN, [], Choice(PLAIN, "no Python with profile guidance found"), id="nothing else"),
        pytest.param(
            PLAIN,
            [Interpreter("python3.13", (3, 13, 0), is_guided=False)],
            Choice(PLAIN, "no Python with profile guidance found"),
            id="a newer one on equal terms",
        ),
        pytest.param(
            GUIDED._replace(path="python3"),
            [NEWER],
            Choice(GUIDED._replace(path="python3"), "built with profile guidance"),
            id="the default is guided",
        ),
        pytest.param(
            PLAIN,
            [NEWEST, GUIDED, NEWER],
            Choice(GUIDED, "built with profile guidance; python3 (3.11.7) is not", PLAIN),
            id="the default's minor version first",
        ),
        pytest.param(
            PLAIN,
            [NEWER, NEWEST],
            Choice(NEWEST, "built with profile guidance; python3 (3.11.7) is not", PLAIN),
            id="then the newest",
        ),
        pytest.param(
            PLAIN,
            [GUIDED._replace(version=(3, 15, 0)), NEWEST._replace(is_release=False), GUIDED._replace(version=(3, 10, 1))],
            Choice(PLAIN, "no Python with profile guidance found"),
            id="no wheels in the locks",
        ),
        pytest.param(PLAIN, [BARE], Choice(PLAIN, BARE_SAYS), id="a guided one without venv"),
        pytest.param(
            PLAIN,
            [BARE, NEWER],
            Choice(NEWER, "built with profile guidance; python3 (3.11.7) is not", PLAIN),
            id="another than the one without venv",
        ),
        pytest.param(
            OLD,
            [PLAIN._replace(path="python3.11"), NEWER],
            Choice(NEWER, "built with profile guidance; python3 (3.9.18) is too old"),
            id="an old default, a guided one",
        ),
        pytest.param(
            OLD,
            [PLAIN._replace(path="python3.11")],
            Choice(PLAIN._replace(path="python3.11"), "python3 (3.9.18) is too old"),
            id="an old default, a plain one",
        ),
        pytest.param(
            BARE._replace(path="python3"),
            [NEWER],
            Choice(NEWER, "built with profile guidance; python3 (3.11.2) cannot create environments"),
            id="a default without venv",
        ),
        pytest.param(None, [PLAIN], Choice(PLAIN, "python3 is not here"), id="no default"),
        pytest.param(
            OLD, [], Choice(None, "Tandem needs Python 3.11 or newer, and python3 is Python 3.9.18"), id="only an old one"
        ),
        pytest.param(None, [], Choice(None, "Tandem needs Python 3.11 or newer, and python3 is not here"), id="none at all"),
        pytest.param(
            BARE._replace(path="python3"),
            [BARE],
            Choice(None, "python3 cannot create environments. On Debian and Ubuntu: sudo apt install python3.11-venv"),
            id="only one without venv",
        ),
    ],
)
def test_the_choice(default, others, expected):
    assert choose(default, others) == expected


@pytest.fixture
def machine(monkeypatch):
    """Replaces what is found here, and what is created: returns the interpreters that were tried."""

    def put(*found: Interpreter, failing: "dict[str, int] | None" = None) -> list[str]:
        tried = []
        monkeypatch.setattr(choose_python, "find", lambda: [one.path for one in found])
        monkeypatch.setattr(choose_python, "describe", {one.path: one for one in reversed(found)}.get)
        monkeypatch.setattr(
            choose_python, "create", lambda python, *_: tried.append(python.path) or (failing or {}).get(python.path, 0)
        )
        return tried

    return put


def test_one_line_says_which_and_why(machine, capsys):
    tried = machine(PLAIN, GUIDED)

    assert main("/checkout/.venv", "serve") == 0
    assert tried == [GUIDED.path]
    assert capsys.readouterr().out == (
        "Creating .venv with /usr/bin/python3.11 (3.11.2): built with profile guidance; python3 (3.11.7) is not\n"
    )


def test_a_python_that_is_given_is_taken(machine, capsys):
    tried = machine(PLAIN, GUIDED)

    assert main(".venv", "serve", "python3") == 0
    assert tried == ["python3"]
    assert capsys.readouterr().out == "Creating .venv with python3 (3.11.7): as PYTHON says\n"


@pytest.mark.parametrize(("codes", "code"), [({GUIDED.path: 1}, 0), ({GUIDED.path: 1, "python3": 2}, 2)])
def test_the_default_is_tried_where_the_preferred_one_fails(machine, capsys, codes, code):
    tried = machine(PLAIN, GUIDED, failing=codes)

    assert main(".venv", "serve") == code
    assert tried == [GUIDED.path, "python3"]
    assert capsys.readouterr().out.splitlines()[1:] == ["That failed with /usr/bin/python3.11. Trying python3 (3.11.7)"]


def test_an_interrupted_installation_is_not_tried_again(machine):
    tried = machine(PLAIN, GUIDED, failing={GUIDED.path: 130})

    assert main(".venv", "serve") == 130
    assert tried == [GUIDED.path]


def test_a_guided_default_looks_for_no_other(machine, monkeypatch):
    machine(GUIDED._replace(path="python3"))
    monkeypatch.setattr(choose_python, "find", lambda: pytest.fail("asked"))

    assert decide("").python.path == "python3"


def test_each_interpreter_is_found_once_and_no_shim(tmp_path, monkeypatch):
    binary, shims = tmp_path / "bin", tmp_path / "shims"
    versions = tmp_path / "versions" / "3.12.1" / "bin"
    for folder in (binary, shims, versions):
        folder.mkdir(parents=True)
    for program in (binary / "python3.11", versions / "python3"):
        program.write_bytes(b"\x7fELF")
        program.chmod(0o755)
    (binary / "python3").symlink_to("python3.11")
    (shims / "python3.12").write_text("#!/usr/bin/env bash\n")
    (shims / "python3.12").chmod(0o755)
    monkeypatch.setenv("PATH", f"{shims}:{binary}")
    monkeypatch.setattr(choose_python, "VERSIONS", (str(tmp_path / "versions"), "/no/such/folder"))

    found = [path for path in find() if path.startswith(str(tmp_path))]

    assert found == [str(binary / "python3"), str(versions / "python3")]
    assert is_script(str(shims / "python3.12"))


def test_an_interpreter_describes_itself():
    described = describe(sys.executable)

    assert described.version == sys.version_info[:3]
    assert described.creates_environments
    assert described.is_release


@pytest.mark.parametrize("script", ["exit 1", "echo no json", "echo '[1, 2]'", "exec sleep 20"])
def test_one_that_does_not_answer_is_passed_over(tmp_path, monkeypatch, script):
    monkeypatch.setattr(choose_python, "PATIENCE_SECONDS", 0.3)
    path = tmp_path / "python3"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)

    assert describe(str(path)) is None
    assert describe("/no/such/python") is None


def test_no_package_is_needed_to_choose():
    command = [sys.executable, "-I", "-S", choose_python.__file__, "/no/such/folder/.venv", "serve", "python3.4711"]

    done = subprocess.run(command, capture_output=True, text=True)

    assert (done.returncode, done.stderr) == (1, "")
    assert "python3.4711 is not here" in done.stdout
