"""Whole bodies of requests: collected within their limits, and decompressed."""

import asyncio
import sys
import zlib
from collections.abc import AsyncIterator, Mapping
from importlib import import_module
from typing import Protocol

from router.contract.clock import CLOCK
from router.contract.errors import BadRequest, BodyTimeout, BodyTooLarge
from router.contract.limits import Limits
from router.edge.routes import ENCODINGS, too_large
from router.loop.off_loop import OffLoop

ENCODING = "content-encoding"
_MAX_RATIO = 100
"""Conversations shrink to a tenth. More than this is made to fill memory."""
_SMALL_BYTES = 4 << 20
"""Up to this size the ratio is not looked at: a short text that repeats shrinks to next to nothing."""
_ZSTD = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
_GZIP = 31
"""zlib's number for gzip with the largest window."""
_MAX_WINDOW_LOG = 23
"""8 MB, the largest window that RFC 9659 allows over HTTP. A decoder sets it aside at once."""


class _Decoder(Protocol):
    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


async def collect_body(pieces: AsyncIterator[bytes], limits: Limits) -> bytes:
    """A whole body, within its limits: neither too large, nor silent, nor by the byte."""
    loop = asyncio.get_running_loop()
    began, size = loop.time(), 0
    found: list[bytes] = []
    patience = limits.body_timeout_seconds
    while True:
        try:
            piece = await asyncio.wait_for(anext(pieces, None), patience)
        except TimeoutError as error:
            raise BodyTimeout("the body did not arrive in time") from error
        if piece is None:
            return b"".join(found)
        size += len(piece)
        if size > limits.max_body_bytes:
            raise too_large(limits)
        found.append(piece)
        elapsed = CLOCK.ran(began, loop.time())
        if elapsed > patience and size < limits.min_body_bytes_per_second * elapsed:
            raise BodyTimeout("the body did not arrive in time")


async def read_body(pieces: AsyncIterator[bytes], headers: Mapping[str, str], limits: Limits, off_loop: OffLoop) -> bytes:
    """A whole body as it was before it was compressed."""
    body, encoding = await collect_body(pieces, limits), headers.get(ENCODING, "").lower()
    return await off_loop.run(decompress, body, encoding, limits) if encoding in ENCODINGS else body


def decompress(body: bytes, encoding: str, limits: Limits) -> bytes:
    """The body that was compressed, in one frame or member. Meant for a thread.

    Raises `BadRequest` for one that is cut off or damaged, and `BodyTooLarge` before more memory is taken than it may have.
    """
    most = min(limits.max_body_bytes, max(_SMALL_BYTES, _MAX_RATIO * len(body)))
    decoder, fault = _gzip() if encoding == "gzip" else _zstd()
    try:
        found = decoder.decompress(body, most + 1)
    except fault as error:
        raise BadRequest(f"the body is not valid {encoding}, or needs a window of more than 8 MB") from error
    if len(found) > limits.max_body_bytes:
        raise too_large(limits)
    if len(found) > most:
        raise BodyTooLarge(f"the body is over {_MAX_RATIO} times larger than the {encoding} that was sent")
    if not decoder.eof:
        raise BadRequest(f"the body is not valid {encoding}: it ends too early")
    if decoder.unused_data:
        raise BadRequest(f"the body is not valid {encoding}: bytes follow its end")
    return found


def _gzip() -> tuple[_Decoder, type[Exception]]:
    return zlib.decompressobj(_GZIP), zlib.error


def _zstd() -> tuple[_Decoder, type[Exception]]:
    zstd = import_module(_ZSTD)  # with the first such body: most clients send none
    return zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: _MAX_WINDOW_LOG}), zstd.ZstdError
