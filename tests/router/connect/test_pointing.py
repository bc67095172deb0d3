"""Where a client points, whoever wrote its files."""

import pytest

from router.connect.pointing import Pointing, where_it_points
from router.connect.recipe import load_recipe
from router.connect.store import Store
from tests.router.connect.test_change import home, point  # noqa: F401  home is a fixture
from tests.router.connect.test_recipe import FACTS


@pytest.fixture
def asked(home, monkeypatch):  # noqa: F811
    monkeypatch.delenv("ANTHROPIC_BASE_URL", raising=False)
    store = Store(home / ".state" / "connect")
    return lambda client, **facts: where_it_points(load_recipe(client), {**FACTS, **facts}, store, "bash")


def test_a_client_that_nobody_told_does_not_point_here(asked):
    assert asked("codex") is Pointing.NOT_HERE
    assert not asked("codex").is_here


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]"])
def test_settings_by_hand_count_whatever_this_machine_is_called_there(asked, home, host):  # noqa: F811
    (home / ".codex").mkdir()
    (home / ".codex" / "config.toml").write_text(f'openai_base_url = "http://{host}:4000/v1"')

    assert asked("codex") is Pointing.BY_HAND
    assert asked("codex", url="http://127.0.0.1:400") is Pointing.NOT_HERE


def test_a_variable_counts_for_the_clients_that_heed_it(asked, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://localhost:4000")

    assert asked("claude-code") is Pointing.BY_HAND
    assert asked("codex") is Pointing.NOT_HERE


def test_what_connect_wrote_is_older_when_a_window_has_changed(asked, home):  # noqa: F811
    point("claude-code", home)

    assert asked("claude-code") is Pointing.HERE
    assert asked("claude-code", window="1") is Pointing.OUTDATED
    assert asked("claude-code", url="http://127.0.0.1:4321") is Pointing.ELSEWHERE
    assert asked("claude-code", window="1").is_here


def test_a_file_that_cannot_be_read_tells_nothing(asked, home):  # noqa: F811
    (home / ".claude").mkdir()
    (home / ".claude" / "settings.json").write_bytes(b'{"a": "\xff http://127.0.0.1:4000"}')

    assert asked("claude-code") is Pointing.NOT_HERE
