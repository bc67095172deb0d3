"""One attempt at one target: what goes out, what is noted in which context, and that nothing is left behind."""

import asyncio
import contextlib
import dataclasses
import json
from typing import NamedTuple

import pytest

from router.contract.caller import LOCAL, SessionKey
from router.contract.entry import Attempt
from router.contract.errors import (
    CallerKey,
    TandemError,
    UpstreamAuth,
    UpstreamCut,
    UpstreamLost,
    UpstreamRefused,
    UpstreamTimeout,
    UpstreamUnreachable,
)
from router.contract.exchange import CancelReason
from router.contract.facts import AttemptEnded, AttemptOpened, Ending, Read
from router.contract.signals import Turn
from router.contract.target import Price
from router.contract.usage import Usage
from router.contract.words import Dialect, Operation, Outcome, TurnKind
from router.dialects.fitting import Fit
from router.dispatch.attempt import attempt
from router.dispatch.live.statistics import LiveStatistics
from tests.router.dispatch.relays import PATIENT
from tests.tools.exchanges import RecordingSink, make_context, make_decided, make_decision, make_exchange
from tests.tools.loop_clock import seconds_passed
from tests.tools.scripted import HandClock, answers, fails, hangs, names_of, reach, streams
from tests.tools.upstream import CHAT_USAGE, DONE, chat_frame
from tests.tools.values import ask, make_target, make_view

pytestmark = pytest.mark.jumping_clock

SPARK = make_target()
REFUSED = answers({"error": {"message": "no"}}, 400)


class Result(NamedTuple):
    """How an attempt came out, as its caller is told and as it was noted. No ending: another target may be tried."""

    attempt: Attempt
    error: TandemError | None
    ending: Ending | None


class Trial:
    """One attempt, with everything that watches it."""

    def __init__(
        self, *scripts, view=None, target=SPARK, clock=None, fit=None, failed="", seconds=600.0, decision=None, **context
    ):
        loop = asyncio.get_running_loop()
        self.clock, self.live, self.sink = clock or loop.time, LiveStatistics(), RecordingSink()
        self.view = view or ask()
        self.reachable = reach(target, *scripts, fit=fit)
        self.adapter = self.reachable.adapter
        self.exchange = make_exchange(self.live, dialect=self.view.dialect, seconds=seconds)
        self.exchange.note(Read(self.view))
        decided = make_decided(self.view, decision)
        self.exchange.note(decided)
        self.context = make_context(self.exchange, self.sink, self.clock, decided, **context)
        self.failed = failed
        self.timers: list[asyncio.TimerHandle] = []
        set_timer = loop.call_later
        loop.call_later = lambda *given: self.timers.append(handle := set_timer(*given)) or handle

    async def run(self) -> "Result":
        result = await attempt(self.context, self.view, self.reachable, self.failed)
        if isinstance(result, Ending):
            assert result.error is self.ended.error
            return Result(self.ended.attempt, self.ended.error, result)
        assert result is self.ended
        return Result(result.attempt, result.error, None)

    def begin(self) -> asyncio.Task:
        task = asyncio.get_running_loop().create_task(self.run())
        self.exchange.run_by(task)
        return task

    @property
    def facts(self) -> list[str]:
        return names_of(self.exchange.journal)[2:]

    @property
    def ended(self) -> AttemptEnded:
        return self.exchange.last(AttemptEnded)

    @property
    def headers(self) -> dict[str, str]:
        return dict(self.sink.headers)

    def has_let_go(self) -> bool:
        """Nothing is in flight, and no timer of this attempt is left."""
        in_flight = self.live.statuses({self.reachable.target.name: self.reachable.target}, 1e9)[
            self.reachable.target.name
        ].in_flight
        return in_flight == 0 and all(timer.cancelled() or timer.when() <= seconds_passed() for timer in self.timers)


