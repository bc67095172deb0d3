"""The command that installs an extra is one for the environment that needs it."""

import importlib.util
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from router.contract import extras
from router.contract.extras import how_to_install


def test_in_a_checkout_it_installs_the_locked_versions():
    python, script, extra = shlex.split(how_to_install("shared"))

    assert how_to_install("litellm") == "make setup-litellm"
    assert (python, extra, Path(script).is_file()) == (sys.executable, "shared", True)


@pytest.mark.parametrize(("spec", "way"), [(object(), f"{sys.executable} -m pip install"), (None, "uv pip install --python")])
def test_elsewhere_it_names_the_pip_of_this_environment(monkeypatch, tmp_path, spec, way):
    monkeypatch.setattr(extras, "_LOCKS", tmp_path)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec)

    command = how_to_install("shared")

    assert command.startswith(way)
    assert sys.executable in command
    assert shlex.split(command)[-1] == "tandem-router[shared]"


def test_the_script_of_a_checkout_takes_the_name_of_an_extra():
    script = shlex.split(how_to_install("shared"))[1]

    done = subprocess.run([sys.executable, script, "nothing"], capture_output=True, text=True)

    assert "nothing" in done.stderr
