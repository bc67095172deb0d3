"""Connecting and undoing, over whole homes."""

import json
import os
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from router.connect.change import (
    FORMATS,
    CannotConnect,
    connect,
    plan_connection,
    plan_undo,
    plan_undo_without_record,
    take_without_record,
    undo,
    write_for_run,
)
from router.connect.pointing import Pointing, address_pattern, where_it_points
from router.connect.recipe import known_clients, load_recipe
from router.connect.store import Store
from tests.router.connect.test_recipe import FACTS

USERS = {
    ".codex/config.toml": b'# mine\r\nmodel = "gpt-5.5"\r\n\r\n[model_providers.tandem]\r\nname = "by hand"',
    ".codex/tandem-models.json": b"{}",
    ".claude/settings.json": b'\xef\xbb\xbf{\n    "model": "opus",\n    "env": {"A": "1"}, "permissions": {}\n}',
    ".config/opencode/opencode.jsonc": b'{\n  // mine\n  "provider": {"x": {}}, /* and */\n  "model": "x/y",\n}\n',
    ".aider.conf.yml": b"model: gpt-5.5 # mine\nread:\n  - a\n\n# end",
    ".qwen/settings.json": b'{"modelProviders": {"openai": [{"id": "own"}]}}',
    ".continue/config.yaml": b"name: mine\nmodels:\n    - name: own\n      provider: x\n",
    ".cline/data/globalState.json": b"{}",
    ".config/io.datasette.llm/extra-openai-models.yaml": b"- model_id: own\n  model_name: x",
    ".bashrc": b"export A=1",
}


def tree(folder: Path) -> dict[str, tuple]:
    """Everything in a folder: kinds, permissions, contents."""
    return {
        str(path.relative_to(folder)): (
            path.lstat().st_mode,
            os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else None,
        )
        for path in folder.rglob("*")
    }


