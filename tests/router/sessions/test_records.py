"""Records that are changed by steps: none is lost, however a store answers, and whoever else changes them."""

import asyncio

import pytest

from router.contract.stores import StoreUnusable, Versioned
from router.sessions.records import Records
from tests.tools.sessions import SharedSessions, save
from tests.tools.waiting import later


def numbers(store, max_held: int = 8) -> "Records[str, tuple[int, ...]]":
    def read(stored: bytes) -> tuple[int, ...] | None:
        return None if stored == b"junk" else tuple(stored)

    def join(ours: tuple[int, ...], stored: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(sorted({*ours, *stored}))

    return Records(store, (), max_held, str, read, bytes, join)


def add(records, key: str, number: int) -> "asyncio.Future[None] | None":
    records.update(key, lambda held: (*held, number), ())
    return records.store(key, 1.0)


class OwnSessions(SharedSessions):
    """A store that one process uses alone, which answers a write at once."""

    is_shared = False

    def swap(self, key: str, version: int, at: float, state: bytes) -> bool:
        if self.records.get(key, Versioned()).version != version:
            return False
        self.records[key] = Versioned(state, version + 1)
        return True


@pytest.fixture
def store():
    return SharedSessions()


@pytest.fixture(params=[OwnSessions, SharedSessions])
def any_store(request):
    return request.param()


# In every store.


async def test_a_load_that_is_answered_late_does_not_overwrite_what_another_request_left(any_store):
    any_store.records["a"] = Versioned(bytes([1]), 3)
    records = numbers(any_store)
    late = asyncio.gather(records.load("a"))
    await asyncio.sleep(0)

    add(records, "a", 9)
    await late
    await records.close()

    assert await records.load("a") == (1, 9)
    assert any_store.records["a"].state == bytes([1, 9]), "the step is taken again on what was stored"


async def test_a_record_that_takes_the_slot_of_another_has_nothing_of_it_and_its_version_goes_on(any_store):
    await save(any_store, "a", 1.0, bytes([1]))
    records = numbers(any_store)
    old = await records.load("a")

    records.update("a", lambda held: (*held, 5), (4,), replaces=old)
    records.update("a", lambda held: (*held, 6), (4,), replaces=old)
    records.store("a", 1.0)
    await records.close()

    assert any_store.records["a"] == Versioned(bytes([4, 5, 6]), 2)


async def test_a_step_that_changes_nothing_is_not_stored(any_store):
    records = numbers(any_store)
    records.update("a", lambda held: held, ())

    assert records.store("a", 1.0) is None
    assert records.store("never seen", 1.0) is None
    assert any_store.records == {}


async def test_the_longest_unused_is_let_go_and_found_in_the_store(any_store):
    records = numbers(any_store, max_held=3)
    for key in "abcd":
        add(records, key, 1)
    await records.close()

    assert list(records.held) == ["b", "c", "d"]
    assert await records.load("a") == (1,)
    assert len(records.held) == 3


async def test_a_record_that_was_let_go_meanwhile_is_changed_where_it_is_stored(any_store):
    records = numbers(any_store, max_held=1)
    add(records, "a", 1)
    add(records, "b", 1)
    await records.close()
    assert list(records.held) == ["b"]

    add(records, "a", 2)
    await records.close()

    assert any_store.records["a"].state == bytes([1, 2])


async def test_a_value_that_is_not_ours_counts_as_new_and_is_replaced(any_store):
    any_store.records["a"] = Versioned(b"junk", 7)
    records = numbers(any_store)

    assert await records.load("a") == ()
    add(records, "a", 1)
    await records.close()

    assert any_store.records["a"] == Versioned(bytes([1]), 8)


async def test_a_store_of_one_process_has_a_record_at_once_and_is_asked_for_it_once():
    records = numbers(store := OwnSessions())

    assert [add(records, "a", number) for number in range(3)] == [None] * 3
    assert store.records["a"] == Versioned(bytes(range(3)), 3)
    assert await records.load("a") == (0, 1, 2)
    assert store.trips == 0


# In a store that several routers share.


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


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("fault", ["late", "out of order", "twice", "unanswered"])
async def test_however_a_store_answers_no_step_is_lost_and_none_is_confirmed_before_it_is_stored(fault, seed):
    store = SharedSessions(seed, fault)
    routers = [numbers(store, max_held=2) for _ in range(3)]

    async def change(number: int) -> None:
        records, key = routers[number % 3], "ab"[number % 2]
        await records.load(key)
        try:
            await add(records, key, number)
        except StoreUnusable:
            assert fault == "unanswered"
        else:
            assert number in store.records[key].state, "confirmed before it was stored"

    await asyncio.gather(*map(change, range(60)))
    store.fault = "late"
    for records in routers:
        await asyncio.gather(*map(records.load, "ab"))
        await records.close()

    stored = [number for key in "ab" for number in store.records[key].state]
    assert set(stored) == set(range(60))
    assert len(stored) == 60 or fault in ("unanswered", "out of order"), "nobody knows then whether a step was stored before"


async def test_a_change_that_comes_while_another_is_stored_is_confirmed_with_the_next_write(store):
    records = numbers(store)
    first = add(records, "a", 1)
    assert records.store("a", 1.0) is first
    second = add(records, "a", 2)
    assert second is not first
    assert add(records, "a", 3) is second

    await first
    assert store.records["a"].state == bytes([1])
    await second
    assert store.records["a"].state == bytes([1, 2, 3])
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


async def test_a_load_that_is_answered_after_a_write_that_it_did_not_see_does_not_take_it_back():
    class SlowToLoad(SharedSessions):
        go = asyncio.Event()

        def load_all(self, keys):
            found = [self.records.get(key, Versioned()) for key in keys]

            async def answer():
                await self.go.wait()
                return found

            return later(answer())

    records = numbers(SlowToLoad())
    await add(records, "a", 1)
    late = later(records.load("a"))
    await asyncio.sleep(0)

    await add(records, "a", 2)
    SlowToLoad.go.set()

    assert await late == (1, 2)


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


async def test_what_was_not_stored_when_the_store_was_away_is_stored_at_the_close(store):
    records = numbers(store)
    store.is_away = True
    add(records, "a", 1)

    store.is_away = False
    await records.close()

    assert store.records["a"].state == bytes([1])


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
