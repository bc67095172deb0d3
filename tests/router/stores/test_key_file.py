"""A key that outlives the process."""

import os
import stat

from router.stores.key_file import read_key


def test_a_key_is_made_once_for_its_owner_alone(tmp_path):
    path = tmp_path / "state" / "tandem.db.key"

    made = read_key(path)

    assert len(made) == 32
    assert read_key(path) == made
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(path.parent) == [path.name]


def test_a_file_that_holds_no_key_is_left_as_it_is(tmp_path):
    path = tmp_path / "tandem.db.key"
    path.write_bytes(b"short")

    assert len(read_key(path)) == 32
    assert path.read_bytes() == b"short"


def test_where_no_file_can_be_made_the_key_is_this_process_own(tmp_path):
    (tmp_path / "file").write_bytes(b"")

    assert len(read_key(tmp_path / "file" / "tandem.db.key")) == 32
