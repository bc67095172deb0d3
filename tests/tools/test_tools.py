"""The jumping clock, covering cases, and CPU time as a measure."""

import asyncio
import itertools
import time

import pytest

from router.dispatch.relay import Relay
from tests.router.dispatch.relays import make_relay
from tests.tools.cases import covering
from tests.tools.loop_clock import JumpingLoop, StuckLoop, jumping_clock, seconds_passed
from tests.tools.work import cost_ratio, cpu_seconds


@jumping_clock
async def test_a_wait_of_an_hour_ends_with_its_hour():
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.Event().wait(), 3_600)

    assert seconds_passed() == 3_600


@jumping_clock
async def test_a_year_passes_without_waiting():
    await asyncio.sleep(365 * 86_400)

    assert seconds_passed() == 365 * 86_400


@jumping_clock
async def test_timers_run_in_the_order_of_their_times_each_at_its_own():
    loop, seen = asyncio.get_running_loop(), []
    for delay in (3.0, 0.1, 2.5):
        loop.call_later(delay, lambda delay=delay: seen.append((delay, loop.time())))

    await asyncio.sleep(10)

    assert seen == [(0.1, 0.1), (2.5, 2.5), (3.0, 3.0)]


@jumping_clock
async def test_what_is_ready_runs_before_the_clock_moves():
    loop, seen = asyncio.get_running_loop(), []

    async def work() -> None:
        for _ in range(100):
            await asyncio.sleep(0)
            seen.append(loop.time())

    async with asyncio.timeout(0.001):
        await work()

    assert seen == [0.0] * 100


@jumping_clock
async def test_a_timer_that_was_cancelled_does_not_move_the_clock():
    asyncio.get_running_loop().call_later(5, pytest.fail, "a cancelled timer ran").cancel()

    await asyncio.sleep(7)

    assert seconds_passed() == 7


@jumping_clock
async def test_the_clock_stands_while_a_thread_works():
    async with asyncio.timeout(0.01):
        await asyncio.to_thread(time.sleep, 0.05)

    assert seconds_passed() == 0


def test_a_wait_that_nothing_can_end_is_said_at_once():
    async def forever() -> None:
        await asyncio.get_running_loop().create_future()

    loop = JumpingLoop()
    task = loop.create_task(forever())

    with pytest.raises(StuckLoop, match="no timer is set"):
        loop.run_until_complete(task)

    task.cancel()
    loop.run_until_complete(asyncio.gather(task, return_exceptions=True))
    loop.close()


FRAME = b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n'
HEARTBEAT = b": heartbeat\n\n"


class Caller:
    def __init__(self) -> None:
        self.got: list[tuple[float, bytes]] = []

    def feed_from(self, flow) -> None: ...
    def start(self, status, headers) -> None: ...
    def end(self) -> None: ...
    def fail(self, error) -> None: ...

    def write(self, data: bytes) -> None:
        self.got.append((seconds_passed(), data))


def relay_to(caller: Caller, *, heartbeat_seconds: float) -> Relay:
    relay = make_relay(caller, heartbeat_seconds=heartbeat_seconds)
    relay.start(200, (("content-type", "text/event-stream"),))
    return relay


@jumping_clock
async def test_an_example_a_stream_that_is_silent_for_half_a_minute_gets_a_heartbeat_every_ten_seconds():
    caller = Caller()
    relay = relay_to(caller, heartbeat_seconds=10)

    relay.write(FRAME)
    await asyncio.sleep(35)
    relay.close()
    await asyncio.sleep(60)

    assert caller.got == [(0, FRAME), (10, HEARTBEAT), (20, HEARTBEAT), (30, HEARTBEAT)]


AXES = ("abc", "defgh", [1, 2], [True, False])


@pytest.mark.parametrize("strength", [1, 2, 3, 4])
def test_every_few_values_of_different_axes_meet_in_some_row(strength):
    rows = covering(*AXES, strength=strength)

    for group in itertools.combinations(range(len(AXES)), strength):
        met = {tuple(row[axis] for axis in group) for row in rows}
        assert met == set(itertools.product(*(AXES[axis] for axis in group)))


def test_pairs_take_far_fewer_rows_than_the_product():
    assert len(covering(*AXES)) <= 20
    assert covering(*AXES) == covering(*AXES)
    assert len(set(covering(*AXES, strength=4))) == 60


def count(steps: int) -> None:
    for _ in range(steps):
        pass


def test_eight_times_the_input_costs_a_linear_loop_about_eight_times_and_a_quadratic_one_far_more():
    assert 3 < cost_ratio(lambda: count(320_000), lambda: count(40_000)) < 24
    assert cost_ratio(lambda: count(800**2), lambda: count(100**2)) > 24


def test_waiting_is_not_work():
    assert cpu_seconds(lambda: time.sleep(0.02), repeats=3) < 0.01
