"""Packed messages, apart from the sockets that they come on (`test_incoming.py`)."""

import zlib

import pytest

from router.edge.websocket.deflate import LIGHT_BYTES, TooLarge, Unpacker


def packed(packer, data: bytes) -> bytes:
    return (packer.compress(data) + packer.flush(zlib.Z_SYNC_FLUSH))[:-4]


@pytest.mark.parametrize("starts_over", [False, True])
def test_messages_are_unpacked_in_their_order(starts_over):
    unpacker, packer = Unpacker(12, starts_over=starts_over), zlib.compressobj(9, zlib.DEFLATED, -12)
    for message in (b"one and the same", b"one and the same", b"another"):
        if starts_over:
            packer = zlib.compressobj(9, zlib.DEFLATED, -12)
        assert unpacker.begin(packed(packer, message)) == (message, True)


@pytest.mark.parametrize("size", [LIGHT_BYTES - 1, LIGHT_BYTES, LIGHT_BYTES + 1, 3 << 20])
def test_a_large_message_is_begun_and_then_finished(size):
    unpacker, packer = Unpacker(12, starts_over=False), zlib.compressobj(9, zlib.DEFLATED, -12)
    begun, is_whole = unpacker.begin(packed(packer, b"x" * size))

    assert is_whole == (size < LIGHT_BYTES)
    assert len(begun) <= LIGHT_BYTES
    assert (begun if is_whole else unpacker.finish(begun, 4 << 20)) == b"x" * size
    assert unpacker.begin(packed(packer, b"next")) == (b"next", True)


def test_more_than_may_be_is_not_unpacked():
    unpacker, packer = Unpacker(12, starts_over=False), zlib.compressobj(9, zlib.DEFLATED, -12)
    begun, _ = unpacker.begin(packed(packer, b"x" * (30 << 20)))

    with pytest.raises(TooLarge):
        unpacker.finish(begun, 1 << 20)


def test_a_message_that_ends_its_stream_leaves_the_next_one_readable():
    unpacker, packer = Unpacker(12, starts_over=False), zlib.compressobj(9, zlib.DEFLATED, -12)

    assert unpacker.begin(packer.compress(b"last") + packer.flush(zlib.Z_FINISH)) == (b"last", True)
    assert unpacker.begin(packed(zlib.compressobj(9, zlib.DEFLATED, -12), b"first")) == (b"first", True)
