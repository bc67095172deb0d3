"""Answers in memory: how long, how many, and that nothing of them is left after that."""

import asyncio

import pytest

from router.contract.caller import Caller
from router.responses.kept_answers import KeptAnswer, KeptAnswers

pytestmark = pytest.mark.jumping_clock
ANN, BOB = Caller("ann"), Caller("bob")


def answer(name: str = "req_1", body: bytes = b"{}") -> KeptAnswer:
    return KeptAnswer(name, b"digest", (("content-type", "application/json"),), body)


def clocked(**more) -> KeptAnswers:
    return KeptAnswers(clock=asyncio.get_running_loop().time, **more)


async def test_an_answer_is_found_in_its_place_and_nowhere_else():
    kept = clocked()
    kept.keep(b"a", answer(), ANN)

    assert kept.find(b"a").request_id == "req_1"
    assert kept.find(b"b") is None


async def test_after_ten_minutes_it_is_gone_though_nobody_asks():
    kept = clocked()
    kept.keep(b"a", answer(), ANN)
    await asyncio.sleep(599)
    assert kept.find(b"a") is not None

    await asyncio.sleep(2)

    assert (kept.find(b"a"), kept.kept_bytes) == (None, 0)


async def test_answers_are_listed_with_the_time_that_each_has_left_while_others_go():
    kept = clocked()
    for slot in (b"a", b"b", b"c"):
        kept.keep(slot, answer(), ANN)
        await asyncio.sleep(100)

    listed = kept.list_kept()
    first = next(listed)
    await asyncio.sleep(450)  # the second is gone meanwhile

    assert [(slot, left) for slot, _, left in (first, *listed)] == [(b"a", 300), (b"c", 50)]


async def test_each_answer_has_its_own_ten_minutes():
    kept = clocked()
    kept.keep(b"a", answer(), ANN)
    await asyncio.sleep(300)
    kept.keep(b"b", answer(), ANN)
    await asyncio.sleep(301)
    assert (kept.find(b"a"), kept.kept_bytes) == (None, answer().size)

    await asyncio.sleep(300)

    assert kept.kept_bytes == 0


async def test_the_oldest_make_room():
    kept = clocked(max_bytes=3 * answer(body=b"x" * 1_000).size)

    for number in range(5):
        kept.keep(b"%d" % number, answer(f"req_{number}", b"x" * 1_000), ANN)

    assert [number for number in range(5) if kept.find(b"%d" % number)] == [2, 3, 4]
    assert kept.kept_bytes == 3 * answer(body=b"x" * 1_000).size
    kept.close()


async def test_a_place_holds_one_answer_the_newest():
    kept = clocked()
    kept.keep(b"a", answer("req_1"), ANN)
    kept.keep(b"a", answer("req_2"), ANN)

    assert kept.find(b"a").request_id == "req_2"
    assert kept.kept_bytes == answer().size
    kept.close()


async def test_closing_forgets_everything_and_leaves_no_timer():
    kept, loop = clocked(), asyncio.get_running_loop()
    timers, set_timer = [], loop.call_later
    loop.call_later = lambda *given: timers.append(handle := set_timer(*given)) or handle
    kept.keep(b"a", answer(), ANN)

    kept.close()

    assert (kept.find(b"a"), kept.kept_bytes) == (None, 0)
    assert all(timer.cancelled() for timer in timers)
    assert timers


def test_what_was_said_is_not_shown():
    assert "secret words" not in repr(answer(body=b"secret words"))


async def test_a_full_store_drops_the_oldest_of_the_caller_that_has_most():
    kept = clocked(max_bytes=4 * answer().size)
    kept.keep(b"bob", answer(), BOB)
    for number in range(9):
        kept.keep(b"%d" % number, answer(), ANN)

    assert kept.find(b"bob") is not None
    assert [slot for slot, _, _ in kept.list_kept()] == [b"bob", b"6", b"7", b"8"]
