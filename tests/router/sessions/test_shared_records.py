"""Records that other routers change too: always asked for, never overwritten, and still there while nobody can be asked."""

import asyncio

import pytest

from router.contract.stores import StoreUnusable, Versioned
from router.sessions.shared_records import SharedRecords
from tests.tools.sessions import SharedSessions


def numbers(store, max_held: int = 8) -> "SharedRecords[str, tuple[int, ...]]":
    def read(stored: bytes) -> tuple[int, ...] | None:
        return None if stored == b"junk" else tuple(stored)

    def join(ours: tuple[int, ...], stored: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(sorted({*ours, *stored}))

    return SharedRecords(store, (), max_held, str, read, bytes, join)


def add(records, key: str, number: int) -> "asyncio.Future[None] | None":
    records.update(key, lambda held: (*held, number), ())
    return records.store(key, 1.0)


@pytest.fixture
def store():
    return SharedSessions()


async def test_what_another_router_stored_is_seen_by_the_next_load(store):
    one, other = numbers(store), numbers(store)
    await add(one, "a", 1)
    assert await other.load("a") == (1,)

    await add(one, "a", 2)

    assert await other.load("a") == (1, 2)


async def test_several_records_are_asked_for_in_one_trip(store):
    records = numbers(store)
    await asyncio.gather(*(add(numbers(store), key, number) for number, key in enumerate("abc")))
    before = store.trips

    found = await records.load_all(("a", "x", "c"))

    assert {key: held.value for key, held in found.items()} == {"a": (0,), "c": (2,)}
    assert store.trips == before + 1


async def test_of_many_changes_by_two_routers_none_is_lost_and_each_is_confirmed(store):
    routers = numbers(store), numbers(store)

    async def change(number: int) -> None:
        records = routers[number % 2]
        await records.load("a")
        await add(records, "a", number)
        assert number in store.records["a"].state, "confirmed before it was stored"

    await asyncio.gather(*map(change, range(40)))

    assert sorted(store.records["a"].state) == list(range(40))


async def test_a_change_that_comes_while_another_is_stored_is_confirmed_with_the_next_write(store):
    records = numbers(store)
    first = add(records, "a", 1)
    records.update("a", lambda held: (*held, 2), ())
    second = records.store("a", 1.0)
    assert second is not first
    assert records.store("a", 1.0) is second

    await first
    assert store.records["a"].state == bytes([1])
    await second
    assert store.records["a"].state == bytes([1, 2])


async def test_a_change_is_confirmed_by_the_write_that_is_on_its_way_with_it(store):
    records = numbers(store)

    assert add(records, "a", 1) is records.store("a", 2.0)
    await records.close()
    assert records.store("a", 3.0) is None, "there is nothing left to store"


async def test_a_load_that_the_store_answered_before_a_write_does_not_take_it_back(store):
    records = numbers(store)
    await add(records, "a", 1)
    late = asyncio.gather(records.load("a"))
    await asyncio.sleep(0)

    add(records, "a", 2)

    assert (await late)[0] in ((1,), (1, 2))
    await records.close()
    assert await records.load("a") == (1, 2)
    assert store.records["a"].state == bytes([1, 2])


async def test_a_store_that_is_away_leaves_what_is_at_hand_and_the_write_fails(store):
    records = numbers(store)
    await add(records, "a", 1)
    store.is_away = True

    assert await records.load("a") == (1,)
    assert await records.load("never seen") is None
    written = add(records, "a", 2)
    with pytest.raises(StoreUnusable):
        await written
    assert await records.load("a") == (1, 2)


async def test_a_store_that_goes_away_in_the_middle_of_a_write_fails_it_and_the_next_one(store):
    records = numbers(store)
    first, second = add(records, "a", 1), add(records, "a", 2)
    store.is_away = True

    found = await asyncio.gather(first, second, return_exceptions=True)

    assert [type(error) for error in found] == [StoreUnusable, StoreUnusable]


async def test_what_routers_did_alone_is_joined_when_the_store_is_back(store):
    routers = numbers(store), numbers(store)
    await add(routers[0], "a", 1)
    await routers[1].load("a")
    store.is_away = True
    for number in range(20):
        add(routers[number % 2], "a", 10 + number)
    assert [len(records.held["a"].steps) for records in routers] == [1, 1], "requests are not kept for that"
    store.is_away = False

    for records in routers:
        await records.load("a")
        await add(records, "a", 99)

    assert {1, 99, *range(10, 30)} == set(store.records["a"].state)


async def test_what_a_store_lost_is_stored_again_by_who_remembers_it(store):
    records = numbers(store)
    await add(records, "a", 1)
    store.records.clear()

    assert await records.load("a") == (1,)
    await add(records, "a", 2)

    assert store.records["a"].state == bytes([1, 2])


async def test_a_record_that_begins_again_is_not_taken_for_the_one_that_another_router_remembers(store):
    records = numbers(store)
    await add(records, "a", 1)
    store.records.clear()
    await add(numbers(store), "a", 9)

    assert await records.load("a") == (9,)


async def test_a_value_that_is_not_ours_counts_as_new_and_is_replaced(store):
    store.records["a"] = Versioned(b"junk", 7)
    records = numbers(store)

    assert await records.load("a") == ()
    await add(records, "a", 1)

    assert store.records["a"] == Versioned(bytes([1]), 8)


async def test_a_record_that_was_let_go_meanwhile_is_changed_where_it_is_stored(store):
    records = numbers(store, max_held=1)
    await add(records, "a", 1)
    await add(records, "b", 1)
    assert list(records.held) == ["b"]

    await add(records, "a", 2)

    assert store.records["a"].state == bytes([1, 2])
