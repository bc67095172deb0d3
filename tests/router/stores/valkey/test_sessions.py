"""Sessions in a real server: what every store of sessions with versions must do, and what is its own."""

import pytest

pytest.importorskip("hiredis")

from router.contract.stores import StoreUnusable, Versioned
from router.stores.valkey.link import Link
from router.stores.valkey.sessions import ValkeySessions
from tests.contract.test_stores import (  # noqa: F401  the contract's own tests, run here on another store
    test_a_record_is_replaced_only_by_who_knows_its_version,
    test_of_many_changes_at_once_none_is_lost,
    test_two_memories_on_one_store_lose_nothing_of_what_either_was_told,
)
from tests.tools.unreliable import FAULTS, UnreliableLink


@pytest.fixture(params=["", *FAULTS])
async def link(request, valkey):
    link = UnreliableLink(valkey.terms(), request.param)
    link.sessions = ValkeySessions(link)
    await link.open()
    yield link
    await link.close()


@pytest.fixture
def store(link):
    return link.sessions


@pytest.fixture
def versioned_sessions(store):
    return lambda: store


async def test_several_records_are_loaded_in_their_order_by_one_command(link, store):
    await store.swap("a", 0, 1.0, b"one")
    await store.swap("b", 0, 1.0, b"\x00\xff two")
    before = link.trips

    found = await store.load_all(["b", "none", "a"])

    assert found == [Versioned(b"\x00\xff two", 1), Versioned(), Versioned(b"one", 1)]
    assert link.trips <= before + 1 + (link.fault == "twice")


async def test_a_record_that_is_gone_is_taken_back_with_its_version(store):
    assert await store.swap("a", 41, 1.0, b"one")

    assert await store.load("a") == Versioned(b"one", 42)


async def test_a_record_is_kept_for_a_week_from_its_last_change(link, store):
    await store.swap("a", 0, 1.0, b"one")

    assert 6 * 86_400 < await link.ask("TTL", link.key("s", "a")) <= 7 * 86_400


@pytest.mark.parametrize("value", [b"", b" ", b"words", b"12", b"-1 {}", b"1" * 40 + b" {}", b"\xff\x00"])
async def test_a_value_that_is_not_ours_is_no_record_and_is_replaced(link, store, value):
    await link.ask("SET", link.key("s", "a"), value)

    assert await store.load("a") == Versioned()
    assert await store.swap("a", 5, 1.0, b"one")
    assert await store.load("a") == Versioned(b"one", 6)


@pytest.mark.parametrize(("value", "version"), [(b"007 x", 7), (b"000 x", 0), (b"0 x", 0), (b"0" * 18 + b"10 x", 10)])
async def test_a_version_that_somebody_wrote_with_zeros_in_front_is_the_same_number(link, store, value, version):
    await link.ask("SET", link.key("s", "a"), value)

    assert await store.load("a") == Versioned(b"x", version)
    assert not await store.swap("a", version + 1, 1.0, b"one")
    assert await store.swap("a", version, 1.0, b"one")
    assert await store.load("a") == Versioned(b"one", version + 1)


async def test_a_key_of_another_kind_cannot_be_replaced_and_says_so(link, store):
    await link.ask("RPUSH", link.key("s", "a"), "words")

    assert await store.load("a") == Versioned(), "MGET passes over it"
    with pytest.raises(StoreUnusable):
        await store.swap("a", 0, 1.0, b"one")


async def test_a_server_that_is_away_is_counted_for_each_request_that_asked(own_valkey):
    link = Link(own_valkey.terms())
    store = ValkeySessions(link)
    await link.open()
    own_valkey.kill()

    for _ in range(2):
        with pytest.raises(StoreUnusable):
            await store.load_all(["a", "b"])
    with pytest.raises(StoreUnusable):
        await store.swap("a", 0, 1.0, b"one")

    assert link.blind == {"sessions": 2}
    await link.close()
