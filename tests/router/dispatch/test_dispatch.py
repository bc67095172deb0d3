"""From one target to the next: whom a request is sent to, in which form, and what is noted of it."""

import asyncio
import json
from typing import NamedTuple

import pytest
from msgspec.structs import replace

from router.contract.errors import (
    BadRequest,
    TiersBusy,
    Unavailable,
    UpstreamRefused,
    UpstreamUnreachable,
)
from router.contract.exchange import CancelReason
from router.contract.facts import AttemptEnded, AttemptOpened, Decided, Ending, Read, StateRefused
from router.contract.session import SessionSnapshot, SessionState
from router.contract.signals import SessionPosition
from router.contract.target import Quota
from router.contract.words import Dialect, Outcome, Tier
from router.dialects.fitting import Fit
from router.dialects.opaque import all_keys, refused_by
from router.dispatch.dispatch import Preconnector
from router.dispatch.live.statistics import LiveStatistics
from router.dispatch.outgoing import Reachable
from router.limits.retries import Track
from tests.tools.exchanges import RecordingSink, make_decided, make_decision, make_exchange
from tests.tools.loop_clock import seconds_passed
from tests.tools.scripted import HandClock, answers, dispatcher_of, fails, hangs, names_of, reach, streams
from tests.tools.upstream import chat_frame
from tests.tools.values import ask, make_target, make_view

pytestmark = pytest.mark.jumping_clock

SPARK, OWL, SAGE = make_target(), make_target("owl"), make_target("sage", Tier.DEEP)
BUSY = answers({"error": {"message": "slow down"}}, 429, (("content-type", "application/json"), ("retry-after", "7")))
BROKEN = answers({"error": {"message": "broke"}}, 500)
BLAMED = answers({"error": {"message": "temperature is too high"}}, 400)
RESPONSE = {
    "id": "resp_2",
    "object": "response",
    "status": "completed",
    "output": [],
    "usage": {"input_tokens": 1, "output_tokens": 1},
}


class Trial:
    """A request on its way through these targets, with everything that watches it."""

    def __init__(self, *reachable, view=None, spill=(), seconds=600.0, clock=None, live=None, name="req_test") -> None:
        self.reachable = reachable
        self.clock = clock or asyncio.get_running_loop().time
        self.dispatcher = dispatcher_of(*reachable, clock=self.clock)
        self.live, self.sink = live or LiveStatistics(seconds_passed), RecordingSink()
        view = view or ask()
        own = tuple(each.target.name for each in reachable if each.target.name not in spill)
        self.decided = make_decided(view, make_decision(targets=own, spill=tuple(spill)))
        self.exchange = make_exchange(
            self.live, name=name, dialect=view.dialect, seconds=seconds, began=asyncio.get_running_loop().time()
        )
        self.exchange.note(Read(view))
        self.exchange.note(self.decided)

    async def run(self):
        return await self.dispatcher.send(self.exchange, self.decided, self.sink, self.live)

    def begin(self) -> asyncio.Task:
        task = asyncio.get_running_loop().create_task(self.run())
        self.exchange.run_by(task)
        return task

    @property
    def facts(self) -> list[str]:
        return names_of(self.exchange.journal)[2:]

    @property
    def attempts(self) -> list[tuple]:
        return [
            (fact.attempt.target, fact.attempt.status, fact.attempt.error)
            for fact in self.exchange.journal
            if isinstance(fact, AttemptEnded)
        ]

    @property
    def opened(self) -> list[AttemptOpened]:
        return [fact for fact in self.exchange.journal if isinstance(fact, AttemptOpened)]

    @property
    def headers(self) -> dict[str, str]:
        return dict(self.sink.headers)

    @property
    def in_flight(self) -> int:
        targets = {each.target.name: each.target for each in self.reachable}
        return sum(status.in_flight for status in self.live.statuses(targets, 1e9).values())


async def test_a_target_that_fails_is_followed_by_the_next_and_the_caller_is_told_so():
    trial = Trial(reach(SPARK, BROKEN), reach(OWL))

    ending = await trial.run()

    assert ending == Ending(Outcome.SERVED, 200)
    assert trial.facts == ["AttemptOpened", "AttemptEnded", "AttemptOpened", "FirstByte", "AttemptEnded"]
    assert trial.attempts == [("spark", 500, "upstream_refused"), ("owl", 200, None)]
    assert trial.opened[1].failed == "spark failed (500)"
    assert trial.headers["x-tandem-target"] == "owl"
    assert trial.headers["x-tandem-because"].startswith("spark failed (500), so owl answers: ")
    assert trial.in_flight == 0


