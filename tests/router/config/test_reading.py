"""Which file is the config, and what is said of one that cannot be read."""

import os
import pwd
from pathlib import Path

import pytest

from router.config.faults import ConfigError
from router.config.reading import MAX_BYTES, EnvFileUnreadable, find_config, is_open_to_others, read_config, read_env_file
from tests.conftest import SIMULATED
from tests.tools.configs import load_text
from tests.tools.running import two_targets


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Where a config is looked for: the folder we stand in, or the user's own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TANDEM_CONFIG", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    return tmp_path


def make_loop(path: Path) -> None:
    path.with_name("other").symlink_to(path)
    path.symlink_to(path.with_name("other"))


UNREADABLE = {
    "a folder": (Path.mkdir, "is a folder"),
    "a link that leads nowhere": (
        lambda path: path.symlink_to("nowhere.yaml"),
        "is a link to nowhere.yaml, which does not exist",
    ),
    "links in a circle": (make_loop, "Too many levels of symbolic links"),
    "a named pipe": (os.mkfifo, "is not a regular file"),
    "UTF-16": (lambda path: path.write_bytes("tiers: {}".encode("utf-16")), "is UTF-16"),
    "Latin-1": (lambda path: path.write_bytes(b"a: 1\nb: \xe4\n"), "is not UTF-8 (line 2)"),
}


@pytest.mark.parametrize(("make", "said"), UNREADABLE.values(), ids=UNREADABLE)
@pytest.mark.parametrize("where", ["config.yaml", "home/tandem/config.yaml", "named.yaml"])
def test_a_config_that_is_there_and_cannot_be_read_is_a_fault_and_never_the_simulated_tiers(place, make, said, where):
    (place / where).parent.mkdir(parents=True, exist_ok=True)
    make(place / where)

    with pytest.raises(ConfigError) as caught:
        read_config(find_config("named.yaml" if where == "named.yaml" else None))

    (fault,) = caught.value.faults
    assert said in fault.problem
    assert fault.hint


def test_a_config_yml_is_told_to_be_renamed(place):
    (place / "config.yml").write_text(SIMULATED)

    with pytest.raises(ConfigError) as caught:
        find_config(None)

    (fault,) = caught.value.faults
    assert fault.problem == "Tandem reads config.yaml, not config.yml"
    assert fault.hint == "mv config.yml config.yaml"
    assert find_config("config.yml") == Path("config.yml")


def test_a_config_yml_of_another_program_is_passed_over_but_not_in_our_own_folder(place):
    (place / "config.yml").write_text("title: my blog\n")
    assert find_config(None) is None

    (place / "home" / "tandem").mkdir(parents=True)
    (place / "home" / "tandem" / "config.yml").write_text("title: my blog\n")

    with pytest.raises(ConfigError):
        find_config(None)


def test_a_config_is_looked_for_in_order_and_none_is_the_default(place, monkeypatch):
    assert find_config(None) is None
    (place / "home" / "tandem").mkdir(parents=True)
    (place / "home" / "tandem" / "config.yaml").touch()
    assert find_config(None) == place / "home" / "tandem" / "config.yaml"

    (place / "config.yaml").touch()
    assert find_config(None) == Path("config.yaml")

    monkeypatch.setenv("TANDEM_CONFIG", "/a")

    assert find_config(None) == Path("/a")
    assert find_config("/b") == Path("/b")


def test_a_folder_that_this_user_may_not_search_is_a_fault(place, monkeypatch):
    def closed(path):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "lstat", closed)

    with pytest.raises(ConfigError) as caught:
        find_config(None)

    assert "HOME" in caught.value.faults[0].hint


