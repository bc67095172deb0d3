"""Where a command runs: an empty folder, and nobody's config but its own."""

import pytest


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("TANDEM_CONFIG", raising=False)
    return tmp_path
