"""Whole bodies: within their limits, and decompressed."""

import asyncio
import gzip
import tracemalloc

import pytest

from router.contract.errors import BadRequest, BodyTimeout, BodyTooLarge
from router.contract.limits import Limits
from router.edge.http.bodies import collect_body, decompress, read_body
from router.loop.off_loop import OffLoop
from tests.tools.edge import LIMITS
from tests.tools.zstd import compress, frame_of_zeros

PACK = {"zstd": compress, "gzip": gzip.compress}
TEXT = b'{"messages": [%b]}' % b", ".join(b'{"content": "%d"}' % number for number in range(20_000))
MIB = 1 << 20


async def pieces_of(*pieces: bytes):
    for data in pieces:
        yield data


async def test_a_body_is_collected_whole():
    assert await collect_body(pieces_of(b"a", b"", b"bc"), LIMITS) == b"abc"


async def test_a_body_is_refused_at_the_byte_that_is_over_the_limit():
    exact = await collect_body(pieces_of(b"x" * LIMITS.max_body_bytes), LIMITS)

    assert len(exact) == LIMITS.max_body_bytes
    with pytest.raises(BodyTooLarge):
        await collect_body(pieces_of(b"x" * LIMITS.max_body_bytes, b"y"), LIMITS)


async def test_a_body_by_the_byte_is_refused_though_it_is_never_silent():
    async def trickle():
        while True:
            await asyncio.get_running_loop().advance(1)
            yield b"x"

    with pytest.raises(BodyTimeout):
        await collect_body(trickle(), LIMITS)


@pytest.mark.parametrize("encoding", PACK)
def test_a_compressed_body_comes_out_as_it_went_in(encoding):
    assert decompress(PACK[encoding](TEXT), encoding, Limits()) == TEXT


@pytest.mark.parametrize("encoding", ["", "identity"])
async def test_a_body_without_an_encoding_stays_as_it_is(encoding):
    headers = {"content-encoding": encoding} if encoding else {}

    assert await read_body(pieces_of(b"a", b"b"), headers, LIMITS, OffLoop()) == b"ab"


@pytest.mark.parametrize("encoding", ["gzip", "GZIP"])
async def test_an_encoding_is_read_in_any_case(encoding):
    assert await read_body(pieces_of(gzip.compress(b"ab")), {"content-encoding": encoding}, LIMITS, OffLoop()) == b"ab"


@pytest.mark.parametrize("encoding", PACK)
@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda packed: packed[:-1], "it ends too early"),
        (lambda packed: packed[: len(packed) // 2], "it ends too early"),
        (lambda packed: b"", "it ends too early"),
        (lambda packed: packed + b"x", "bytes follow its end"),
        (lambda packed: packed * 2, "bytes follow its end"),
        (lambda packed: b"{}" + packed, "is not valid"),
        (lambda packed: packed[:9] + bytes(len(packed) - 9), "is not valid"),
    ],
)
def test_a_body_that_is_cut_off_damaged_or_too_long_is_refused(encoding, spoil, words):
    with pytest.raises(BadRequest, match=words):
        decompress(spoil(PACK[encoding](TEXT)), encoding, Limits())


@pytest.mark.parametrize("encoding", PACK)
def test_a_body_is_refused_at_the_first_byte_over_the_limit_though_it_was_small(encoding):
    limits = Limits(max_body_bytes=2_000)
    exact = bytes(2_000)

    assert decompress(PACK[encoding](exact), encoding, limits) == exact
    with pytest.raises(BodyTooLarge, match="over the limit of 2000 bytes"):
        decompress(PACK[encoding](exact + b"x"), encoding, limits)


@pytest.mark.parametrize("encoding", PACK)
def test_a_body_is_refused_that_grows_over_a_hundredfold_unless_it_stays_small(encoding):
    small = bytes(4 * MIB)

    assert decompress(PACK[encoding](small), encoding, Limits()) == small
    with pytest.raises(BodyTooLarge, match="100 times"):
        decompress(PACK[encoding](small + b"x"), encoding, Limits())


def test_a_kilobyte_that_would_become_gigabytes_is_refused_before_it_takes_memory():
    bomb = frame_of_zeros(2 << 30)
    decompress(compress(b"{}"), "zstd", Limits())  # loads the library
    tracemalloc.start()
    try:
        with pytest.raises(BodyTooLarge):
            decompress(bomb, "zstd", Limits())
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert len(bomb) < 70_000
    assert peak < 2 * 100 * len(bomb) + 4 * MIB


def test_a_body_that_needs_a_window_over_8_mb_is_refused():
    with pytest.raises(BadRequest, match="window"):
        decompress(frame_of_zeros(1 << 20, window_log=24), "zstd", Limits())