async def test_a_whole_answer_that_serves_is_opened_begun_and_ended_in_this_order():
    trial = Trial()

    ended = await trial.run()

    assert trial.facts == ["AttemptOpened", "FirstByte", "AttemptEnded"]
    assert ended.ending == Ending(Outcome.SERVED, 200)
    assert (ended.attempt.target, ended.attempt.status, ended.attempt.error) == ("spark", 200, None)
    assert trial.sink.words == ["feed_from", "start", "write", "end"]
    assert not trial.adapter.calls[0].is_cancelled
    assert trial.has_let_go()


async def test_a_stream_notes_its_first_byte_then_its_first_token_then_its_end():
    trial = Trial(streams(), view=ask(stream=True))

    ended = await trial.run()

    assert trial.facts == ["AttemptOpened", "FirstByte", "FirstToken", "AttemptEnded"]
    assert ended.ending.outcome is Outcome.SERVED
    assert trial.ended.usage == Usage(9, 3)
    assert trial.has_let_go()


async def test_a_refusal_reaches_nobody_and_may_be_followed_by_another_attempt():
    trial = Trial(REFUSED)

    ended = await trial.run()

    assert trial.facts == ["AttemptOpened", "AttemptEnded"]
    assert ended.ending is None
    assert isinstance(ended.error, UpstreamRefused)
    assert (trial.ended.attempt.status, trial.ended.attempt.error) == (400, "upstream_refused")
    assert trial.ended.usage is None
    assert trial.sink.words == ["feed_from"]
    assert trial.adapter.calls[0].is_cancelled
    assert trial.has_let_go()


async def test_a_stream_that_is_cut_after_its_first_byte_ends_the_request():
    trial = Trial(streams(chat_frame("four"), chat_frame("five")), view=ask(stream=True))

    ended = await trial.run()

    assert trial.facts == ["AttemptOpened", "FirstByte", "FirstToken", "AttemptEnded"]
    assert (ended.ending.outcome, ended.ending.status) == (Outcome.CUT_SHORT, 200)
    assert isinstance(ended.ending.error, UpstreamCut)
    assert trial.ended.attempt.error == "upstream_cut"
    assert trial.ended.usage == Usage(100, 2, is_estimated=True)
    assert trial.sink.words[-1] == "fail"
    assert trial.adapter.calls[0].is_cancelled
    assert trial.has_let_go()


async def test_a_stream_whose_target_says_that_it_failed_is_a_failure_and_not_a_cut():
    trial = Trial(streams(chat_frame("a"), b'data: {"error":{"message":"broke"}}\n\n'), view=ask(stream=True))

    ended = await trial.run()

    assert (ended.ending.outcome, ended.ending.status) == (Outcome.FAILED, 200)


async def test_a_target_that_cannot_be_reached_leaves_no_status():
    trial = Trial(fails(UpstreamUnreachable("spark", "nobody there")))

    ended = await trial.run()

    assert ended.ending is None
    assert (ended.attempt.status, ended.attempt.error) == (None, "upstream_unreachable")


async def test_a_key_that_the_caller_did_not_bring_ends_the_attempt_with_its_code_and_is_raised():
    trial = Trial(CallerKey("bring your own"))

    with pytest.raises(CallerKey):
        await trial.run()

    assert trial.facts == ["AttemptOpened", "AttemptEnded"]
    assert trial.ended.attempt.error == "caller_key"
    assert isinstance(trial.ended.error, CallerKey)
    assert trial.has_let_go()


@pytest.mark.parametrize(("takes_callers_key", "kind"), [(False, UpstreamAuth), (True, CallerKey)])
async def test_a_rejected_key_is_the_operators_or_the_callers_whosever_it_was(takes_callers_key, kind):
    trial = Trial(answers({}, 401), target=make_target(takes_callers_key=takes_callers_key))

    ended = await trial.run()

    assert type(ended.error) is kind
    assert trial.ended.attempt.error == kind.code


