"""Large pages for what lives as long as the process."""

import ctypes
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

PAGE_BYTES = 1 << 21
_COLLAPSE = 25
"""`MADV_COLLAPSE`, of Linux 6.1 and newer: Python has no name for it yet."""
_FULL = 0.8
"""A large page takes its whole size of memory, so only what is nearly full already is moved to them."""
_OURS = re.compile(rb"^([0-9a-f]+)-([0-9a-f]+) rw-p \S+ \S+ 0 *(?:\[heap\])?\n(?:[A-Z].*\n)*?Rss: +(\d+) kB", re.MULTILINE)
"""Memory that we may write to and that is no file's: where it begins and ends, and how much of it is in use."""


def use_large_pages() -> None:
    """Ask the kernel to move our memory to large pages. Where it cannot, nothing changes.

    A request touches objects on hundreds of small pages, more than the processor remembers the places of.
    """
    with suppress(OSError, AttributeError):
        for start, size in find_spans(Path("/proc/self/smaps").read_bytes()):
            ctypes.CDLL(None).madvise(ctypes.c_void_p(start), ctypes.c_size_t(size), _COLLAPSE)


def find_spans(maps: bytes) -> Iterator[tuple[int, int]]:
    """Where memory of ours fills whole large pages: starts, and bytes from there."""
    for begins, ends, used in _OURS.findall(maps):
        start, end = int(begins, 16), int(ends, 16)
        first, after = -(-start // PAGE_BYTES) * PAGE_BYTES, end // PAGE_BYTES * PAGE_BYTES
        if first < after and int(used) * 1024 >= _FULL * (end - start):
            yield first, after - first
