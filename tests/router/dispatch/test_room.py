"""Before a call to a target that serves few at once."""

import pytest

from router.contract.errors import TiersBusy, Unavailable
from router.contract.exchange import CancelReason
from router.contract.signals import Turn
from router.contract.target import Quota
from router.contract.words import Dialect, Operation, Tier, TurnKind
from router.dispatch.context import DispatchContext
from router.dispatch.live.statistics import LiveStatistics
from router.dispatch.room import find_room, is_side_request
from tests.tools.exchanges import make_decision, make_exchange
from tests.tools.later import later
from tests.tools.loop_clock import jumping_clock, seconds_passed
from tests.tools.sinks import RecordingSink
from tests.tools.values import ask, make_target, make_view

SPARK, SAGE = make_target(), make_target("sage", Tier.DEEP)


def decided(kind=TurnKind.ASK):
    return make_decision(targets=("spark",), spill=("sage",), turn=Turn(kind, "s", "test", "hello"))


def live_with(most, *begun_at):
    """A target of which it is known how many calls fit, with these streams under way."""
    live = LiveStatistics()
    known = live._of(SPARK)
    known.slots.most, known.slots._claimed_at = most, 0.0
    for number, at in enumerate(begun_at):
        known.open[f"{number}"] = known.slots.begun[f"{number}"] = at
    return live


async def look(live, decision, *, target=SPARK, worth=1_000.0, exchange=None):
    context = DispatchContext(exchange or make_exchange(live), decision, RecordingSink(), 1 << 20, seconds_passed, live=live)
    await find_room(context, ask(), target, live, lambda _: worth)
    return context


@pytest.mark.parametrize(
    ("kind", "operation", "dialect", "is_one"),
    [
        (TurnKind.SIDE, Operation.CREATE, Dialect.CHAT, True),
        (TurnKind.ASK, Operation.CREATE, Dialect.CHAT, False),
        (TurnKind.TOOL_LOOP, Operation.CREATE, Dialect.CHAT, False),
        (TurnKind.SIDE, Operation.COUNT_TOKENS, Dialect.MESSAGES, False),
        (TurnKind.SIDE, Operation.CREATE, Dialect.COMPLETIONS, False),
    ],
)
def test_titles_and_the_like_are_asked_aside_and_what_nobody_waits_a_slot_for_is_not(kind, operation, dialect, is_one):
    body = {"prompt": "x"} if dialect is Dialect.COMPLETIONS else {"messages": [{"role": "user", "content": "x"}]}
    view = make_view(body, dialect, operation=operation)

    assert is_side_request(decided(kind), view) is is_one


@jumping_clock
async def test_a_side_request_leaves_the_last_slot_free_for_a_moment():
    context = await look(live_with(1), decided(TurnKind.SIDE))

    assert seconds_passed() == pytest.approx(0.3)
    assert context.first_call_at == 0.0  # the wait is not counted as our own time


@pytest.mark.parametrize(("most", "kind"), [(0, TurnKind.SIDE), (2, TurnKind.SIDE), (1, TurnKind.ASK)])
def test_nobody_else_waits(most, kind):
    @jumping_clock
    async def run():
        await look(live_with(most), decided(kind))

        assert seconds_passed() == 0.0

    run()


@jumping_clock
async def test_where_the_config_says_how_many_fit_the_queue_lets_the_turn_go_first():
    await look(live_with(1), decided(TurnKind.SIDE), target=make_target(quota=Quota(in_flight=1)))

    assert seconds_passed() == 0.0


@jumping_clock
async def test_a_request_goes_elsewhere_once_the_wait_for_a_slot_is_not_worth_it():
    live = live_with(1, 0.0)
    wait = live.wait_for_slot(SPARK, 0.0)

    await look(live, decided(), worth=wait + 0.1)
    with pytest.raises(TiersBusy, match="spark would keep you waiting 1 s"):
        await look(live, decided(), worth=wait - 0.1)


@jumping_clock
async def test_a_caller_who_waits_a_moment_is_told_that_the_router_stops():
    live = live_with(1)
    exchange = make_exchange(live)
    task = later(look(live, decided(TurnKind.SIDE), exchange=exchange))
    exchange.run_by(task)
    later_stop = later(stop(exchange))

    with pytest.raises(Unavailable):
        await task
    await later_stop


async def stop(exchange):
    exchange.cancel(CancelReason.STOPPING)