@pytest.mark.parametrize("script", [hangs, streams(chat_frame("a"), ends=False)], ids=["before the first byte", "after it"])
async def test_a_caller_who_leaves_is_told_nothing_and_the_target_is_hung_up_on(script):
    trial = Trial(script, view=ask(stream=True))
    task = trial.begin()
    await asyncio.sleep(1)
    told = list(trial.sink.told)

    trial.exchange.cancel(CancelReason.CALLER_LEFT)

    with pytest.raises(asyncio.CancelledError):
        await task
    assert trial.sink.told == told
    assert trial.facts[-1] == "AttemptEnded"
    assert trial.facts.count("AttemptEnded") == 1
    assert (trial.ended.attempt.error, trial.ended.error) == ("abandoned", None)
    assert trial.adapter.calls[0].is_cancelled
    assert trial.has_let_go()


@pytest.mark.parametrize(
    ("before", "after", "seconds", "usage"),
    [
        ((), (CHAT_USAGE,), 1.0, Usage(9, 3)),
        ((), (), 1.5, Usage(100, 1, is_estimated=True)),
        ((DONE,), (), 1.0, Usage(100, 1, is_estimated=True)),
        ((CHAT_USAGE,), (), 1.0, Usage(9, 3)),
    ],
    ids=["usage comes", "nothing comes", "the stream has ended", "usage has come"],
)
async def test_usage_is_awaited_for_a_moment_after_the_last_word_of_a_stream_that_is_left(before, after, seconds, usage):
    trial = Trial(streams(chat_frame("four"), chat_frame(finish="stop"), *before, ends=False), view=ask(stream=True))
    task = trial.begin()
    await asyncio.sleep(1)

    trial.exchange.cancel(CancelReason.CALLER_LEFT)
    await asyncio.sleep(0)
    for piece in after:
        trial.adapter.sinks[0].write(piece)

    ended = await task
    assert (ended.ending.outcome, trial.ended.usage) == (Outcome.SERVED, usage)
    assert seconds_passed() == seconds
    assert trial.adapter.calls[0].is_cancelled
    assert trial.has_let_go()


async def test_a_caller_who_leaves_after_the_targets_error_event_saw_it_fail():
    trial = Trial(streams(chat_frame("a"), b'data: {"error":{"message":"broke"}}\n\n', ends=False), view=ask(stream=True))
    task = trial.begin()
    await asyncio.sleep(1)

    trial.exchange.cancel(CancelReason.CALLER_LEFT)

    ended = await task
    assert (ended.ending.outcome, ended.ending.status) == (Outcome.FAILED, 200)
    assert trial.adapter.calls[0].is_cancelled
    assert trial.has_let_go()


@pytest.mark.parametrize("reason", CancelReason)
@pytest.mark.parametrize("has_ended", [True, False], ids=["in the moment that it ended", "after the terminal event"])
async def test_an_answer_whose_terminal_event_was_passed_on_was_served_whoever_cuts_it_off(reason, has_ended):
    trial = Trial(streams(ends=False), view=ask(stream=True))
    task = trial.begin()
    await asyncio.sleep(1)

    if has_ended:
        trial.adapter.sinks[0].end()
    trial.exchange.cancel(reason)

    ended = await task
    assert ended.ending == Ending(Outcome.SERVED, 200)
    assert (ended.attempt.error, trial.ended.usage) == (None, Usage(9, 3))
    assert (trial.sink.words[-1], trial.sink.words.count("end")) == ("end", 1)
    assert b"shutting down" not in trial.sink.body
    assert trial.adapter.calls[0].is_cancelled
    assert trial.has_let_go()