async def test_a_request_that_a_target_blames_goes_nowhere_else_and_keeps_the_targets_words():
    trial = Trial(reach(SPARK, BLAMED), reach(OWL))

    with pytest.raises(UpstreamRefused) as refused:
        await trial.run()

    assert refused.value.body == b'{"error": {"message": "temperature is too high"}}'
    assert trial.facts == ["AttemptOpened", "AttemptEnded"]
    assert trial.reachable[1].adapter.opened == []


async def test_when_all_are_busy_the_caller_hears_the_shortest_wait():
    trial = Trial(reach(SPARK, BUSY), reach(OWL, BROKEN))

    with pytest.raises(TiersBusy) as busy:
        await trial.run()

    assert busy.value.retry_after_seconds == 7
    assert trial.attempts == [("spark", 429, "upstream_refused"), ("owl", 500, "upstream_refused")]
    assert trial.sink.words == ["feed_from", "feed_from"]
    assert trial.in_flight == 0


async def test_a_whole_answer_that_breaks_is_tried_elsewhere_since_nothing_of_it_went_out():
    trial = Trial(reach(SPARK, answers(b"<html>")), reach(OWL))

    ending = await trial.run()

    assert ending.outcome is Outcome.SERVED
    assert trial.attempts == [("spark", 200, "upstream_malformed"), ("owl", 200, None)]
    assert trial.sink.words.count("start") == 1


async def test_what_one_target_could_only_misunderstand_goes_to_the_next_without_a_call():
    view = make_view({"input": "x", "previous_response_id": "resp_1"}, Dialect.RESPONSES)
    knows = make_target("owl", speaks=frozenset({Dialect.RESPONSES}))
    trial = Trial(reach(SPARK), reach(knows, answers(RESPONSE)), view=view)

    ending = await trial.run()

    assert ending.outcome is Outcome.SERVED
    assert trial.facts == ["AttemptEnded", "AttemptOpened", "FirstByte", "AttemptEnded"]
    assert trial.attempts[0][:2] == ("spark", None)
    assert trial.opened[0].failed.startswith("spark cannot serve this (")
    assert trial.reachable[0].adapter.opened == []
    assert trial.in_flight == 0


def reasoning(blob: str) -> dict:
    return {"type": "reasoning", "id": f"rs_{blob}", "summary": [], "encrypted_content": blob}


USER = {"role": "user", "content": "x"}
UNREADABLE = answers({"error": {"message": "could not be decrypted", "code": "invalid_encrypted_content"}}, 400)
KNOWS = make_target(speaks=frozenset({Dialect.RESPONSES}))


def with_state(**origins: str):
    view = make_view({"input": [USER, reasoning("mine"), USER]}, Dialect.RESPONSES)
    return replace(view, origins={key: origins["mine"] for key in all_keys(view) if origins})


async def test_hidden_state_that_a_target_rejects_is_left_out_and_that_is_noted_once_the_retry_served():
    trial = Trial(reach(KNOWS, UNREADABLE, answers(RESPONSE)), reach(OWL), view=with_state(mine="spark"))

    ending = await trial.run()

    first, second = trial.reachable[0].adapter.bodies
    assert ending.outcome is Outcome.SERVED
    assert trial.facts == ["AttemptOpened", "AttemptEnded", "AttemptOpened", "FirstByte", "AttemptEnded", "StateRefused"]
    assert [item["type"] for item in first["input"] if "type" in item] == ["reasoning"]
    assert [item for item in second["input"] if item.get("type") == "reasoning"] == []
    assert trial.exchange.last(StateRefused) == StateRefused(KNOWS, all_keys(with_state()))
    assert trial.opened[1].failed == ""
    assert trial.reachable[1].adapter.opened == []


async def test_state_is_not_said_to_be_refused_when_the_request_fails_without_it_too():
    trial = Trial(reach(KNOWS, UNREADABLE, BLAMED), view=with_state())

    with pytest.raises(UpstreamRefused):
        await trial.run()

    assert "StateRefused" not in trial.facts
    assert len(trial.reachable[0].adapter.opened) == 2


