"""Bodies in zstd: by the library, and written by hand where no encoder would write them."""

import sys

if sys.version_info >= (3, 14):
    from compression.zstd import compress
else:
    from backports.zstd import compress

__all__ = ["compress", "frame_of_zeros"]

_BLOCK_BYTES = 1 << 17
_REPEATS, _LAST = 0b010, 0b001


def frame_of_zeros(size: int, window_log: int = 17) -> bytes:
    """A frame of `size` zeros, a multiple of 128 KiB, in blocks of four bytes each."""
    count = size // _BLOCK_BYTES
    kinds = [_REPEATS] * (count - 1) + [_REPEATS | _LAST]
    blocks = b"".join((_BLOCK_BYTES << 3 | kind).to_bytes(3, "little") + b"\0" for kind in kinds)
    return b"\x28\xb5\x2f\xfd\x00" + bytes([window_log - 10 << 3]) + blocks
