"""Refusing requests while memory is short."""

import os
from dataclasses import replace

import pytest
from msgspec import structs

from router.contract.caller import LOCAL
from router.contract.errors import Unavailable
from router.edge.admission import Admission
from router.edge.shedding import MemoryWatch, read_resident_bytes
from tests.tools.edge import FakeRoad

MIB = 1 << 20


class Memory:
    """A process of some size, of which some can be given back."""

    def __init__(self, limit):
        road = FakeRoad()
        road.plan = replace(road.plan, limits=structs.replace(road.plan.limits, max_memory_mb=limit))
        self.road, self.admission, self.now = road, Admission(road), 0.0
        self.used, self.free, self.given_back, self.measured = 0, 0, 0, 0
        self.watch = MemoryWatch(self.admission, measure=self._measure, give_back=self._give_back, clock=lambda: self.now)

    def _measure(self):
        self.measured += 1
        return self.used * MIB

    def _give_back(self):
        self.given_back += 1
        self.used, self.free = self.used - self.free, 0

    async def look(self, used, free=0):
        self.used, self.free = used, free
        await self.watch.look()
        self.now += 0.5

    def is_open(self):
        try:
            self.admission.take_slot(self.admission.limits, LOCAL)
        except Unavailable:
            return False
        self.admission.release(LOCAL)
        return True


@pytest.fixture
def memory():
    return Memory(200)


async def test_over_the_limit_no_slot_is_given_and_held_ones_can_be_released(memory):
    memory.admission.take_slot(memory.admission.limits, LOCAL)

    await memory.look(201)

    with pytest.raises(Unavailable) as refused:
        memory.admission.take_slot(memory.admission.limits, LOCAL)
    assert (refused.value.status, refused.value.retry_after_seconds) == (503, 5)
    assert memory.admission.in_flight == 1
    memory.admission.release(LOCAL)
    assert memory.admission.in_flight == 0


async def test_free_memory_is_given_back_first_and_that_may_be_enough(memory, listen):
    read_log = listen()

    await memory.look(250, free=100)

    assert (memory.given_back, memory.is_open(), read_log()) == (1, True, [])


async def test_requests_are_accepted_again_only_well_below_the_limit(memory):
    seen = []
    for used in (199, 201, 199, 181, 179, 199):
        await memory.look(used)
        seen.append(memory.is_open())

    assert seen == [True, False, False, False, True, True]


async def test_each_crossing_is_logged_once(memory, listen):
    read_log = listen()

    for used in (201, 202, 203, 100, 100, 220):
        await memory.look(used)

    assert [(line["event"], line["used_mb"]) for line in read_log()] == [
        ("memory.exceeded", 201),
        ("memory.recovered", 100),
        ("memory.exceeded", 220),
    ]


async def test_memory_is_given_back_every_five_seconds_while_it_is_short_and_never_otherwise(memory):
    await memory.look(100)
    assert memory.given_back == 0

    for _ in range(20):
        await memory.look(201)

    assert memory.given_back == 2


async def test_without_a_limit_nothing_is_measured(listen):
    memory, read_log = Memory(None), listen()

    await memory.look(100_000)

    assert (memory.is_open(), memory.measured, read_log()) == (True, 0, [])


async def test_a_reload_that_removes_the_limit_ends_the_refusals(memory):
    await memory.look(300)
    assert not memory.is_open()
    memory.road.plan = replace(memory.road.plan, limits=structs.replace(memory.road.plan.limits, max_memory_mb=None))

    await memory.look(300)

    assert memory.is_open()


def test_the_memory_of_this_process_is_read():
    resident = read_resident_bytes()

    assert 10 * MIB < resident < os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