@pytest.fixture
def home(tmp_path, monkeypatch):
    for name in ("CODEX_HOME", "CLAUDE_CONFIG_DIR", "XDG_CONFIG_HOME", "LLM_USER_PATH", "ZDOTDIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def fill_home(home: Path) -> None:
    for name, content in USERS.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_bytes(content)


def point(client: str, home: Path, url: str = "http://127.0.0.1:4000") -> Store:
    store, recipe = Store(home / ".state" / "connect"), load_recipe(client)
    with store.locked():
        connect(recipe, plan_connection(recipe, {**FACTS, "url": url, "base": f"{url}/v1"}, store, "bash"), store)
    return store


def undo_it(client: str, home: Path) -> list[Path]:
    store, recipe = Store(home / ".state" / "connect"), load_recipe(client)
    with store.locked():
        return undo(recipe, plan_undo(recipe, store, "bash"), store)


@pytest.mark.parametrize("is_new", [True, False], ids=["a new home", "a home with settings"])
@pytest.mark.parametrize("client", known_clients())
def test_connect_and_undo_leave_the_very_home(home, client, is_new):
    if not is_new:
        fill_home(home)
    before = tree(home)

    store = point(client, home)
    assert where_it_points(load_recipe(client), FACTS, store, "bash") is Pointing.HERE
    assert tree(home) != before
    assert undo_it(client, home) == []

    assert tree(home) == before


@pytest.mark.parametrize("client", known_clients())
def test_a_changed_port_is_updated_and_an_undo_still_leaves_the_very_home(home, client):
    fill_home(home)
    before = tree(home)
    store = point(client, home, "http://127.0.0.1:1234")
    if client != "llm":
        assert where_it_points(load_recipe(client), FACTS, store, "bash") is Pointing.ELSEWHERE

    point(client, home)
    contents = b"".join(path.read_bytes() for path in home.rglob("*") if path.is_file() and ".state" not in str(path))
    assert b"127.0.0.1:4000" in contents
    assert b"127.0.0.1:1234" not in contents
    undo_it(client, home)

    assert tree(home) == before


@pytest.mark.parametrize("client", known_clients())
def test_a_second_run_has_nothing_to_do(home, client):
    fill_home(home)
    store = point(client, home)

    changes = plan_connection(load_recipe(client), FACTS, store, "bash")

    assert [change.path for change in changes if change.is_needed] == []


def test_links_of_a_dotfile_manager_are_followed_and_stay(home):
    fill_home(home)
    (home / "dotfiles").mkdir()
    (home / ".bashrc").rename(home / "dotfiles" / "bashrc")
    (home / ".bashrc").symlink_to("dotfiles/bashrc")
    before = tree(home)

    point("env", home)

    assert (home / ".bashrc").is_symlink()
    assert b"OPENAI_BASE_URL" in (home / "dotfiles" / "bashrc").read_bytes()
    undo_it("env", home)
    assert tree(home) == before


def test_edits_around_ours_stay_and_a_copy_of_what_was_is_kept(home):
    fill_home(home)
    point("claude-code", home)
    settings = home / ".claude" / "settings.json"
    settings.write_bytes(settings.read_bytes().replace(b'"A": "1"', b'"A": "2"'))

    (copy,) = undo_it("claude-code", home)

    assert settings.read_bytes() == USERS[".claude/settings.json"].replace(b'"A": "1"', b'"A": "2"')
    assert copy.read_bytes() == USERS[".claude/settings.json"]


def test_what_codex_writes_between_our_marks_stays_and_it_still_points_here(home):
    fill_home(home)
    store = point("codex", home)
    config = home / ".codex" / "config.toml"
    written = config.read_bytes()
    end = written.rindex(b"# <<< tandem connect")
    trusted = b'[projects."/x"]\r\ntrust_level = "trusted"\r\n'
    config.write_bytes((written[:end] + trusted + written[end:]).replace(b'model = "auto"', b'model = "fast"'))

    assert where_it_points(load_recipe("codex"), FACTS, store, "bash") is Pointing.HERE
    undo_it("codex", home)

    assert config.read_bytes() == USERS[".codex/config.toml"] + b"\r\n" + trusted


def test_blocks_can_be_removed_without_our_record(home):
    fill_home(home)
    store = point("codex", home)
    store.forget("codex", [])

    undo_it("codex", home)

    assert (home / ".codex/config.toml").read_bytes() == USERS[".codex/config.toml"]


@pytest.mark.parametrize(
    ("client", "name", "content", "reason"),
    [
        ("codex", ".codex/config.toml", b"a = 1\nb =\n", "config.toml: this is not valid TOML: .*line 2"),
        ("claude-code", ".claude/settings.json", b'{\n"a" 1}', 'settings.json: line 2: ":" is missing after "a"'),
        ("aider", ".aider.conf.yml", b"a: [\n", "aider.conf.yml: line 2: this is not valid YAML"),
        ("env", ".bashrc", b"\xff", "bashrc: line 1: this is not UTF-8 text"),
    ],
)
def test_a_broken_file_is_refused_and_nothing_is_changed(home, client, name, content, reason):
    fill_home(home)
    (home / name).write_bytes(content)
    before = tree(home)

    with pytest.raises(CannotConnect, match=reason):
        point(client, home)

    assert tree(home) == before


def test_when_one_file_cannot_be_written_the_others_are_set_back(home):
    fill_home(home)
    recipe, store = load_recipe("codex"), Store(home / ".state" / "connect")
    before = tree(home)

    with store.locked():
        changes = plan_connection(recipe, FACTS, store, "bash")
        (home / ".codex/config.toml").write_bytes(b"# changed meanwhile\n")
        with pytest.raises(CannotConnect, match=r"config.toml: it changed in the meantime: try again"):
            connect(recipe, changes, store)

    (home / ".codex/config.toml").write_bytes(USERS[".codex/config.toml"])
    assert tree(home) == before


def test_a_folder_in_the_way_is_told(home):
    (home / ".aider.conf.yml").mkdir()

    with pytest.raises(CannotConnect, match=r"aider.conf.yml cannot be changed: Is a directory"):
        point("aider", home)


def test_a_run_has_its_files_in_its_own_folder(tmp_path):
    facts = write_for_run(load_recipe("codex"), FACTS, tmp_path)

    assert facts["catalogue_file"] == str(tmp_path / "models.json")
    assert (tmp_path / "models.json").read_text() == "{}"
    write_for_run(load_recipe("cline"), FACTS, tmp_path)
    assert (tmp_path / "data" / "secrets.json").exists()


@given(st.binary(max_size=60), st.sampled_from(known_clients()))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_bytes_a_file_has_connect_and_undo_leave_them_or_refuse(home, content, client):
    recipe = load_recipe(client)
    for file in recipe.files_here("bash"):
        file.find().parent.mkdir(parents=True, exist_ok=True)
        file.find().write_bytes(content)
    before = tree(home)

    try:
        point(client, home)
    except CannotConnect:
        pass
    else:
        undo_it(client, home)

    assert tree(home) == before
    for file in recipe.files_here("bash"):
        file.find().unlink()


JSON_CLIENTS = ("claude-code", "opencode", "qwen-code", "cline", "aider", "codex", "continue")


@pytest.mark.parametrize("client", JSON_CLIENTS)
def test_without_a_record_what_bears_our_address_is_taken_out(home, client):
    point(client, home)
    shutil.rmtree(home / ".state")

    recipe, store = load_recipe(client), Store(home / ".state" / "connect")
    facts = {**FACTS, "window": "1", "window_deep": "1"}  # another config than the one that it was connected with
    with store.locked():
        undo(recipe, plan_undo_without_record(recipe, facts, "bash", address_pattern(FACTS["url"])), store)

    left = [path for path in home.rglob("*") if path.is_file()]
    assert [path for path in left if "127.0.0.1:4000" in path.read_text() or "tandem" in path.read_text().lower()] == []
    assert [path.name for path in left if path.read_text().strip()] == []


def test_a_client_that_never_pointed_here_has_nothing_to_take_out(home):
    fill_home(home)

    assert plan_undo_without_record(load_recipe("claude-code"), FACTS, "bash", address_pattern(FACTS["url"])) == []


ADDRESS = address_pattern("http://127.0.0.1:4000")
VALUES = {
    "model": "auto",
    "env": {"URL": "http://127.0.0.1:4000", "WINDOW": "100"},
    "status": {"command": "x"},
    "list": [{"a": 1}],
}
TIERS = frozenset({"auto", "fast"})


def take(text: str, values: dict = VALUES) -> str | None:
    return take_without_record("json", FORMATS["json"], text, {"values": json.dumps(values)}, TIERS, ADDRESS)[0]


@pytest.mark.parametrize(("found", "left"), [
    (VALUES, None),
    ({"model": "fast", "env": {"URL": "http://localhost:4000/", "WINDOW": "7"}}, None),
    ({"model": "opus", "env": {"URL": "http://elsewhere", "MINE": "1"}}, {"model": "opus", "env": {"URL": "http://elsewhere", "MINE": "1"}}),
    ({"status": {"command": "tandem --url http://127.0.0.1:4000"}, "mine": 1}, {"mine": 1}),
    ({"list": [{"b": 2}, {"a": 1}, {"url": "http://127.0.0.1:4000"}]}, {"list": [{"b": 2}]}),
    ({"list": "text", "env": []}, {"list": "text", "env": []}),
])  # fmt: skip
def test_ours_goes_and_all_else_stays(found, left):
    text = take(json.dumps(found, indent=2))

    assert (None if text is None else json.loads(text)) == left


def test_an_object_with_our_name_goes_whole():
    text = take('{"provider": {"tandem": {"x": 1}, "own": {}}}', {"provider": {"tandem": {"y": 2}}})

    assert json.loads(text) == {"provider": {"own": {}}}


def test_a_sign_of_ours_goes_and_one_of_the_clients_own_stays():
    for text, left in (("by us", None), ("1", "1")):
        assert take_without_record("flag", FORMATS["flag"], text, {"content": "by us"}, TIERS, ADDRESS) == (left, ())


def test_marked_blocks_need_no_record():
    text = FORMATS["shell"].put("export A=1\n", {"lines": "export B=2"}).text

    assert take_without_record("shell", FORMATS["shell"], text, {}, TIERS, ADDRESS) == ("export A=1\n", ())