async def test_what_one_target_refused_of_the_state_the_next_still_gets():
    other = make_target("owl", speaks=frozenset({Dialect.RESPONSES}))
    trial = Trial(reach(KNOWS, UNREADABLE, BROKEN), reach(other, answers(RESPONSE)), view=with_state())

    await trial.run()

    (sent,) = trial.reachable[1].adapter.bodies
    assert [item["encrypted_content"] for item in sent["input"] if item.get("type") == "reasoning"] == ["mine"]
    assert "StateRefused" not in trial.facts


async def test_a_target_that_was_sent_no_state_is_not_asked_again_for_it():
    trial = Trial(reach(KNOWS, UNREADABLE, answers(RESPONSE)), view=with_state(mine=refused_by("spark")))

    with pytest.raises(UpstreamRefused):
        await trial.run()

    assert len(trial.reachable[0].adapter.opened) == 1


class Continuing(NamedTuple):
    """A continuation that a target keeps by itself until it turns out to have lost it."""

    stored_by: str
    clock: HandClock | None = None

    def view_for(self, view, target):
        if self.clock is not None:
            self.clock.now += 0.5
        if target.name != self.stored_by:
            return view
        body = {"model": "auto", "previous_response_id": "resp_1", "input": "and?"}
        return replace(view, body=body, raw=json.dumps(body).encode())

    def without_reference(self):
        return self._replace(stored_by="")


FORGOTTEN = answers({"error": {"message": "gone", "code": "previous_response_not_found"}}, 400)


def continuing(stored_by: str = "spark", clock: HandClock | None = None):
    view = make_view({"input": [USER, USER, {"role": "user", "content": "and?"}]}, Dialect.RESPONSES)
    return replace(view, continued=Continuing(stored_by, clock))


async def test_a_target_that_lost_the_response_is_sent_the_whole_conversation():
    trial = Trial(reach(KNOWS, FORGOTTEN, answers(RESPONSE)), reach(OWL), view=continuing())

    ending = await trial.run()

    first, second = trial.reachable[0].adapter.bodies
    assert ending.outcome is Outcome.SERVED
    assert first["previous_response_id"] == "resp_1"
    assert "previous_response_id" not in second
    assert len(second["input"]) == 3
    assert trial.facts == ["AttemptOpened", "AttemptEnded", "AttemptOpened", "FirstByte", "AttemptEnded"]
    assert trial.reachable[1].adapter.opened == []


async def test_a_target_that_was_sent_no_reference_is_not_asked_again_for_having_lost_it():
    trial = Trial(reach(KNOWS, FORGOTTEN, answers(RESPONSE)), view=continuing(stored_by="sage"))

    with pytest.raises(UpstreamRefused):
        await trial.run()

    assert len(trial.reachable[0].adapter.opened) == 1


async def test_the_other_form_is_tried_once_and_then_the_next_target():
    other = make_target("owl", speaks=frozenset({Dialect.RESPONSES}))
    gone = answers({}, 404)
    trial = Trial(reach(KNOWS, gone), reach(other, answers(RESPONSE)), view=continuing())

    ending = await trial.run()

    assert ending.outcome is Outcome.SERVED
    assert [name for name, *_ in trial.attempts] == ["spark", "spark", "owl"]
    assert "previous_response_id" not in trial.reachable[1].adapter.bodies[0]


@pytest.mark.parametrize(
    ("reason", "error"), [(CancelReason.CALLER_LEFT, asyncio.CancelledError), (CancelReason.STOPPING, Unavailable)]
)
async def test_a_request_that_is_cut_off_is_tried_nowhere_else(reason, error):
    trial = Trial(reach(SPARK, hangs), reach(OWL))
    task = trial.begin()
    await asyncio.sleep(1)

    trial.exchange.cancel(reason)

    with pytest.raises(error):
        await task
    assert trial.attempts == [("spark", None, "abandoned")]
    assert trial.reachable[1].adapter.opened == []
    assert trial.in_flight == 0


