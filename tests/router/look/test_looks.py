"""Turns that were looked at, the money of a day, and what people made of objections."""

import asyncio

import pytest

from router.contract.caller import LOCAL, SessionKey
from router.contract.combine import ACTED_ON, WAVED_OFF
from router.contract.spending import UNITS_PER_USD
from router.contract.stores import StoreUnusable
from router.look.looks import Looks
from tests.tools.scripted import HandClock

NOON = 1_800_014_400.0
DAY = 86_400.0


def key(number: int):
    return SessionKey(LOCAL, "s"), str(number), 0


def test_a_turn_is_looked_at_once():
    looks = Looks()

    assert looks.begin(key(1))
    assert not looks.begin(key(1))
    assert looks.was_looked_at(key(1))
    assert looks.begin(key(2))


def test_the_memory_of_turns_is_bounded():
    looks = Looks()
    for number in range(5_000):
        looks.begin(key(number))

    assert not looks.was_looked_at(key(0))
    assert looks.was_looked_at(key(4_999))


async def test_looks_at_one_time_hold_no_more_than_a_day_allows():
    looks = Looks(now=HandClock(NOON))

    held = await asyncio.gather(*(looks.hold(30, 100) for _ in range(10)))

    assert sum(budget is not None for budget in held) == 3


async def test_what_a_look_did_not_cost_is_there_for_the_next():
    looks = Looks(now=HandClock(NOON))
    budget = await looks.hold(100, 100)
    assert await looks.hold(1, 100) is None

    budget.settle(100, 40)

    assert await looks.hold(61, 100) is None
    assert await looks.hold(60, 100) is not None


async def test_the_ledger_tells_what_was_spent_before_a_restart():
    looks = Looks(lambda span: 90 if span.begins <= NOON < span.ends else 0, now=HandClock(NOON))

    assert await looks.hold(11, 100) is None
    assert await looks.hold(10, 100) is not None


async def test_another_day_has_its_own_money_and_a_look_counts_for_the_day_it_began_in():
    clock = HandClock(NOON)
    looks = Looks(now=clock)
    first = await looks.hold(100, 100)
    clock.now += DAY

    second = await looks.hold(100, 100)
    first.settle(100, 100)

    assert second is not None
    assert second.spent == 0


async def test_nothing_is_held_where_the_ledger_cannot_be_read():
    def fail(span):
        raise StoreUnusable("away")

    with pytest.raises(StoreUnusable):
        await Looks(fail, now=HandClock(NOON)).hold(1, UNITS_PER_USD)


def test_ten_objections_waved_off_in_a_row_are_noticed_until_one_is_acted_on():
    looks = Looks(now=HandClock(NOON))
    for _ in range(9):
        looks.note_fate(WAVED_OFF)
    looks.note_fate(ACTED_ON)
    for _ in range(9):
        looks.note_fate(WAVED_OFF)
    assert looks.find_troubles() == []

    looks.note_fate(WAVED_OFF)

    (notice,) = looks.find_troubles()
    assert notice.text == "the last 10 objections of deep were waved off"
    assert "look: off" in notice.hint
    looks.note_fate(WAVED_OFF)
    assert [each.since for each in looks.find_troubles()] == [notice.since]
    looks.note_fate(ACTED_ON)
    assert looks.find_troubles() == []


def test_what_people_did_lately_tells_how_often_a_look_is_right():
    looks = Looks()
    for _ in range(60):
        looks.note_fate(WAVED_OFF)
    unwanted = looks.right_share
    for _ in range(50):
        looks.note_fate(ACTED_ON)

    assert unwanted < 0.05
    assert looks.right_share > 0.9
