"""The record of what was changed."""

import os

import pytest

from router.connect.store import Busy, Entry, Record, Store


def test_a_record_is_read_as_it_was_written(tmp_path):
    store = Store(tmp_path / "store")
    record = Record({"/a": Entry("json", True, [{"kind": "replace", "before": "ü"}], "0-a")}, ["/b"])

    store.save("codex", record)

    assert store.load("codex") == record
    assert store.load("aider") == Record()


def test_a_record_that_is_damaged_counts_as_none(tmp_path):
    (tmp_path / "codex").mkdir()
    (tmp_path / "codex" / "record.json").write_text('{"files": 1}')

    assert Store(tmp_path).load("codex") == Record()


def test_a_record_that_may_exist_and_cannot_be_read_is_refused(tmp_path):
    (tmp_path / "codex" / "record.json").mkdir(parents=True)

    with pytest.raises(IsADirectoryError):
        Store(tmp_path).load("codex")


def test_no_copy_takes_anothers_place(tmp_path):
    store = Store(tmp_path)

    names = [store.keep_copy("codex", "a", content) for content in (b"1", b"2")]

    assert [store.read_copy("codex", name) for name in names] == [b"1", b"2"]
    assert store.read_copy("codex", "") is store.read_copy("codex", "none") is None


def test_only_the_copies_that_are_asked_for_outlive_a_record(tmp_path):
    store = Store(tmp_path)
    store.save("codex", Record())
    kept = store.keep_copy("codex", "a", b"1")
    store.keep_copy("codex", "a", b"2")

    store.forget("codex", [kept])

    assert [entry.name for entry in (tmp_path / "codex").iterdir()] == [kept]
    store.forget("codex", [])
    assert list(tmp_path.iterdir()) == []


def test_an_empty_store_goes_with_the_folders_that_were_made_for_it(tmp_path):
    store = Store(tmp_path / "x" / "store")
    with store.locked():
        store.save("codex", Record())
    with store.locked():
        store.forget("codex", [])

    assert list(tmp_path.iterdir()) == []


def test_two_at_once_are_refused(tmp_path):
    with Store(tmp_path).locked(), pytest.raises(Busy, match="another tandem connect is running"), Store(tmp_path).locked():
        pass


def modes_in(folder) -> set[str]:
    return {f"{'d' if place.is_dir() else 'f'}{place.stat().st_mode & 0o777:o}" for place in (folder, *folder.rglob("*"))}


@pytest.mark.parametrize("umask", [0o000, 0o022])
def test_copies_and_the_record_are_readable_by_their_owner_alone(tmp_path, umask):
    store = Store(tmp_path / "store")
    mask = os.umask(umask)
    try:
        with store.locked():
            store.keep_copy("codex", "config.toml", b"key")
            store.save("codex", Record())
            found = modes_in(tmp_path / "store")
    finally:
        os.umask(mask)

    assert found == {"d700", "f600"}


def test_what_an_older_version_left_open_is_closed(tmp_path):
    store = Store(tmp_path / "store")
    name = store.keep_copy("codex", "config.toml", b"key")
    store.path_of("codex", name).chmod(0o644)
    store.path_of("codex", name).parent.chmod(0o755)

    with store.locked():
        assert modes_in(tmp_path / "store") == {"d700", "f600"}