async def test_what_a_request_would_lose_is_told_without_calling_anyone():
    talks = make_target("sage", Tier.DEEP, speaks=frozenset({Dialect.MESSAGES}))
    trial = Trial(reach(SPARK), reach(talks))

    assert trial.dispatcher.find_losses(ask(logit_bias={"5": 1}), "spark") == ()
    assert "logit_bias" in trial.dispatcher.find_losses(ask(logit_bias={"5": 1}), "sage")
    view = make_view({"input": "x", "previous_response_id": "resp_1"}, Dialect.RESPONSES)
    assert trial.dispatcher.find_losses(view, "spark")[0].startswith("cannot be served: ")
    assert trial.facts == []


def later(seconds, script):
    """The same, after a while."""
    return lambda sink: asyncio.get_running_loop().call_later(seconds, script, sink)


def crowd(count, *reachable, seconds=600.0) -> list[Trial]:
    """So many requests at once, with one picture of the targets."""
    live = LiveStatistics(seconds_passed)
    return [Trial(*reachable, spill=("sage",), live=live, name=f"req_{number}", seconds=seconds) for number in range(count)]


async def run_all(trials):
    return await asyncio.gather(*(trial.begin() for trial in trials), return_exceptions=True)


async def test_those_beyond_the_budget_wait_for_the_first_answer_of_the_other_tier_and_then_all_go_there():
    spark, sage = reach(SPARK, BROKEN), reach(SAGE, later(5.0, answers()))
    trials = crowd(40, spark, sage)
    tasks = [trial.begin() for trial in trials]
    await asyncio.sleep(1.0)
    assert len(sage.adapter.opened) == 8

    endings = await asyncio.gather(*tasks)

    assert {ending.outcome for ending in endings} == {Outcome.SERVED}
    assert len(sage.adapter.opened) == 40
    assert seconds_passed() == 10.0


async def test_those_that_wait_fail_when_all_that_went_before_them_failed():
    spark, sage = reach(SPARK, BROKEN), reach(SAGE, later(5.0, BROKEN))

    errors = await run_all(crowd(40, spark, sage))

    assert all(isinstance(error, UpstreamRefused) for error in errors)
    assert len(sage.adapter.opened) == 8
    assert "sage (failing, not asked again)" in errors[-1].message
    assert seconds_passed() == 5.0


@pytest.mark.parametrize(
    ("reason", "kind"), [(CancelReason.STOPPING, Unavailable), (CancelReason.CALLER_LEFT, asyncio.CancelledError)]
)
async def test_one_that_waits_can_be_cancelled_and_is_told_why(reason, kind):
    trials = crowd(40, reach(SPARK, BROKEN), reach(SAGE, later(5.0, answers())))
    tasks = [trial.begin() for trial in trials]
    await asyncio.sleep(1.0)
    trials[-1].exchange.cancel(reason)

    ended = await asyncio.gather(*tasks, return_exceptions=True)

    assert isinstance(ended[-1], kind)
    assert {ending.outcome for ending in ended[:-1]} == {Outcome.SERVED}


async def test_those_that_wait_go_on_when_all_that_went_before_them_were_left_by_their_callers():
    spark, sage = reach(SPARK, BROKEN), reach(SAGE, *[hangs] * 8, later(1.0, answers()))
    trials = crowd(40, spark, sage)
    tasks = [trial.begin() for trial in trials]
    await asyncio.sleep(1.0)
    first = [trial for trial in trials if len(trial.opened) == 2]
    assert len(first) == len(sage.adapter.opened) == 8
    for trial in first:
        trial.exchange.cancel(CancelReason.CALLER_LEFT)

    ended = await asyncio.gather(*tasks, return_exceptions=True)

    served = [ending for ending in ended if isinstance(ending, Ending)]
    assert {ending.outcome for ending in served} == {Outcome.SERVED}
    assert len(served) == 32
    assert seconds_passed() <= 3.0


LIMITED = make_target(quota=Quota(requests_per_minute=1))


def used(live, target=LIMITED):
    return live.queues.queue_of(target, ask()).meter


async def test_a_target_at_its_quota_is_waited_for_and_the_slot_comes_back():
    live = LiveStatistics(seconds_passed)
    first, second = (Trial(reach(LIMITED), live=live) for _ in range(2))
    await first.run()

    ending = await second.run()

    assert ending == Ending(Outcome.SERVED, 200)
    assert second.facts == ["Queued", "Dequeued", "AttemptOpened", "FirstByte", "AttemptEnded"]
    assert (used(live).requests, used(live).in_flight) == (1, 0)


