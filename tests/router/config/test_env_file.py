import os

import pytest

from router.config.env_file import EnvFileUnreadable, is_open_to_others, read_env_file
from router.config.load import ConfigError
from tests.tools.configs import load_text
from tests.tools.running import two_targets


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
