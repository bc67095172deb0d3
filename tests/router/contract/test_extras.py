"""The command that installs an extra is one for the installation that needs it. `make test-release` pastes them."""

import importlib.util
import shlex
import sys
from pathlib import Path

import pytest

from router.contract import extras
from router.contract.extras import how_to_install

ROOT = Path(__file__).resolve().parents[3]
PACKAGES = {"shared": ["asyncpg>=0.30", "hiredis>=3.1"], "litellm": ["litellm!=1.82.7,!=1.82.8,>=1.84"]}


@pytest.fixture(autouse=True)
def no_image(monkeypatch):
    monkeypatch.delenv("TANDEM_IMAGE", raising=False)


@pytest.fixture
def installed(monkeypatch, tmp_path):
    """A wheel in an environment with pip; what a case adds to the environment is in its folder."""
    monkeypatch.setattr(extras, "_ROOT", tmp_path)
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    return tmp_path


@pytest.mark.parametrize("extra", ["shared", "litellm"])
def test_in_a_checkout_it_is_a_target_of_make_that_exists(monkeypatch, tmp_path, extra):
    monkeypatch.setattr(sys, "prefix", str(ROOT / ".venv"))
    monkeypatch.chdir(ROOT)

    assert how_to_install(extra) == f"make setup-{extra}"
    assert f"\nsetup-{extra}: " in (ROOT / "Makefile").read_text()
    monkeypatch.chdir(tmp_path)
    assert shlex.split(how_to_install(extra)) == ["make", "-C", str(ROOT), f"setup-{extra}"]


def test_in_an_environment_of_ones_own_a_checkout_installs_the_locked_versions(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "prefix", str(tmp_path))

    *pip, lock = shlex.split(how_to_install("shared"))

    assert pip == [sys.executable, "-m", "pip", "install", "--require-hashes", "-r"]
    assert Path(lock).is_file()


@pytest.mark.parametrize("extra", PACKAGES)
def test_a_wheel_adds_the_packages_and_not_a_project_that_no_index_has(installed, extra):
    assert shlex.split(how_to_install(extra)) == [sys.executable, "-m", "pip", "install", *PACKAGES[extra]]


def test_an_environment_without_pip_is_one_of_uv(installed, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)

    assert shlex.split(how_to_install("shared")) == ["uv", "pip", "install", "--python", sys.executable, *PACKAGES["shared"]]


def test_pipx_injects(installed):
    (installed / "pipx_metadata.json").touch()

    assert shlex.split(how_to_install("shared")) == ["pipx", "inject", "tandem-router", *PACKAGES["shared"]]


def test_an_image_is_built_again(monkeypatch):
    monkeypatch.setenv("TANDEM_IMAGE", "1")

    assert how_to_install("litellm") == "docker build --build-arg EXTRAS=litellm -t tandem ."
