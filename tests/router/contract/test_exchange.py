"""One request under way: its deadline only comes nearer, its facts are told in order, its first reason to end counts."""

import asyncio

import pytest

from router.contract.entry import Attempt
from router.contract.errors import Unavailable
from router.contract.exchange import Arrival, CancelReason, Deadline, Exchange, saying_why
from router.contract.facts import AttemptOpened, Dequeued, FirstByte, FirstToken, QuestionEnded, Queued, Settled
from router.contract.words import Dialect, Operation
from tests.tools.loop_clock import jumping_clock
from tests.tools.values import make_target

ARRIVAL = Arrival("req_1", Dialect.CHAT, Operation.CREATE, {}, b"{}")
SPARK, SAGE = make_target(), make_target("sage")


class Told:
    """An observer that keeps what it is told, and how long the journal was then."""

    def __init__(self) -> None:
        self.told: list[tuple[object, int]] = []

    @property
    def handlers(self):
        return dict.fromkeys((FirstByte, FirstToken), (self._keep,))

    def _keep(self, exchange: Exchange, fact: object) -> None:
        self.told.append((fact, len(exchange.journal)))


def make_exchange(observers: Told | None = None) -> Exchange:
    return Exchange(ARRIVAL, began=5.0, deadline=Deadline(65.0), observers=observers or Told())


def test_a_deadline_that_has_passed_leaves_no_time_and_not_less():
    assert Deadline(10.0).left(now=4.0) == 6.0
    assert Deadline(10.0).left(now=11.0) == 0.0


def test_a_fact_is_in_the_journal_by_the_time_that_observers_hear_of_it():
    observers = Told()
    exchange = make_exchange(observers)
    first, second = FirstByte(SPARK), FirstToken(6.0, SPARK)

    exchange.note(first)
    exchange.note(second)

    assert exchange.journal == [first, second]
    assert observers.told == [(first, 1), (second, 2)]


@pytest.fixture
def exchange():
    return make_exchange()


def test_the_newest_fact_of_a_kind_is_found_and_none_where_there_was_none(exchange):
    for fact in (FirstByte(SPARK), FirstByte(SAGE), FirstToken(6.0, SAGE)):
        exchange.note(fact)

    assert exchange.last(FirstByte) == FirstByte(SAGE)
    assert exchange.last(Settled) is None


QUESTION = QuestionEnded(2.0, make_target(), Attempt("spark", 200, None, 1.0), None, None, None, 1.0)
WAIT = (Queued(3.0, make_target(), 1, 1, 2.0), Dequeued(5.0, make_target(), 2.0, True))
CALLS = (AttemptOpened(6.0, make_target(), "", ()), AttemptOpened(7.0, make_target(), "spark failed", ()))


@pytest.mark.parametrize(
    ("facts", "at"),
    [((), None), (CALLS, 6.0), ((*WAIT, *CALLS), 3.0), ((QUESTION, *WAIT, *CALLS), 1.0)],
)
def test_the_first_call_is_whichever_began_first_of_a_question_a_wait_and_an_attempt(exchange, facts, at):
    exchange.journal += facts

    assert exchange.first_call_at() == at


def test_it_is_known_by_its_arrival(exchange):
    assert (exchange.id, exchange.caller) == ("req_1", ARRIVAL.caller)


async def test_cancelling_an_exchange_cancels_the_task_that_runs_it_and_the_first_reason_counts(exchange):
    task = asyncio.get_running_loop().create_task(asyncio.sleep(60))
    exchange.run_by(task)

    exchange.cancel(CancelReason.CALLER_LEFT)
    exchange.cancel(CancelReason.STOPPING)

    with pytest.raises(asyncio.CancelledError):
        await task
    assert exchange.cancelled is CancelReason.CALLER_LEFT


@jumping_clock
async def test_a_second_reason_does_not_cancel_the_task_again():
    exchange, hits = make_exchange(), []

    async def work() -> None:
        for _ in range(2):
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                hits.append(1)

    task = asyncio.get_running_loop().create_task(work())
    exchange.run_by(task)
    await asyncio.sleep(0)
    exchange.cancel(CancelReason.CALLER_LEFT)
    await asyncio.sleep(0)
    exchange.cancel(CancelReason.STOPPING)
    await task

    assert hits == [1]


def test_an_exchange_that_no_task_runs_yet_keeps_the_reason(exchange):
    exchange.cancel(CancelReason.STOPPING)

    assert exchange.cancelled is CancelReason.STOPPING


async def test_a_task_that_is_named_after_the_cancellation_is_cancelled_too(exchange):
    exchange.cancel(CancelReason.STOPPING)
    task = asyncio.get_running_loop().create_task(asyncio.Event().wait())

    exchange.run_by(task)

    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize(
    ("reason", "error"), [(CancelReason.STOPPING, Unavailable), (CancelReason.CALLER_LEFT, asyncio.CancelledError)]
)
def test_who_waits_and_is_still_there_is_told_why_the_request_ends(exchange, reason, error):
    exchange.cancel(reason)

    with pytest.raises(error), saying_why(exchange):
        raise asyncio.CancelledError
