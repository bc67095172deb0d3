"""The text of a delegated task."""

import pytest

from router.cli.task_text import MOST_BYTES, MOST_FILE_BYTES, TaskRefused, read_file, write_request


def test_the_task_comes_first_and_each_file_is_quoted_with_its_name():
    body = write_request("  find the race\n", [("a.py", "x = 1\n"), ("b.py", "y = 2")], "deep")

    assert body["model"] == "deep"
    assert body["input"] == "find the race\n\na.py:\n```\nx = 1\n```\n\nb.py:\n```\ny = 2\n```"
    assert "no tools" in body["instructions"]


def test_without_a_tier_tandem_chooses():
    assert write_request("think")["model"] == "auto"


def test_a_file_cannot_end_its_own_quote():
    body = write_request("read", [("a.md", "````\ninner\n````\n``` outer")])

    assert body["input"].count("`````") == 2
    assert body["input"].endswith("`````\n````\ninner\n````\n``` outer\n`````")


@pytest.mark.parametrize("task", ["", " \n\t"])
def test_an_empty_task_is_refused(task):
    with pytest.raises(TaskRefused, match="empty"):
        write_request(task, [("a.py", "x")])


def test_what_is_too_long_in_all_is_refused_with_its_size():
    with pytest.raises(TaskRefused, match=r"at most 2,097,152 can be sent"):
        write_request("read", [("a", "x" * (MOST_BYTES // 2)), ("b", "x" * (MOST_BYTES // 2))])


def test_a_file_is_read_as_text(tmp_path):
    path = tmp_path / "a.py"
    path.write_bytes(b"\xef\xbb\xbfsch\xc3\xb6n\n")

    assert read_file(path) == (str(path), "schön\n")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"x" * (MOST_FILE_BYTES + 1), "is too long: 524,289 bytes"),
        (b"\xff\xfe", "is not text in UTF-8"),
        (b"a\0b", "is not text"),
    ],
)
def test_a_file_that_cannot_be_sent_is_named_with_the_reason(tmp_path, content, words):
    path = tmp_path / "data"
    path.write_bytes(content)

    with pytest.raises(TaskRefused, match=words) as refused:
        read_file(path)

    assert str(path) in str(refused.value)


def test_a_file_that_is_not_there_and_a_folder_are_refused(tmp_path):
    for path, words in ((tmp_path / "gone", "No such file"), (tmp_path, "Is a directory")):
        with pytest.raises(TaskRefused, match=words):
            read_file(path)