async def test_a_router_that_stops_after_the_first_byte_says_so_in_the_stream():
    trial = Trial(streams(chat_frame("a"), ends=False), view=ask(stream=True))
    task = trial.begin()
    await asyncio.sleep(1)

    trial.exchange.cancel(CancelReason.STOPPING)

    with pytest.raises(asyncio.CancelledError):
        await task
    assert b"shutting down" in trial.sink.body
    assert trial.sink.words[-1] == "fail"
    assert trial.ended.usage == Usage(100, 1, is_estimated=True)
    assert trial.adapter.calls[0].is_cancelled
    assert trial.has_let_go()


async def test_a_silent_target_is_given_up_on_at_the_requests_deadline():
    trial = Trial(hangs, seconds=90.0)

    ended = await trial.run()

    assert seconds_passed() == 90
    assert isinstance(ended.error, UpstreamTimeout)
    assert "deadline of 90 s" in ended.error.message
    assert (ended.ending, ended.attempt.seconds) == (None, 90.0)
    assert trial.adapter.calls[0].is_cancelled
    assert trial.has_let_go()


async def test_a_stream_that_is_still_running_at_the_deadline_is_cut_there():
    target = make_target(timeouts=PATIENT)
    trial = Trial(streams(chat_frame("a"), ends=False), view=ask(stream=True), seconds=90.0, target=target)

    ended = await trial.run()

    assert seconds_passed() == 90
    assert ended.ending.outcome is Outcome.CUT_SHORT
    assert isinstance(ended.ending.error, UpstreamTimeout)
    assert trial.has_let_go()


async def test_the_deadline_runs_from_the_requests_beginning_and_not_the_attempts():
    trial = Trial(hangs, seconds=90.0)
    await asyncio.sleep(60)

    await trial.run()

    assert seconds_passed() == 90


class SlowToFit(dict):
    """A target's words for effort, which take their time to be looked up."""

    def __init__(self, clock: HandClock, seconds: float) -> None:
        super().__init__({"high": "most"})  # an empty table is not looked at
        self.clock, self.seconds = clock, seconds

    def get(self, *_):
        self.clock.now += self.seconds


async def test_overhead_is_ours_until_the_target_is_called_with_what_it_takes_to_fit_the_request():
    clock = HandClock(0.25)
    trial = Trial(view=ask(reasoning_effort="high"), clock=clock, fit=Fit(efforts=SlowToFit(clock, 0.5)))

    await trial.run()

    assert trial.headers["x-tandem-overhead-ms"] == "750.00"
    assert trial.exchange.last(AttemptOpened).at == 0.75


async def test_the_time_that_earlier_targets_took_is_not_ours():
    clock = HandClock(0.125)
    trial = Trial(clock=clock, failed="owl failed (503)")
    await attempt(trial.context, trial.view, reach(make_target("owl"), answers({}, 503)), "")
    clock.now = 5.0

    await trial.run()

    assert trial.headers["x-tandem-overhead-ms"] == "125.00"
    assert "owl failed (503)" in trial.headers["x-tandem-because"]


async def test_the_answer_of_each_tier_carries_its_own_headers():
    trial = Trial(carried={SPARK.tier: (("x-mark", "fast"),), SPARK.tier.other: (("x-mark", "deep"),)})

    await trial.run()

    assert trial.headers["x-mark"] == "fast"


async def test_an_explanation_says_what_the_request_lost_on_its_way():
    target = make_target(speaks=frozenset({Dialect.MESSAGES}))
    body = {"type": "message", "content": [{"type": "text", "text": "hi"}], "usage": {"input_tokens": 1, "output_tokens": 1}}
    trial = Trial(answers(body), view=ask(logit_bias={"5": 1}), target=target, explanation={"tier": "fast"})

    await trial.run()

    assert '"spark":["logit_bias"' in trial.headers["x-tandem-explain"]
    assert "logit_bias" in trial.exchange.last(AttemptOpened).dropped