@pytest.mark.parametrize("script", [BROKEN, BUSY, fails(UpstreamUnreachable("spark", "no line"))])
async def test_a_slot_comes_back_however_an_attempt_fails(script):
    trial = Trial(reach(LIMITED, script), reach(SAGE), spill=["sage"])

    await trial.run()

    assert (used(trial.live).requests, used(trial.live).in_flight) == (1, 0)


async def test_a_slot_comes_back_when_the_caller_leaves_in_the_middle():
    trial = Trial(reach(LIMITED, hangs))
    task = trial.begin()
    await asyncio.sleep(1)

    trial.exchange.cancel(CancelReason.CALLER_LEFT)
    await asyncio.wait([task])

    assert (used(trial.live).requests, used(trial.live).in_flight) == (1, 0)


async def test_what_a_target_could_only_misunderstand_takes_nothing_of_its_quota():
    view = make_view({"input": "x", "previous_response_id": "resp_1"}, Dialect.RESPONSES)
    trial = Trial(reach(LIMITED), view=view)

    with pytest.raises(BadRequest):
        await trial.run()

    assert (used(trial.live).requests, used(trial.live).in_flight) == (0, 0)


async def test_from_a_full_quota_a_request_goes_on_at_once_and_no_failure_is_counted():
    live, target = LiveStatistics(seconds_passed), make_target(quota=Quota(requests_per_minute=1, max_wait_seconds=5))
    await Trial(reach(target), live=live).run()
    trial = Trial(reach(target), reach(SAGE), spill=["sage"], live=live)

    await trial.run()

    assert (seconds_passed(), trial.attempts) == (0.0, [("sage", 200, None)])
    assert trial.headers["x-tandem-because"].startswith(
        "spark is at its quota of 1 request a minute for another 61 s, so sage answers: "
    )
    assert live.chances([target], "spark", 0.0).standing("spark") is Track.PROVEN


async def test_a_second_attempt_waits_for_the_quota_too():
    trial = Trial(reach(LIMITED, BROKEN, answers()))

    ending = await trial.run()

    assert ending.outcome is Outcome.SERVED
    assert seconds_passed() > 60
    assert trial.attempts == [("spark", 500, "upstream_refused"), ("spark", 200, None)]


async def test_when_a_target_begins_to_rest_those_who_wait_for_its_turn_go_elsewhere():
    live, one_at_once = LiveStatistics(seconds_passed), make_target(quota=Quota(in_flight=1))
    spark, sage = reach(one_at_once, BROKEN), reach(SAGE)
    trials = [Trial(spark, sage, spill=["sage"], live=live, name=f"req_{number}") for number in range(12)]

    endings = await asyncio.gather(*(trial.begin() for trial in trials))

    assert {ending.outcome for ending in endings} == {Outcome.SERVED}
    assert len(spark.adapter.opened) == 5
    assert trials[-1].headers["x-tandem-because"].startswith("spark rests after 5 failures in a row, so sage answers: ")


NO_OPTIONS = answers({"error": {"message": "Unknown parameter: 'stream_options'", "param": "stream_options"}}, 400)
EXTRA = answers({"detail": [{"loc": ["body", "stream_options"], "msg": "Extra inputs are not permitted"}]}, 422)
WRONG = answers({"detail": [{"loc": ["body", "tools"], "input": {}}]}, 422)
ENGINE_END = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"timings":{"predicted_n":9,"prompt_n":1}}\n\n'


@pytest.mark.parametrize("refusal", [NO_OPTIONS, EXTRA])
@pytest.mark.parametrize("view", [ask(stream=True), make_view({"input": "x", "stream": True}, Dialect.RESPONSES)])
async def test_a_target_that_refuses_to_be_asked_for_usage_serves_the_request_without_that(refusal, view):
    spark = reach(SPARK, refusal, streams())
    trial = Trial(spark, reach(OWL), view=view)

    ending = await trial.run()

    assert ending == Ending(Outcome.SERVED, 200)
    assert [("stream_options" in body) for body in spark.adapter.bodies] == [True, False]
    await Trial(spark, view=view).run()
    assert "stream_options" not in spark.adapter.bodies[-1]


