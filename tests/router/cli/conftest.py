"""Where a command runs: an empty folder, and nobody's config but its own."""

import os

import pytest

from router.cli import main
from router.cli.setup import findings
from tests.conftest import SIMULATED


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "home" / "state"))
    monkeypatch.delenv("TANDEM_CONFIG", raising=False)
    return tmp_path


@pytest.fixture
def here(folder, monkeypatch):
    """An empty folder without keys."""
    for name in list(os.environ):
        if name.endswith("_API_KEY"):
            monkeypatch.delenv(name)
    return folder


@pytest.fixture
def home(folder, monkeypatch):
    """A home that is also the folder we stand in, with a config of simulated tiers."""
    monkeypatch.setenv("HOME", str(folder))
    for name in ("CODEX_HOME", "CLAUDE_CONFIG_DIR"):
        monkeypatch.delenv(name, raising=False)
    (folder / "config.yaml").write_text(SIMULATED)
    return folder


@pytest.fixture
def check(here, capsys, monkeypatch):
    """Checks a config; answers the exit code and what was said, on one line. No client that is installed here counts."""
    monkeypatch.setattr(findings, "installed_clients", tuple)

    def run(config: str, *options: str, port: bool = True) -> tuple[int, str]:
        (here / "config.yaml").write_text(config + ("server: {port: 0}\n" if port else ""))
        capsys.readouterr()
        code = main(["check", *options])
        return code, " ".join("".join(capsys.readouterr()).split())

    return run