async def test_speed_is_not_the_targets_own_when_its_caller_read_slowly():
    frames = (chat_frame("a"), *[chat_frame("b")] * 9, chat_frame(finish="stop"), CHAT_USAGE.replace(b":3", b":30"), DONE)

    async def run(is_slow: bool):
        def slowly(sink):
            if is_slow:
                trial.sink.flow.pause()
            sink.start(200, (("content-type", "text/event-stream"),))
            for frame in frames[:-1]:
                sink.write(frame)
            asyncio.get_running_loop().call_later(2, lambda: (sink.write(frames[-1]), sink.end()))

        trial = Trial(slowly, view=ask(stream=True))
        await trial.run()
        return trial.ended

    quick, slow = await run(False), await run(True)
    assert (quick.tokens_per_second, quick.attempt.pace.tokens_per_second) == (15.0, 15.0)
    assert (slow.tokens_per_second, slow.attempt.pace.tokens_per_second) == (15.0, None)


async def pace_of(*frames: bytes, last: bytes = b"", leaves: bool = False):
    """The pace of a stream whose last piece comes two seconds after the others, or that its caller leaves by then."""

    def play(sink):
        sink.start(200, (("content-type", "text/event-stream"),))
        for frame in frames:
            sink.write(frame)
        loop = asyncio.get_running_loop()
        leave = lambda: trial.exchange.cancel(CancelReason.CALLER_LEFT)  # noqa: E731  of this test alone
        loop.call_later(2, leave if leaves else lambda: (sink.write(last + DONE), sink.end()))

    trial = Trial(play, view=ask(stream=True))
    with contextlib.suppress(asyncio.CancelledError):
        await trial.begin()
    return trial.ended.attempt.pace, trial.ended.usage


async def test_where_tokens_are_not_told_text_is_counted_for_the_speed_and_said_to_be_an_estimate():
    pace, usage = await pace_of(*[chat_frame("four")] * 40, last=chat_frame(finish="stop"))

    assert (pace.tokens_per_second, usage.is_estimated) == (20.0, True)


async def test_of_a_few_counted_tokens_no_speed_is_learned():
    pace, _ = await pace_of(*[chat_frame("four")] * 12, last=chat_frame(finish="stop"))

    assert pace.tokens_per_second is None


async def test_a_stream_that_its_caller_left_shows_the_speed_that_was_seen():
    pace, usage = await pace_of(*[chat_frame("four")] * 40, leaves=True)

    assert (pace.tokens_per_second, usage.is_estimated) == (20.0, True)


async def test_the_engines_own_clock_counts_before_ours():
    timings = b'"timings":{"prompt_n":600,"prompt_per_second":430.0,"predicted_n":40,"predicted_per_second":645.0}'
    pace, usage = await pace_of(chat_frame("a"), last=chat_frame(finish="stop").replace(b"}\n\n", b"," + timings + b"}\n\n"))

    assert (pace.tokens_per_second, pace.prefill_tokens_per_second) == (645.0, 430.0)
    assert (usage.input_tokens, usage.output_tokens, usage.is_estimated) == (600, 40, False)


async def test_a_count_that_the_targets_dialect_has_no_call_for_is_answered_here_and_nobody_is_called():
    view = make_view({"messages": [{"role": "user", "content": "x"}]}, Dialect.MESSAGES, operation=Operation.COUNT_TOKENS)
    trial = Trial(view=view)

    ended = await trial.run()

    assert trial.sink.body == b'{"input_tokens":100}'
    assert ended.ending.outcome is Outcome.SERVED
    assert trial.adapter.opened == []
    assert trial.ended.usage is None


@pytest.mark.parametrize(("keeps", "kind", "session"), [
    (True, TurnKind.ASK, SessionKey(LOCAL, "session")),
    (True, TurnKind.TOOL_LOOP, SessionKey(LOCAL, "session")),
    (True, TurnKind.SIDE, None),
    (False, TurnKind.ASK, None),
])  # fmt: skip
async def test_a_target_that_keeps_sessions_is_told_the_one_of_a_conversation(keeps, kind, session):
    trial = Trial(decision=make_decision(turn=Turn(kind, "session", "unknown", "hello")))
    trial.reachable = dataclasses.replace(trial.reachable, keeps_sessions=keeps)

    await trial.run()

    assert trial.adapter.opened[0].session == session


