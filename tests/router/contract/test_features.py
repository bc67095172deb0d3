"""Places as the ledger keeps them."""

import pytest

from router.contract.features import TABLE_SIZE, pack_places, unpack_places


def test_places_are_the_same_after_they_were_packed():
    places = (0, 7, 300, TABLE_SIZE - 1)

    assert unpack_places(pack_places(places)) == places
    assert len(pack_places(places)) == 16


def test_of_a_long_text_256_places_are_kept():
    assert unpack_places(pack_places(tuple(range(1_000)))) == tuple(range(256))


@pytest.mark.parametrize("packed", [b"", b"abc", b"\xff\xff\xff\xff", bytes(4 * 257)])
def test_what_somebody_else_wrote_is_no_place(packed):
    assert unpack_places(packed) == ()
