"""Streams to callers with a budget."""

import asyncio
import json

import pytest

from router.contract.errors import BudgetSpent
from router.contract.target import Price
from router.contract.words import Dialect, Outcome
from router.dialects.cap import Cap
from router.dialects.fitting import Fit
from router.dialects.sse import split_frames
from tests.router.dispatch.test_attempt import Trial
from tests.tools.scripted import EVENTS, answers, streams
from tests.tools.upstream import CHAT_USAGE, DONE, chat_frame
from tests.tools.values import ask, make_target, make_view
from tests.tools.waiting import later, until

pytestmark = pytest.mark.jumping_clock

PRICED = make_target(price=Price(1.0, 10.0))
WORDS = chat_frame("some words " * 40)


class Purse:
    """What is left of a budget, in tokens of the answer."""

    def __init__(self, covered: float, more: float = 0.0) -> None:
        self.covered, self.more, self.asked, self.costs = covered, more, [], []
        self.over, self.told = False, asyncio.Event()

    def exceed(self, cost_usd: float):
        self.costs.append(cost_usd)
        return self.tell() if self.over else None

    async def tell(self) -> None:
        await self.told.wait()

    def cover(self, tokens: int) -> float:
        self.asked.append(tokens)
        if tokens >= self.covered:
            self.covered, self.more = self.covered + self.more, 0.0
        return self.covered


def trial(*scripts, covered: float = 100, more: float = 0.0, view=None, target=PRICED) -> Trial:
    fit = Fit(cap=Cap(100, "by what is left of your budget"))
    return Trial(*scripts, view=view or ask(stream=True), fit=fit, target=target, holding=Purse(covered, more))


def endless(piece: bytes = WORDS):
    """A target that ignores its cap."""
    return streams(*([piece] * 200), ends=False)


async def test_the_request_that_goes_out_has_the_cap_and_its_caller_is_told():
    asked = trial(streams(), view=ask(stream=True, max_tokens=4_000))

    await asked.run()

    assert asked.adapter.bodies[0]["max_tokens"] == 100
    assert asked.headers["x-tandem-dropped"] == "capped at 100 tokens by what is left of your budget"


async def test_a_translated_request_has_the_cap_in_the_targets_field():
    sage = make_target("sage", speaks=frozenset({Dialect.MESSAGES}), price=Price(1.0, 10.0))
    asked = trial(answers({"error": {"message": "no"}}, 400), view=ask(stream=True), target=sage)

    await asked.run()

    assert asked.adapter.bodies[0]["max_tokens"] == 100


async def test_an_endless_stream_is_cut_as_too_long_with_a_reason_and_its_target_is_left():
    cut = trial(endless())

    ended = await cut.run()
    last = split_frames(cut.sink.body)[-2:]

    assert last[0].json()["choices"] == [{"index": 0, "delta": {}, "finish_reason": "length"}]
    assert last[1].data == b"[DONE]"
    assert b": tandem.cut the budget of your key is used up\n\n" in cut.sink.body
    assert cut.sink.words[-1] == "end"
    assert cut.adapter.calls[0].is_cancelled
    assert isinstance(ended.error, BudgetSpent)
    assert ended.ending.outcome is Outcome.CUT_SHORT
    assert cut.ended.usage.is_estimated
    assert cut.has_let_go()


async def test_a_stream_takes_what_is_left_before_it_is_cut():
    short, long = trial(endless(), covered=20), trial(endless(), covered=20, more=3_000)

    await short.run()
    await long.run()

    assert len(long.sink.body) > 2 * len(short.sink.body)


async def test_a_target_that_keeps_to_its_cap_ends_its_stream_itself():
    kept = trial(streams(chat_frame("some words"), chat_frame(finish="length"), CHAT_USAGE, DONE), covered=3)

    ended = await kept.run()

    assert ended.error is None
    assert b"tandem.cut" not in kept.sink.body
    assert kept.ended.usage.output_tokens == 3


async def test_a_frame_without_an_end_is_broken_off():
    def play(sink) -> None:
        sink.start(200, EVENTS)
        sink.write(WORDS)
        sink.write(b'data: {"choices":[{"index":0,"delta":{"content":"')
        broken.context.holding.covered = -100.0
        for _ in range(200):
            sink.write(b"x" * 8_192)

    broken = trial(play, covered=1e9)

    ended = await broken.run()

    assert isinstance(ended.error, BudgetSpent)
    assert broken.sink.error is ended.error


@pytest.mark.parametrize("dialect", [Dialect.RESPONSES, Dialect.MESSAGES])
async def test_a_translated_stream_is_cut_in_its_callers_dialect(dialect):
    words = [{"role": "user", "content": "hi"}]
    body = {"input": "hi"} if dialect is Dialect.RESPONSES else {"messages": words, "max_tokens": 4_000}
    cut = trial(endless(), view=make_view({**body, "model": "auto", "stream": True}, dialect))

    ended = await cut.run()
    frames = [json.loads(frame.data) for frame in split_frames(cut.sink.body)]

    assert isinstance(ended.error, BudgetSpent)
    if dialect is Dialect.RESPONSES:
        assert frames[-1]["type"] == "response.incomplete"
        assert frames[-1]["response"]["incomplete_details"] == {"reason": "max_output_tokens"}
        assert frames[-1]["response"]["output"][0]["content"][0]["text"].startswith("some words")
    else:
        assert [frame["type"] for frame in frames[-3:]] == ["content_block_stop", "message_delta", "message_stop"]
        assert frames[-2]["delta"]["stop_reason"] == "max_tokens"


async def test_an_answer_in_one_piece_is_passed_whole():
    whole = trial(view=ask())

    ended = await whole.run()

    assert ended.error is None
    assert whole.context.holding.asked == []
    assert whole.context.holding.costs == [pytest.approx(whole.ended.attempt.cost_usd)]


async def test_an_answer_in_one_piece_that_costs_more_than_was_held_waits_until_other_routers_know():
    whole = trial(view=ask())
    purse = whole.context.holding
    purse.over = True

    running = later(whole.run())
    await until(lambda: purse.costs)
    assert whole.sink.body == b""
    purse.told.set()
    ended = await running

    assert ended.error is None
    assert whole.sink.words[-1] == "end"


async def test_a_caller_that_leaves_while_other_routers_are_told_ends_the_attempt():
    whole = trial(view=ask())
    purse = whole.context.holding
    purse.over = True
    running = later(whole.run())
    await until(lambda: purse.costs)

    running.cancel()
    await asyncio.wait((running,))
    purse.told.set()

    assert running.cancelled()
    assert whole.sink.body == b""