PRICE = Price(input=1_000.0, output=10_000.0, cached_input=100.0)
HUNDRED = 0.1  # USD for the hundred tokens that the prompt is taken for


@pytest.mark.parametrize(
    ("script", "view", "usage", "cost"),
    [
        (answers(), ask(), Usage(5, 2), 0.025),
        (streams(), ask(stream=True), Usage(9, 3), 0.039),
        (streams(chat_frame("four"), chat_frame("five")), ask(stream=True), Usage(100, 2, is_estimated=True), HUNDRED + 0.02),
        (answers(b"<html>" + b"x" * 34), ask(), Usage(100, 10, is_estimated=True), HUNDRED + 0.1),
        (answers({"error": "no"}, 429), ask(), None, 0.0),
        (answers({"error": "no"}, 500), ask(), None, 0.0),
        (fails(UpstreamUnreachable("spark", "x")), ask(), None, 0.0),
        (fails(UpstreamLost("spark", "x")), ask(), Usage(100, 0, is_estimated=True), HUNDRED),
        (fails(UpstreamTimeout("spark", "x")), ask(), Usage(100, 0, is_estimated=True), HUNDRED),
    ],
    ids=["whole", "stream", "cut", "unusable", "429", "500", "unreachable", "lost", "silent"],
)
async def test_an_attempt_says_what_it_used_and_what_that_cost(script, view, usage, cost):
    trial = Trial(script, view=view, target=make_target(price=PRICE))

    attempt = (await trial.run()).attempt

    assert attempt.usage == trial.ended.usage == usage
    assert attempt.cost_usd == pytest.approx(cost)


@pytest.mark.parametrize(("script", "cost"), [(answers(), None), (answers({"error": "no"}, 500), 0.0)], ids=["used", "refused"])
async def test_without_a_price_only_a_refusal_has_a_known_cost(script, cost):
    assert (await Trial(script).run()).attempt.cost_usd == cost


@pytest.mark.parametrize(("script", "tokens"), [(hangs, 0), (streams(chat_frame("a"), ends=False), 1)], ids=["before", "after"])
async def test_a_caller_who_leaves_leaves_the_cost_of_what_was_used_until_then(script, tokens):
    trial = Trial(script, view=ask(stream=True), target=make_target(price=PRICE))
    running = trial.begin()
    await asyncio.sleep(0.1)
    trial.exchange.cancel(CancelReason.CALLER_LEFT)
    with pytest.raises(asyncio.CancelledError):
        await running

    attempt = trial.ended.attempt
    assert (attempt.error, attempt.usage) == ("abandoned", Usage(100, tokens, is_estimated=True))
    assert attempt.cost_usd == pytest.approx(HUNDRED + tokens * 0.01)


async def test_a_stream_of_messages_that_breaks_is_charged_for_what_it_wrote_and_not_for_what_its_first_event_says():
    start = {
        "type": "message_start",
        "message": {"usage": {"input_tokens": 20, "cache_read_input_tokens": 80, "output_tokens": 1}},
    }
    delta = {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "four"}}
    frames = [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in (start, *[delta] * 30)]
    view = make_view({"messages": [{"role": "user", "content": "hi"}], "max_tokens": 9, "stream": True}, Dialect.MESSAGES)
    trial = Trial(streams(*frames), view=view, target=make_target(price=PRICE, speaks=frozenset({Dialect.MESSAGES})))

    attempt = (await trial.run()).attempt

    assert attempt.usage == Usage(100, 30, cached_tokens=80, is_estimated=True)
    assert attempt.cost_usd == pytest.approx(20 * 0.001 + 80 * 0.0001 + 30 * 0.01)
