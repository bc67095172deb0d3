"""Responses in memory: each for its caller, and none for ever."""

import asyncio

import pytest

from router.contract.caller import Caller
from router.contract.request import Transcript
from router.contract.stores import StoredResponse
from router.stores.memory.responses import MemoryResponses
from tests.tools.waiting import later, some_turns


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


ANN, BOB = Caller("ann"), Caller("bob")


def make(name: str = "resp_1", caller: Caller = ANN, at: float = 1_000.0, text: str = "hi") -> StoredResponse:
    return StoredResponse.write(caller, "spark", at, Transcript([text], [""]), {"id": name, "output": []})


class Disk:
    """A store behind the memory that only remembers what it was given."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str], StoredResponse] = {}
        self.asked = 0

    def keep(self, transcript: StoredResponse, *, for_long: bool) -> None:
        self.kept[transcript.id, transcript.caller] = transcript

    async def find(self, response_id: str, caller: Caller) -> StoredResponse | None:
        self.asked += 1
        return self.kept.get((response_id, caller))

    async def forget(self, response_id: str, caller: Caller) -> bool:
        return self.kept.pop((response_id, caller), None) is not None

    async def is_denied(self, response_id: str, caller: Caller) -> bool:
        return any(name == response_id and owner != caller for name, owner in self.kept)

    async def close(self) -> None: ...


async def test_a_transcript_is_forgotten_after_an_hour_and_its_owner_is_not():
    clock = Clock()
    store = MemoryResponses(clock=clock)
    store.keep(make(), for_long=False)

    clock.now += 3_599
    assert await store.find("resp_1", ANN) is not None
    clock.now += 1

    assert await store.find("resp_1", ANN) is None
    assert await store.is_denied("resp_1", BOB)


async def test_the_oldest_goes_when_there_are_too_many_or_they_are_too_large():
    by_count = MemoryResponses(max_responses=2, clock=Clock())
    by_size = MemoryResponses(max_bytes=2_500, clock=Clock())
    for number in range(3):
        by_count.keep(make(f"resp_{number}"), for_long=False)
        by_size.keep(make(f"resp_{number}", text="x" * 1_000), for_long=False)

    for store in (by_count, by_size):
        found = [await store.find(f"resp_{number}", ANN) is not None for number in range(3)]
        assert found == [False, True, True]


async def test_ids_are_forgotten_of_the_caller_that_has_most_of_them():
    store = MemoryResponses(max_responses=4, max_owners=10, clock=Clock())
    store.keep(make("bobs", BOB), for_long=False)
    store.keep(make("bobs_deleted", BOB), for_long=False)
    await store.forget("bobs_deleted", BOB)

    for number in range(50):
        store.keep(make(f"resp_{number}"), for_long=False)
        await store.forget(f"resp_{number}", ANN)

    assert await store.is_denied("bobs", ANN)
    assert await store.is_denied("bobs_deleted", BOB)
    assert [await store.is_denied(f"resp_{number}", BOB) for number in (0, 41, 42, 49)] == [False, False, True, True]


@pytest.mark.parametrize("bounds", [{"max_responses": 4}, {"max_bytes": 4 * len(make().raw)}], ids=["count", "bytes"])
async def test_a_full_store_evicts_the_oldest_of_the_caller_that_has_most(bounds):
    store = MemoryResponses(clock=Clock(), **bounds)
    store.keep(make("resp_b", BOB), for_long=False)

    for number in range(9):
        store.keep(make(f"resp_{number}"), for_long=False)
    store.keep(make("resp_c", BOB), for_long=False)

    assert [kept.id for kept in store.list_kept()] == ["resp_b", "resp_7", "resp_8", "resp_c"]


async def test_one_that_is_larger_than_the_whole_bound_is_not_kept():
    store = MemoryResponses(max_bytes=500, clock=Clock())

    store.keep(make(text="x" * 1_000), for_long=False)

    assert await store.find("resp_1", ANN) is None


async def test_keeping_an_id_again_replaces_it_and_counts_its_bytes_once():
    store = MemoryResponses(max_bytes=2_500, clock=Clock())
    store.keep(make("resp_0", text="x" * 1_000), for_long=False)

    for _ in range(5):
        store.keep(make("resp_1", text="x" * 1_000), for_long=False)

    assert await store.find("resp_0", ANN) is not None


async def test_only_what_is_to_last_goes_behind_and_the_disk_is_asked_on_a_miss_only():
    disk, clock = Disk(), Clock()
    store = MemoryResponses(disk, clock=clock)
    store.keep(make("resp_long"), for_long=True)
    store.keep(make("resp_short"), for_long=False)

    await store.find("resp_long", ANN)
    assert (disk.asked, [name for name, _ in disk.kept]) == (0, ["resp_long"])
    clock.now += 4_000

    assert await store.find("resp_long", ANN) is not None
    assert await store.find("resp_short", ANN) is None


async def test_a_deleted_transcript_is_gone_from_everywhere_and_stays_withheld():
    disk = Disk()
    store = MemoryResponses(disk, clock=Clock())
    store.keep(make(), for_long=True)

    assert await store.forget("resp_1", ANN)

    assert not disk.kept
    assert await store.find("resp_1", ANN) is None
    assert await store.is_denied("resp_1", ANN)
    assert not await store.forget("resp_1", ANN)


class SlowDisk(Disk):
    """Answers when it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()

    async def find(self, response_id: str, caller: Caller) -> StoredResponse | None:
        found = await super().find(response_id, caller)
        await self.gate.wait()
        return found


async def test_a_response_that_is_deleted_while_the_disk_is_read_is_not_found():
    disk = SlowDisk()
    disk.keep(make(), for_long=True)
    store = MemoryResponses(disk)
    finding = later(store.find("resp_1", ANN))
    await some_turns()

    await store.forget("resp_1", ANN)
    disk.gate.set()

    assert await finding is None
