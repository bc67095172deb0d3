"""Folders for their owner alone."""

import os
import stat

from router.stores.folders import make_folders


def test_a_folder_and_those_above_it_are_their_owners_alone_under_any_umask(tmp_path):
    os.chmod(tmp_path, 0o755)
    before = os.umask(0)
    try:
        make_folders(tmp_path / "state" / "tandem" / "routers")
        make_folders(tmp_path / "state" / "tandem")
    finally:
        os.umask(before)

    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.rglob("*")}
    assert modes == {"state": 0o700, "tandem": 0o700, "routers": 0o700}
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o755
