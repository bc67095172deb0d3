"""Records that are changed by steps: none is lost, however late a store answers."""

import asyncio

import pytest

from router.contract.stores import Versioned
from router.sessions.records import Records
from tests.tools.sessions import SlowSessions, save


def numbers(store, max_held: int = 8) -> "Records[str, tuple[int, ...]]":
    def read(stored: bytes) -> tuple[int, ...] | None:
        return None if stored == b"junk" else tuple(stored)

    return Records(store, (), max_held, str, read, bytes)


def add(records, key: str, number: int) -> None:
    records.update(key, lambda held: (*held, number), ())
    records.store(key, 1.0)


class HeldStore(SlowSessions):
    """Answers once it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.go = asyncio.Event()

    async def _wait(self) -> None:
        await self.go.wait()


async def test_a_load_that_is_answered_late_does_not_overwrite_what_another_request_left():
    store = HeldStore()
    store.records["a"] = Versioned(bytes([1]), 3)
    records = numbers(store)
    late = asyncio.gather(records.load("a"))
    await asyncio.sleep(0)

    records.update("a", lambda held: (*held, 9), ())
    store.go.set()

    assert await late == [(9,)]
    assert await records.load("a") == (9,)
    records.store("a", 1.0)
    await records.close()
    assert store.records["a"] == Versioned(bytes([1, 9]), 4), "the step is taken again on what was stored"


@pytest.fixture
def store():
    return SlowSessions()


async def test_steps_are_taken_again_on_a_version_that_another_process_stored(store):
    one, other = numbers(store), numbers(store)
    await asyncio.gather(one.load("a"), other.load("a"))
    for number in range(20):
        add((one, other)[number % 2], "a", number)

    await asyncio.gather(one.close(), other.close())

    assert sorted(store.records["a"].state) == list(range(20))


async def test_steps_that_are_taken_while_the_record_is_being_stored_are_stored_next():
    store = HeldStore()
    records = numbers(store)
    add(records, "a", 1)
    closing = asyncio.gather(records.close())
    await asyncio.sleep(0)

    records.update("a", lambda held: (*held, 2), ())
    store.go.set()
    await closing

    assert store.records["a"] == Versioned(bytes([1, 2]), 2)


async def test_changes_that_come_while_the_record_is_being_stored_are_stored_together(store):
    records = numbers(store)
    for number in range(5):
        add(records, "a", number)

    await records.close()

    assert store.records["a"] == Versioned(bytes(range(5)), 2)


async def test_a_store_that_answers_at_once_has_the_record_at_once():
    class Quick(SlowSessions):
        def swap(self, key: str, version: int, at: float, state: bytes) -> bool:
            self.records[key] = Versioned(state, version + 1)
            return True

    store = Quick()
    records = numbers(store)
    await records.load("a")
    for number in range(3):
        add(records, "a", number)

    assert store.records["a"] == Versioned(bytes(range(3)), 3)


async def test_what_was_being_stored_when_its_task_was_cancelled_is_stored_at_the_close():
    store = HeldStore()
    records = numbers(store)
    add(records, "a", 1)
    (task,) = records._storing
    task.cancel()

    store.go.set()
    await records.close()

    assert store.records["a"].state == bytes([1])


async def test_a_record_that_takes_the_slot_of_another_has_nothing_of_it_and_its_version_goes_on(store):
    await save(store, "a", 1.0, bytes([1]))
    records = numbers(store)
    old = await records.load("a")

    records.update("a", lambda held: (*held, 5), (4,), replaces=old)
    records.update("a", lambda held: (*held, 6), (4,), replaces=old)
    records.store("a", 1.0)
    await records.close()

    assert store.records["a"] == Versioned(bytes([4, 5, 6]), 2)


async def test_a_step_that_changes_nothing_is_not_stored(store):
    records = numbers(store)
    records.update("a", lambda held: held, ())
    records.store("a", 1.0)
    records.store("never seen", 1.0)

    await records.close()

    assert store.records == {}


async def test_the_longest_unused_is_let_go_and_found_in_the_store(store):
    records = numbers(store, max_held=3)
    for key in "abcd":
        add(records, key, 1)
    await records.close()

    assert list(records.held) == ["b", "c", "d"]
    assert await records.load("a") == (1,)
    assert len(records.held) == 3


async def test_junk_in_the_store_is_no_record_and_is_replaced(store):
    await save(store, "a", 1.0, b"junk")
    records = numbers(store)
    assert await records.load("a") is None

    add(records, "a", 1)
    await records.close()

    assert store.records["a"] == Versioned(bytes([1]), 2)


@pytest.mark.parametrize("seed", range(8))
async def test_in_any_order_of_answers_no_step_of_three_processes_is_lost(seed):
    store = SlowSessions(seed)
    processes = [numbers(store, max_held=2) for _ in range(3)]

    async def work(records, number: int) -> None:
        key = "abc"[number % 3]
        await records.load(key)
        add(records, key, number)
        await asyncio.sleep(0)

    await asyncio.gather(
        *(work(records, index + 3 * number) for number in range(20) for index, records in enumerate(processes))
    )
    await asyncio.gather(*(records.close() for records in processes))

    stored = [number for key in "abc" for number in store.records[key].state]
    assert sorted(stored) == list(range(60))
