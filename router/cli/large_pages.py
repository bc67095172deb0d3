"""Large pages for what lives as long as the process."""

import ctypes
from collections.abc import Iterator
from pathlib import Path

PAGE_BYTES = 1 << 21
_COLLAPSE = 25
"""`MADV_COLLAPSE`, of Linux 6.1 and newer: Python has no name for it yet."""


def use_large_pages() -> None:
    """Ask the kernel to move our memory to large pages, as far as it fills them. Where it cannot, nothing changes.

    A request touches objects on hundreds of small ones, more than the processor remembers the places of.
    """
    for start, size in find_spans(Path("/proc/self/maps")):
        ctypes.CDLL(None).madvise(ctypes.c_void_p(start), ctypes.c_size_t(size), _COLLAPSE)


def find_spans(maps: Path) -> Iterator[tuple[int, int]]:
    """Where there is room for large pages in memory that is ours to write to and no file's: starts, and bytes from there."""
    try:
        lines = maps.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        span, rights, _, _, _, *name = line.split(maxsplit=5)
        start, end = (int(place, 16) for place in span.split("-"))
        first, after = -(-start // PAGE_BYTES) * PAGE_BYTES, end // PAGE_BYTES * PAGE_BYTES
        if rights == "rw-p" and name in ([], ["[heap]"]) and first < after:
            yield first, after - first
