"""What lives as long as the process, in large pages."""

import mmap
import sys

import pytest

from router.cli import large_pages

MAPS = """\
aaaac6479000-aaaac6dd4000 rw-p 00000000 00:00 0                          [heap]
ffff78000000-ffff78233000 rw-p 00000000 00:00 0
ffff7dc40000-ffff7dd40000 rw-p 00000000 00:00 0
ffff7dd50000-ffff7e550000 ---p 00000000 00:00 0
ffff7ef70000-ffff7f270000 rw-p 00000000 103:01 12                        /a folder/data.bin
ffff805b0000-ffff809c9000 r-xp 00000000 103:01 9                         /usr/lib/libpython3.11.so.1.0
"""


def test_only_our_own_memory_is_asked_for_and_only_whole_large_pages(tmp_path):
    maps = tmp_path / "maps"
    maps.write_text(MAPS)

    assert list(large_pages.find_spans(maps)) == [(0xAAAAC6600000, 0x600000), (0xFFFF78000000, 0x200000)]


def test_where_there_is_no_such_list_nothing_is_asked_for(tmp_path):
    assert list(large_pages.find_spans(tmp_path / "none")) == []


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has them")
def test_what_is_moved_stays_as_it_was():
    memory = mmap.mmap(-1, 3 * large_pages.PAGE_BYTES)
    memory[:] = bytes(range(256)) * (len(memory) // 256)

    large_pages.use_large_pages()

    assert memory[:] == bytes(range(256)) * (len(memory) // 256)