def test_a_file_of_somebody_else_is_told_with_owner_and_mode(place, monkeypatch):
    (place / "config.yaml").write_text(SIMULATED)
    (place / "config.yaml").chmod(0o600)

    def closed(path, *_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", closed)
    me = pwd.getpwuid(os.geteuid()).pw_name

    with pytest.raises(ConfigError) as caught:
        read_config(place / "config.yaml")

    assert caught.value.faults[0].problem == f"Permission denied: it belongs to {me} with mode 600, and this is {me}"


def test_no_more_of_a_large_file_is_read_than_is_needed_to_refuse_it(place):
    (place / "config.yaml").write_bytes(b"a" * MAX_BYTES + "ä".encode() + b"a" * MAX_BYTES)

    text, _, _ = read_config(place / "config.yaml")

    assert len(text) == MAX_BYTES + 1


def test_an_endless_device_is_not_read():
    with pytest.raises(ConfigError, match="1 problem"):
        read_config(Path("/dev/zero"))


def write(folder, text: str | bytes) -> None:
    (folder / ".env").write_bytes(text if isinstance(text, bytes) else text.encode())


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("KEY=plain", "plain"),
        ("export KEY=plain", "plain"),
        ("  KEY = plain  ", "plain"),
        ("KEY='single # not a comment'", "single # not a comment"),
        ('KEY="double" # a comment', "double"),
        ("KEY=plain # a comment", "plain"),
        ("KEY=a#b", "a#b"),
        ("KEY=$OTHER${MORE}", "$OTHER${MORE}"),
        ("KEY='unclosed", "'unclosed"),
        ("KEY=plain\r", "plain"),
        ("KEY=old\nKEY=new", "new"),
        ("\ufeffKEY=plain", "plain"),
        ("KEY=", ""),
        ("KEY=a=b==", "a=b=="),
    ],
)
def test_a_line_is_read_as_people_write_it(tmp_path, line, value):
    write(tmp_path, f"{line}\n# KEY=no\n")

    assert read_env_file(tmp_path) == {"KEY": value}


def test_what_is_no_assignment_is_passed_over(tmp_path):
    write(tmp_path, "hello there\n1KEY=x\n=y\n\nKEY=z\n")

    assert read_env_file(tmp_path) == {"KEY": "z"}


def test_no_file_or_a_folder_of_that_name_is_no_values(tmp_path):
    assert read_env_file(tmp_path) == {}
    (tmp_path / ".env").mkdir()
    assert read_env_file(tmp_path) == {}


@pytest.mark.parametrize(("content", "said"), [(b"\xff\xfe", "is not UTF-8"), (b"x" * (2 << 20), "is over")])
def test_a_file_that_cannot_be_read_is_a_fault_of_the_config(tmp_path, content, said):
    write(tmp_path, content)

    with pytest.raises(EnvFileUnreadable, match=said):
        read_env_file(tmp_path)
    with pytest.raises(ConfigError) as caught:
        load_text(with_key("env:NOWHERE_KEY"), tmp_path)
    assert [fault.path for fault in caught.value.faults] == [".env", "tiers.fast.targets[0].api_key"]


def with_key(reference: str) -> str:
    return two_targets("http://h/v1", "http://h/v1", fast_extra=f"api_key: '{reference}',")


def key_of(loaded):
    return loaded.targets[0].endpoint.api_key


def test_a_key_that_is_not_in_the_environment_comes_from_the_file_and_is_never_shown(tmp_path, monkeypatch):
    monkeypatch.delenv("SPARK_TEST_KEY", raising=False)
    write(tmp_path, "SPARK_TEST_KEY=sk-canary\nOTHER=x\n")
    (tmp_path / ".env").chmod(0o600)

    loaded = load_text(with_key("env:SPARK_TEST_KEY"), tmp_path)

    assert key_of(loaded).reveal() == "sk-canary"
    assert key_of(loaded).is_from_file
    assert "sk-canary" not in repr(loaded)
    assert loaded.warnings == ()
    assert "SPARK_TEST_KEY" not in os.environ


def test_the_environment_wins_over_the_file(tmp_path, monkeypatch):
    monkeypatch.setenv("SPARK_TEST_KEY", "from-environment")
    write(tmp_path, "SPARK_TEST_KEY=from-file\n")

    loaded = load_text(with_key("env:SPARK_TEST_KEY"), tmp_path)

    assert key_of(loaded).reveal() == "from-environment"
    assert not key_of(loaded).is_from_file


def test_a_file_that_others_may_read_is_warned_of_where_it_is_used(tmp_path, monkeypatch):
    monkeypatch.delenv("SPARK_TEST_KEY", raising=False)
    write(tmp_path, "SPARK_TEST_KEY=x\n")
    (tmp_path / ".env").chmod(0o644)

    assert is_open_to_others(tmp_path)
    (warning,) = load_text(with_key("env:SPARK_TEST_KEY"), tmp_path).warnings
    assert "chmod 600" in warning
    assert load_text(two_targets("http://h/v1", "http://h/v1"), tmp_path).warnings == ()
