from pathlib import Path

import pytest

from router.config.folders import NoHome, state_folder, user_folder


@pytest.mark.parametrize(
    ("folder", "variable", "usual"),
    [(user_folder, "XDG_CONFIG_HOME", ".config"), (state_folder, "XDG_STATE_HOME", ".local/state")],
)
def test_a_folder_is_where_the_variable_says_or_below_the_home(monkeypatch, folder, variable, usual):
    monkeypatch.setenv("HOME", "/home/ann")
    monkeypatch.setenv(variable, "/elsewhere")
    assert folder() == Path("/elsewhere/tandem")

    monkeypatch.delenv(variable)

    assert folder() == Path("/home/ann") / usual / "tandem"


def test_without_a_home_nobody_knows(monkeypatch):
    def lost() -> Path:
        raise RuntimeError

    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", lost)

    with pytest.raises(NoHome):
        state_folder()
