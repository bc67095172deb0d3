"""Requests that come at about the same time, and take their steps together."""

import asyncio

from router.loop.together import _MAX_WAITING, Gathering, Outbox


async def test_several_that_let_each_other_catch_up_take_every_step_together():
    steps = []

    async def work(name: str) -> None:
        for number in range(3):
            steps.append(f"{name}{number}")
            await Gathering.catch_up()

    await asyncio.gather(work("a"), work("b"))

    assert steps == ["a0", "b0", "a1", "b1", "a2", "b2"]


async def test_who_comes_a_turn_later_goes_on_with_who_waits_already():
    gathering, steps = Gathering(), []

    async def come(name: str, turns: int) -> None:
        for _ in range(turns):
            await asyncio.sleep(0)
        steps.append(f"{name} comes")
        await gathering.join()
        steps.append(f"{name} decides")
        await gathering.catch_up()
        steps.append(f"{name} goes")

    await asyncio.gather(come("a", 0), come("b", 1), come("c", 2))

    assert steps == [f"{name} {step}" for step in ("comes", "decides", "goes") for name in "abc"]


async def test_a_lone_one_goes_on_after_a_turn_that_brought_nobody():
    gathering, turns = Gathering(), 0
    place = gathering.join()

    while not place.done():
        await asyncio.sleep(0)
        turns += 1

    assert turns == 2


async def test_one_that_is_cut_off_takes_nobody_with_it():
    gathering = Gathering()
    leaving, staying = gathering.join(), gathering.join()

    leaving.cancel()
    await asyncio.wait_for(staying, 30)

    assert leaving.cancelled()
    await asyncio.wait_for(gathering.join(), 30)


async def test_where_somebody_comes_at_every_turn_it_is_not_waited_for_ever():
    gathering = Gathering()
    first = gathering.join()
    turns = 0

    while not first.done():
        gathering.join()
        await asyncio.sleep(0)
        turns += 1

    assert turns <= _MAX_WAITING


async def test_an_outbox_sends_the_first_at_once_and_the_others_in_their_order_when_the_turn_is_over():
    outbox, sent = Outbox(), []

    for number in range(4):
        outbox.put(sent.append, number)
    before = list(sent)
    await asyncio.sleep(0)

    assert (before, sent) == ([0], [0, 1, 2, 3])


async def test_what_is_put_while_others_are_sent_waits_behind_them():
    outbox, sent = Outbox(), []
    outbox.put(sent.append, 0)
    outbox.put(lambda number: (sent.append(number), outbox.put(sent.append, 3)), 1)
    outbox.put(sent.append, 2)

    await asyncio.sleep(0)

    assert sent == [0, 1, 2, 3]


async def test_one_that_cannot_be_sent_costs_no_other_and_is_told():
    outbox, sent, told = Outbox(), [], []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: told.append(context["exception"]))

    def fail(_: object) -> None:
        raise ValueError("broken")

    outbox.put(sent.append, 0)
    outbox.put(fail, None)
    outbox.put(sent.append, 1)
    await asyncio.sleep(0)
    outbox.put(sent.append, 2)

    assert sent == [0, 1, 2]
    assert [str(error) for error in told] == ["broken"]


async def test_an_outbox_in_plain_mode_sends_each_at_once():
    outbox, sent = Outbox(Gathering(plain=True)), []

    for number in range(4):
        outbox.put(sent.append, number)

    assert sent == [0, 1, 2, 3]


async def test_what_a_lone_request_sends_leaves_at_once_but_not_before_what_waits():
    gathering, sent = Gathering(), []
    outbox = Outbox(gathering)
    for number in range(3):
        outbox.put(sent.append, number)
    gathering.count(1)

    outbox.put(sent.append, 3)
    before = list(sent)
    await asyncio.sleep(0)
    for number in range(4, 7):
        outbox.put(sent.append, number)

    assert (before, sent) == ([0], [0, 1, 2, 3, 4, 5, 6])
