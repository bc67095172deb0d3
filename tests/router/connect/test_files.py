"""Reading and writing a person's files."""

import os

import pytest

from router.connect import files
from router.connect.formats import CannotEdit


def test_a_byte_order_mark_is_no_text_and_stays(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"\xef\xbb\xbfa = 1\n")

    content = files.read(path)

    assert content.text == "a = 1\n"
    assert content.with_text("b") == b"\xef\xbb\xbfb"
    assert content.with_text(None) is None


def test_an_absent_file_has_no_text(tmp_path):
    assert files.read(tmp_path / "none") == files.Content(None, None)
    assert files.Content(None, None).with_text("a") == b"a"


def test_what_is_no_text_is_refused_with_its_line(tmp_path):
    (tmp_path / "a").write_bytes(b"a\nb\xff\n")

    with pytest.raises(CannotEdit, match="line 2: this is not UTF-8 text"):
        files.read(tmp_path / "a")


def test_a_named_pipe_is_refused_rather_than_waited_for(tmp_path):
    os.mkfifo(tmp_path / "a")

    with pytest.raises(CannotEdit, match="a named pipe"):
        files.read(tmp_path / "a")


def test_a_link_stays_a_link_and_permissions_stay(tmp_path):
    real, link = tmp_path / "dotfiles" / "a", tmp_path / "a"
    real.parent.mkdir()
    real.write_text("old")
    real.chmod(0o640)
    link.symlink_to(real)

    assert files.write(link, b"new") == []

    assert link.is_symlink()
    assert real.read_text() == "new"
    assert real.stat().st_mode & 0o777 == 0o640
    assert [entry.name for entry in real.parent.iterdir()] == ["a"]


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_a_new_file_and_its_folders_are_their_owners_alone_whatever_the_umask(tmp_path, umask):
    path = tmp_path / "x" / "y" / "a"
    mask = os.umask(umask)
    try:
        made = files.write(path, b"new")
    finally:
        os.umask(mask)

    assert made == [tmp_path / "x" / "y", tmp_path / "x"]
    assert [place.stat().st_mode & 0o777 for place in (path, *made)] == [0o600, 0o700, 0o700]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_what_root_writes_belongs_to_whom_it_belonged(tmp_path):
    os.chown(tmp_path, 4_321, 4_321)
    (tmp_path / "a").touch()
    os.chown(tmp_path / "a", 1_234, 1_234)

    for name in ("a", "new"):
        files.write(tmp_path / name, b"new")

    assert [(tmp_path / name).stat().st_uid for name in ("a", "new")] == [1_234, 4_321]


def test_a_write_that_fails_leaves_nothing_behind(tmp_path):
    (tmp_path / "a").mkdir()

    with pytest.raises(IsADirectoryError):
        files.write(tmp_path / "a", b"new")

    assert [entry.name for entry in tmp_path.iterdir()] == ["a"]


def test_only_empty_folders_are_removed(tmp_path):
    made = files.make_folders(tmp_path / "x" / "y")
    (tmp_path / "x" / "theirs").touch()

    files.remove_folders(made)

    assert [entry.name for entry in (tmp_path / "x").iterdir()] == ["theirs"]


def test_removing_what_a_link_leads_to_leaves_the_link(tmp_path):
    (tmp_path / "real").touch()
    (tmp_path / "link").symlink_to(tmp_path / "real")

    files.remove(tmp_path / "link")

    assert [entry.name for entry in tmp_path.iterdir()] == ["link"]
