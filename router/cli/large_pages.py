"""Large pages for what lives as long as the process."""

import ctypes
from contextlib import suppress
from pathlib import Path

_PAGE_BYTES = 1 << 21
_COLLAPSE = 25
"""`MADV_COLLAPSE` of Linux 6.1 and newer, which Python does not know yet."""


def use_large_pages() -> None:
    """Ask the kernel to keep what is on the heap in large pages. Where it cannot, nothing changes.

    A request touches objects on hundreds of small ones, more than the processor remembers the places of.
    """
    with suppress(OSError, AttributeError):
        advise = ctypes.CDLL(None).madvise
        for line in Path("/proc/self/maps").read_text().splitlines():
            span, rights, *_, name = line.split(maxsplit=5) if line.count(" ") > 5 else (*line.split(), "")
            start, end = (int(place, 16) for place in span.split("-"))
            first = -(-start // _PAGE_BYTES) * _PAGE_BYTES
            if rights == "rw-p" and not name.startswith("/") and end - first >= _PAGE_BYTES:
                advise(ctypes.c_void_p(first), ctypes.c_size_t((end - first) // _PAGE_BYTES * _PAGE_BYTES), _COLLAPSE)