async def test_a_request_that_was_under_way_when_another_found_it_out_is_sent_again_too():
    spark = reach(SPARK, NO_OPTIONS, NO_OPTIONS, streams())
    trials = [Trial(spark, view=ask(stream=True), name=f"req_{number}") for number in range(2)]

    endings = await asyncio.gather(*(trial.run() for trial in trials))

    assert endings == [Ending(Outcome.SERVED, 200)] * 2


async def test_a_caller_whose_own_options_are_refused_is_told_so():
    spark = reach(SPARK, NO_OPTIONS)
    trial = Trial(spark, view=ask(stream=True, stream_options={"include_usage": True}))

    with pytest.raises(UpstreamRefused):
        await trial.run()

    assert len(spark.adapter.opened) == 1


async def test_a_target_that_goes_on_refusing_is_asked_no_third_time():
    spark = reach(SPARK, NO_OPTIONS)

    with pytest.raises(UpstreamRefused):
        await Trial(spark, view=ask(stream=True)).run()

    assert len(spark.adapter.opened) == 2


async def test_a_refusal_that_only_quotes_the_request_does_not_end_the_question_for_others():
    """vLLM quotes the whole body where a field of it is wrong, and with that the question for usage."""
    spark = reach(
        SPARK, answers({"detail": [{"loc": ["body", "tools"], "input": {"stream_options": {}}}]}, 422), WRONG, streams()
    )

    with pytest.raises(UpstreamRefused):
        await Trial(spark, view=ask(stream=True)).run()
    await Trial(spark, view=ask(stream=True)).run()

    assert [("stream_options" in body) for body in spark.adapter.bodies] == [True, False, True]


async def test_the_stream_of_an_engine_that_tells_unasked_is_left_as_it_is_from_the_second_on():
    spark = reach(SPARK, streams(chat_frame("a"), ENGINE_END, b"data: [DONE]\n\n"))
    first, second = Trial(spark, view=ask(stream=True)), Trial(spark, view=ask(stream=True))

    await first.run()
    await second.run()

    assert [("stream_options" in body) for body in spark.adapter.bodies] == [True, False]
    assert second.sink.body == chat_frame("a") + ENGINE_END + b"data: [DONE]\n\n"
    assert [fact.usage.output_tokens for fact in second.exchange.journal if isinstance(fact, AttemptEnded)] == [9]


class Dialler:
    """An adapter that keeps whom it was to dial."""

    def __init__(self, dialled: list[str]) -> None:
        self.dialled = dialled

    def open(self, request, sink): ...

    def connect_ahead(self, target) -> None:
        self.dialled.append(target.name)


def make_ahead(*names: str) -> tuple[Preconnector, list[str]]:
    dialled: list[str] = []
    reachable = {name: Reachable(make_target(name), Dialler(dialled), name, Fit()) for name in names}
    return Preconnector(reachable), dialled


def decided(target: str | None = None, rival: str = "") -> Decided:
    session = SessionSnapshot("s", SessionState(target=target), SessionPosition(), {}, 1)
    return Decided(make_view({"messages": [{"role": "user", "content": "hi"}]}), session, make_decision(rival=rival))


def test_the_first_request_of_a_session_has_all_others_dialled_and_not_its_own_target():
    ahead, dialled = make_ahead("spark", "sage", "other")

    ahead.look(decided(), 0.0)

    assert decided().decision.targets[0] == "spark"
    assert dialled == ["sage", "other"]


def test_a_later_request_has_only_a_rival_dialled():
    ahead, dialled = make_ahead("spark", "sage")
    ahead.look(decided("spark"), 0.0)
    assert dialled == []

    ahead.look(decided("spark", rival="sage"), 0.0)
    assert dialled == ["sage"]


def test_requests_are_looked_at_once_in_a_second():
    ahead, _ = make_ahead("spark")
    assert ahead.due < 0

    ahead.look(decided("spark"), 7.0)

    assert ahead.due == 8.0


def test_of_many_targets_the_first_eight_are_dialled():
    ahead, dialled = make_ahead(*(f"t{number}" for number in range(20)))

    ahead.connect()

    assert dialled == [f"t{number}" for number in range(8)]
