"""The road: facts in their order, an end that is noted once whatever happens, and plans that are swapped under it."""

import asyncio
import contextlib
import json
import sys
import threading

import pytest

from policies.override import OverridePolicy
from policies.window import WindowPolicy
from router.contract.caller import LOCAL
from router.contract.exchange import CancelReason
from router.contract.facts import AttemptOpened, Decided, Ending, FirstByte, Read, Recorded, Settled
from router.contract.target import Quota
from router.contract.words import Dialect, Operation, Outcome, Tier
from router.dialects.requests import read_request
from router.house import House
from router.sessions.turns import read_turn
from tests.tools.exchanges import RecordingSink
from tests.tools.houses import Counter, Walk, arrive, make_house, make_plan
from tests.tools.loop_clock import seconds_passed
from tests.tools.scripted import answers, hangs, reach, streams
from tests.tools.upstream import SEEN_CHAT_STREAM, chat_frame
from tests.tools.values import make_target

pytestmark = pytest.mark.jumping_clock

SPARK, OWL, SAGE = make_target(), make_target("owl"), make_target("sage", Tier.DEEP)
SERVED = ["Read", "Decided", "AttemptOpened", "FirstByte", "AttemptEnded", "Settled", "Recorded"]
RESPONSE = {
    "id": "resp_1",
    "object": "response",
    "output": [{"type": "message", "content": []}],
    "usage": {"input_tokens": 1, "output_tokens": 1},
}


def ending_of(walk: Walk):
    """How it ended: noted once, last but for its entry, with nothing left under way."""
    (settled,) = [fact for fact in walk.exchange.journal if isinstance(fact, Settled)]
    assert walk.facts[-2:] == ["Settled", "Recorded"]
    assert walk.facts.count("Recorded") == 1
    return settled.ending


def in_flight(house: House) -> int:
    return sum(status.in_flight for status in house.state.live.statuses(dict(house.plan.targets), 1e9).values())


async def test_a_served_request_is_read_decided_tried_and_settled_in_this_order():
    house = make_house(reach(SPARK), reach(SAGE))
    walk = Walk(house)

    await walk.task

    assert walk.facts == SERVED
    assert ending_of(walk) == Ending(Outcome.SERVED, 200)
    assert walk.headers["x-tandem-target"] == "spark"
    assert (house.state.running, in_flight(house)) == (set(), 0)


@pytest.mark.parametrize(("words", "is_in_thread"), [("fix it", False), ("x" * 600_000, True)])
async def test_only_a_large_body_is_read_in_a_thread_so_that_others_need_not_wait_for_it(monkeypatch, words, is_in_thread):
    readers: list[threading.Thread] = []

    def read(*given):
        readers.append(threading.current_thread())
        return read_request(*given)

    monkeypatch.setattr("router.house.read_request", read)
    walk = Walk(make_house(reach(SPARK), reach(SAGE)), messages=[{"role": "user", "content": words}])

    await walk.task

    assert ending_of(walk).outcome is Outcome.SERVED
    assert [reader is not threading.current_thread() for reader in readers] == [is_in_thread]


async def test_a_large_body_that_cannot_be_read_is_refused_as_any_other():
    walk = Walk(make_house(reach(SPARK), reach(SAGE)), raw=b'{"model": "auto", "messages": [' + b'{"role": 1}, ' * 60_000)

    await walk.task

    assert (ending_of(walk).outcome, walk.sink.status) == (Outcome.REFUSED, 400)


async def test_a_caller_who_leaves_when_all_is_said_was_served_though_its_target_keeps_the_line_open():
    house = make_house(reach(SPARK, streams(ends=False)), reach(SAGE))
    walk = Walk(house, stream=True)
    await asyncio.sleep(1)

    walk.exchange.cancel(CancelReason.CALLER_LEFT)

    await walk.task
    assert ending_of(walk) == Ending(Outcome.SERVED, 200)
    assert in_flight(house) == 0


async def test_a_request_is_under_way_from_its_beginning_to_its_end():
    house = make_house(reach(SPARK, hangs), reach(SAGE))
    walk = Walk(house)
    await asyncio.sleep(1)

    assert house.state.running == {walk.exchange}
    walk.exchange.cancel(CancelReason.CALLER_LEFT)
    with pytest.raises(asyncio.CancelledError):
        await walk.task

    assert house.state.running == set()


@pytest.mark.parametrize(
    ("given", "status", "facts"),
    [
        ({"raw": b"{"}, 400, ["Settled", "Recorded"]),
        ({"model": "nobody-knows-this"}, 404, ["Read", "Settled", "Recorded"]),
        ({"headers": {"x-tandem-tier": "huge"}}, 400, ["Settled", "Recorded"]),
    ],
    ids=["no JSON", "no such model", "no such tier"],
)
async def test_a_refusal_on_the_way_is_told_and_settled_with_what_it_came_to(given, status, facts):
    house = make_house(reach(SPARK), reach(SAGE))
    walk = Walk(house, **given)

    await walk.task

    assert walk.facts == facts
    assert (ending_of(walk).outcome, ending_of(walk).status) == (Outcome.REFUSED, status)
    assert walk.sink.status == status
    assert "req_1" in walk.sink.body.decode()


async def test_when_every_target_fails_the_caller_is_told_and_the_request_has_failed():
    broken = answers({}, 500)
    house = make_house(reach(SPARK, broken), reach(SAGE, broken))
    walk = Walk(house)

    await walk.task

    assert (ending_of(walk).outcome, walk.sink.status) == (Outcome.FAILED, 502)
    assert walk.facts.count("AttemptEnded") == 2
    assert in_flight(house) == 0


@pytest.mark.parametrize("script", [hangs, streams(chat_frame("a"), ends=False)], ids=["before the first byte", "after it"])
async def test_a_caller_who_leaves_has_abandoned_the_request(script):
    house = make_house(reach(SPARK, script), reach(SAGE))
    walk = Walk(house, stream=True)
    await asyncio.sleep(1)

    walk.exchange.cancel(CancelReason.CALLER_LEFT)

    with pytest.raises(asyncio.CancelledError):
        await walk.task
    assert ending_of(walk) == Ending(Outcome.ABANDONED, 499)
    assert in_flight(house) == 0


async def test_a_task_that_is_cancelled_without_a_reason_is_abandoned_too():
    walk = Walk(make_house(reach(SPARK, hangs), reach(SAGE)))
    await asyncio.sleep(1)

    walk.task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await walk.task
    assert ending_of(walk).outcome is Outcome.ABANDONED


async def test_stopping_refuses_what_has_not_begun_and_cuts_what_has_and_waits_for_both():
    waiting, streaming = reach(SPARK, hangs, streams(chat_frame("a"), ends=False)), reach(SAGE)
    house = make_house(waiting, streaming)
    unanswered, begun = Walk(house, name="req_a"), None
    await asyncio.sleep(1)
    begun = Walk(house, name="req_b", stream=True)
    await asyncio.sleep(1)

    await house.stop(within_seconds=5)

    assert unanswered.task.done()
    assert begun.task.done()
    assert (ending_of(unanswered).outcome, unanswered.sink.status) == (Outcome.FAILED, 503)
    assert (ending_of(begun).outcome, ending_of(begun).status) == (Outcome.CUT_SHORT, 200)
    assert ending_of(begun).error.code == "unavailable"
    assert b"shutting down" in begun.sink.body
    assert (house.state.running, in_flight(house)) == (set(), 0)
    assert begun.task.cancelled()


async def test_stopping_waits_no_longer_than_it_is_told_to():
    house = make_house(reach(SPARK, hangs), reach(SAGE))
    walk = Walk(house)
    await asyncio.sleep(1)

    async def hold_on() -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(100)
        await asyncio.sleep(100)

    stubborn = asyncio.get_running_loop().create_task(hold_on())
    await asyncio.sleep(0)
    walk.exchange.run_by(stubborn)

    await house.stop(within_seconds=5)

    assert seconds_passed() == 6
    assert not stubborn.done()
    for task in (walk.task, stubborn):
        task.cancel()
    await asyncio.gather(walk.task, stubborn, return_exceptions=True)


class Panic(BaseException):
    """What an extension in Rust raises where it panics."""


async def test_a_panic_in_a_library_is_settled_as_a_failure_and_reaches_the_edge_as_an_error_that_it_answers():
    walk = Walk(make_house(reach(SPARK, Panic("thread panicked")), reach(SAGE)))

    with pytest.raises(RuntimeError, match="^Panic$"):
        await walk.task

    assert (ending_of(walk).outcome, ending_of(walk).status) == (Outcome.FAILED, 500)


async def test_a_defect_on_the_road_is_settled_as_a_failure_and_passes_on():
    walk = Walk(make_house(reach(SPARK, KeyError("a defect of ours")), reach(SAGE)))

    with pytest.raises(KeyError):
        await walk.task

    assert (ending_of(walk).outcome, ending_of(walk).status) == (Outcome.FAILED, 500)
    assert walk.facts == ["Read", "Decided", "AttemptOpened", "AttemptEnded", "Settled", "Recorded"]


@pytest.mark.parametrize("keeps_text", [True, False])
async def test_texts_are_kept_if_the_plan_says_so_and_the_answer_is_the_same_either_way(keeps_text):
    walk = Walk(make_house(reach(SPARK, streams()), reach(SAGE), keeps_text=keeps_text), stream=True)

    await walk.task

    assert walk.sink.body == SEEN_CHAT_STREAM
    assert walk.facts[-1] == "Recorded"
    entry = walk.exchange.last(Recorded).entry
    assert walk.exchange.last(Settled).answer == (walk.sink.body if keeps_text else None)
    assert entry.prompt_text == (walk.exchange.arrival.raw.decode() if keeps_text else None)
    assert entry.answer_text == (walk.sink.body.decode() if keeps_text else None)


class Outermost(RecordingSink):
    """A caller's end that takes down which sinks each event came through, the target's first."""

    def __init__(self) -> None:
        super().__init__()
        self.ways: set[tuple[str, ...]] = set()

    def write(self, data) -> None:
        super().write(data)
        way: list[object] = []
        frame = sys._getframe(1)
        while frame is not None:
            sink = frame.f_locals.get("self")
            if hasattr(sink, "feed_from") and sink not in way:
                way.append(sink)
            frame = frame.f_back
        self.ways.add(tuple(type(sink).__name__ for sink in reversed(way)))


async def test_an_answer_passes_at_most_four_sinks_with_everything_on():
    """A bridge, a quota that is waited for, texts that are kept, a key, and a response that may be continued from."""
    limited = make_target(quota=Quota(requests_per_minute=1))
    house = make_house(reach(limited, streams()), keeps_text=True)
    house.state.live.queues.follow(house.plan.targets)
    asked = {"dialect": Dialect.RESPONSES, "stream": True, "model": "spark", "headers": {"idempotency-key": "k"}}
    await Walk(house, **{**asked, "headers": {}}).task
    walk = Walk(house, sink=Outermost(), name="req_2", **asked)
    await walk.task
    again = Walk(house, name="req_3", **asked)
    await again.task

    assert walk.sink.ways == {("TranslatingSink", "Relay", "WaitingSink", "WatchedSink")}
    assert (ending_of(walk).outcome, walk.facts.count("ResponseCompleted")) == (Outcome.SERVED, 1)
    assert [type(fact).__name__ for fact in (walk.sink.facts[0], walk.sink.facts[-1])] == ["Waiting", "Serving"]
    assert walk.exchange.last(Settled).answer == walk.sink.body == again.sink.body
    assert again.headers["x-tandem-target"] == "spark"


async def test_a_plain_answer_passes_the_relay_alone():
    walk = Walk(make_house(reach(SPARK), reach(SAGE)), sink=Outermost())
    await walk.task

    assert walk.sink.ways == {("Relay",)}


async def test_a_count_that_needs_no_target_is_read_answered_and_settled():
    house = make_house(reach(SPARK), reach(SAGE), counter=Counter(42))
    walk = Walk(house, dialect=Dialect.RESPONSES, operation=Operation.COUNT_TOKENS)

    await walk.task

    assert walk.facts == ["Read", "AnsweredHere", "Settled", "Recorded"]
    assert json.loads(walk.sink.body)["input_tokens"] == 42
    assert ending_of(walk).outcome is Outcome.SERVED


async def test_a_compaction_is_the_summary_of_a_target_and_is_settled_after_it_is_sent():
    summary = {**RESPONSE, "output": [{"type": "message", "content": [{"type": "output_text", "text": "all done"}]}]}
    talks = make_target(speaks=frozenset({Dialect.RESPONSES}))
    walk = Walk(make_house(reach(talks, answers(summary)), reach(SAGE)), dialect=Dialect.RESPONSES, operation=Operation.COMPACT)

    await walk.task

    assert json.loads(walk.sink.body)["object"] == "response.compaction"
    assert ending_of(walk).outcome is Outcome.SERVED


async def test_a_compaction_without_a_summary_is_a_failure_that_the_caller_is_told_of():
    talks = make_target(speaks=frozenset({Dialect.RESPONSES}))
    walk = Walk(
        make_house(reach(talks, answers({**RESPONSE, "output": []})), reach(SAGE)),
        dialect=Dialect.RESPONSES,
        operation=Operation.COMPACT,
    )

    await walk.task

    assert (ending_of(walk).outcome, walk.sink.status) == (Outcome.FAILED, 502)
    assert "did not write a summary" in walk.sink.body.decode()


async def test_the_whole_decision_is_told_to_who_asks_for_it():
    walk = Walk(make_house(reach(SPARK), reach(SAGE)), headers={"x-tandem-explain": "full"})

    await walk.task

    told = json.loads(walk.headers["x-tandem-explain"])
    assert (told["tier"], told["drops"]) == ("fast", {})


async def test_a_first_line_is_heeded_unless_the_plan_says_otherwise_and_is_sent_as_it_was_typed():
    because = {}
    for hears_lines in (True, False):
        reachable = reach(SPARK)
        policies = (OverridePolicy(OverridePolicy.Config()),)
        house = make_house(reachable, reach(SAGE), policies=policies, hears_lines=hears_lines)
        walk = Walk(house, messages=[{"role": "user", "content": "tier: fast\nfix it"}])
        await walk.task
        because[hears_lines] = walk.headers["x-tandem-because"]
        assert reachable.adapter.bodies[0]["messages"][0]["content"] == "tier: fast\nfix it"

    assert because[True] == "the first line asks for fast" != because[False]


@pytest.mark.parametrize("line", ["tier: fast", "TİER: fast"])
async def test_what_is_explained_of_a_first_line_is_what_is_served(line):
    house = make_house(reach(SPARK), reach(SAGE))
    body = {"model": "auto", "messages": [{"role": "user", "content": f"{line}\nmigrate the whole code base"}]}
    raw = json.dumps(body, ensure_ascii=False).encode()
    walk = Walk(house, raw=raw)
    await walk.task

    decided = await house.decide(arrive(raw=raw))

    served = walk.exchange.last(Decided)
    assert (decided.decision.turn.line, decided.decision.tier) == (served.decision.turn.line, served.decision.tier)


@pytest.mark.parametrize("dialect", [Dialect.CHAT, Dialect.MESSAGES, Dialect.RESPONSES])
@pytest.mark.parametrize("is_streaming", [True, False])
async def test_a_message_that_is_only_a_tier_line_is_answered_here_and_costs_nothing(dialect, is_streaming):
    reachable = reach(SPARK)
    house = make_house(reachable, reach(SAGE))
    given = (
        {"input": "tier: fast"} if dialect is Dialect.RESPONSES else {"messages": [{"role": "user", "content": "tier: fast"}]}
    )

    walk = Walk(house, dialect=dialect, max_tokens=9, stream=is_streaming, **given)
    await walk.task

    assert ending_of(walk) == Ending(Outcome.SERVED, 200)
    assert walk.facts == ["Read", "AnsweredHere", "Settled", "Recorded"]
    line = walk.exchange.last(Recorded).entry.line
    assert (line.outcome, line.target, line.cost_usd, line.attempts) == ("SERVED", None, 0.0, 0)
    assert (line.session, line.turn_kind) == (read_turn(walk.exchange.last(Read).view).session, "ask")
    assert b"Your next message goes to fast." in walk.sink.body
    assert walk.headers["content-type"].startswith("text/event-stream" if is_streaming else "application/json")
    assert reachable.adapter.bodies == []


async def test_a_tier_line_alone_under_a_name_that_is_not_known_is_refused_like_any_request():
    walk = Walk(make_house(reach(SPARK), reach(SAGE)), model="nobody", messages=[{"role": "user", "content": "tier: fast"}])

    await walk.task

    assert ending_of(walk).status == 404


async def test_each_turn_of_a_chain_of_responses_is_served_as_its_own_line_or_the_lone_one_before_it_asks():
    reachable = {name: reach(target, *[answers()] * 9) for name, target in (("fast", SPARK), ("deep", SAGE))}
    house = make_house(*reachable.values(), policies=(OverridePolicy(OverridePolicy.Config()),))
    ids: list[str] = []

    async def say(words: str, previous: str | None) -> str | None:
        more = {"previous_response_id": previous} if previous else {}
        walk = Walk(house, name=f"req_{len(ids)}", dialect=Dialect.RESPONSES, input=words, **more)
        await walk.task
        ids.append(json.loads(walk.sink.body)["id"])
        return walk.headers["x-tandem-because"] if "x-tandem-tier" in walk.headers else None

    fast, deep = "the first line asks for fast", "the first line asks for deep"
    assert await say("tier: deep", None) is None
    assert await say("begin", ids[0]) == deep
    assert await say("tier: fast\nfix it", ids[1]) == fast
    assert await say("go on", ids[2]) not in (fast, deep)
    assert "tier: deep" in json.dumps(reachable["deep"].adapter.bodies)


async def test_deciding_alone_calls_nobody_and_remembers_nothing():
    reachable = reach(SPARK)
    house = make_house(reachable, reach(SAGE))

    decided = await house.decide(arrive(headers={"x-tandem-session": "s"}))
    explained = await house.explain(arrive(logit_bias={"5": 1}))

    assert (decided.decision.tier, explained["tier"]) == (Tier.FAST, "fast")
    assert explained["drops"] == {}
    assert reachable.adapter.opened == []
    assert house.state.observers.facts == []
    view = read_request(arrive(headers={"x-tandem-session": "s"}))
    assert (await house.state.memory.recall(view, read_turn(view))).state.tier is None


async def test_explaining_says_what_each_target_of_the_tier_would_lose():
    talks = make_target("owl", speaks=frozenset({Dialect.MESSAGES}))
    house = make_house(reach(SPARK), reach(talks), reach(SAGE))

    explained = await house.explain(arrive(logit_bias={"5": 1}))

    assert list(explained["drops"]) == ["owl"]
    assert "logit_bias" in explained["drops"]["owl"]


@pytest.mark.parametrize(("tokens", "served"), [(90_000, "spark"), (140_000, "sage")])
async def test_tokens_are_counted_where_the_estimate_cannot_decide_and_the_count_decides(tokens, served):
    policy = WindowPolicy(WindowPolicy.Config())
    counter = Counter(tokens)
    house = make_house(reach(SPARK), reach(SAGE), counter=counter, policies=(policy,))
    walk = Walk(house, messages=[{"role": "user", "content": "words of a long paste " * 26_000}])

    await walk.task

    assert counter.asked == 1
    assert walk.headers["x-tandem-target"] == served


LONG = [{"role": "user", "content": "words of a long paste " * 24_000}]


async def test_a_late_count_leaves_the_choice_to_the_estimate_and_the_answer_and_the_ledger_report_it():
    counter = Counter(140_000, takes_seconds=0.05)
    house = make_house(reach(SPARK), reach(SAGE), counter=counter, policies=(WindowPolicy(WindowPolicy.Config()),))
    late = Walk(house, messages=LONG)

    await late.task

    told = await house.state.entries.find_decision("req_1", LOCAL)
    low, high = told["prompt_tokens_range"]
    assert low < told["prompt_tokens"] < 128_000 < high
    assert (late.headers["x-tandem-target"], told["prompt_tokens_exact"]) == ("spark", False)
    assert late.headers["x-tandem-because"].endswith("an estimate, as the exact count was not ready in time")


async def test_a_late_count_teaches_the_next_request_of_its_session():
    counter = Counter(140_000, takes_seconds=0.05)
    house = make_house(reach(SPARK), reach(SAGE), counter=counter, policies=(WindowPolicy(WindowPolicy.Config()),))
    session = {"x-tandem-session": "s"}
    await Walk(house, messages=LONG, headers=session).task

    later = Walk(house, name="req_2", messages=LONG, headers=session)
    await later.task

    told = await house.state.entries.find_decision("req_2", LOCAL)
    assert (told["tier"], told["prompt_tokens"], told["prompt_tokens_range"], counter.asked) == ("deep", 140_000, None, 1)


async def test_no_request_is_refused_by_an_estimate_while_a_count_is_on_its_way():
    counter = Counter(90_000, takes_seconds=2.0)
    house = make_house(reach(SPARK), counter=counter, policies=(WindowPolicy(WindowPolicy.Config()),))
    walk = Walk(house, messages=[{"role": "user", "content": "words of a long paste " * 28_000}])

    await walk.task

    assert walk.headers["x-tandem-target"] == "spark"
    assert (await house.state.entries.find_decision("req_1", LOCAL))["prompt_tokens_exact"]


async def test_an_explanation_waits_for_a_count_that_a_request_would_not_wait_for():
    counter = Counter(140_000, takes_seconds=2.0)
    house = make_house(reach(SPARK), reach(SAGE), counter=counter, policies=(WindowPolicy(WindowPolicy.Config()),))

    explained = await house.explain(arrive(messages=LONG))

    assert (explained["prompt_tokens"], explained["prompt_tokens_exact"]) == (140_000, True)
    assert explained["prompt_tokens_range"] is None


@pytest.mark.parametrize(
    ("times", "tier", "prepared"),
    [(15_000, "fast", 0), (18_500, "fast", 1), (18_500, "deep", 0)],
    ids=["half of fast's window", "two thirds of it", "two thirds of it, on deep"],
)
async def test_counting_is_prepared_once_the_window_of_the_target_that_serves_is_filling_up(times, tier, prepared):
    counter = Counter()
    house = make_house(reach(SPARK), reach(SAGE), counter=counter, policies=(OverridePolicy(OverridePolicy.Config()),))
    paste = [{"role": "user", "content": "words of a long paste " * times}]

    await Walk(house, headers={"x-tandem-tier": tier}, messages=paste).task

    assert (counter.asked, counter.prepared) == (0, prepared)


async def test_tokens_are_not_counted_where_the_estimate_decides():
    counter = Counter(5)
    walk = Walk(make_house(reach(SPARK), reach(SAGE), counter=counter))

    await walk.task

    assert counter.asked == 0


async def test_the_deadline_is_the_plans_and_runs_from_the_beginning():
    house = make_house(reach(SPARK, hangs), reach(SAGE, hangs), deadline_seconds=20.0)
    walk = Walk(house)

    await walk.task

    assert seconds_passed() == 20
    assert (ending_of(walk).outcome, walk.sink.status) == (Outcome.FAILED, 504)


def tier_remembered(house: House, session: str):
    view = read_request(arrive(headers={"x-tandem-session": session}))
    return house.state.memory.recall(view, read_turn(view))


async def test_requests_under_way_keep_their_plan_when_another_takes_its_place():
    """Even for what they try next: the old plan's second target, which the new one does not know."""
    sinks = []
    slower = make_target("owl", typical=SPARK.typical._replace(tokens_per_second=500))  # an equal one would share
    first, second = reach(SPARK, sinks.append), reach(slower)
    house = make_house(first, second, reach(SAGE))
    walks = [Walk(house, name=f"req_{number}") for number in range(8)]
    await asyncio.sleep(1)

    house.swap(make_plan(reach(make_target("swift")), reach(SAGE)))
    later = Walk(house, name="req_later")
    await later.task
    for sink in sinks:
        answers({}, 500)(sink)
    await asyncio.gather(*(walk.task for walk in walks))

    assert later.headers["x-tandem-target"] == "swift"
    assert {walk.headers["x-tandem-target"] for walk in walks} == {"owl"}
    assert {ending_of(walk).outcome for walk in (*walks, later)} == {Outcome.SERVED}
    assert all(walk.facts.count("AttemptEnded") == 2 for walk in walks)


class Pausing(Counter):
    """Counts only once it is told to."""

    def __init__(self) -> None:
        super().__init__(90_000)
        self.may_count = asyncio.Event()

    async def count(self, view, *how):
        await self.may_count.wait()
        return await super().count(view, *how)


async def test_a_request_that_is_not_decided_yet_keeps_the_plan_that_it_began_with():
    counter = Pausing()
    house = make_house(reach(SPARK), reach(SAGE), counter=counter, policies=(WindowPolicy(WindowPolicy.Config()),))
    walk = Walk(house, messages=[{"role": "user", "content": "words of a long paste " * 26_000}])
    await asyncio.sleep(1)

    house.swap(make_plan(reach(make_target("swift")), reach(SAGE)))
    counter.may_count.set()
    await walk.task

    assert walk.headers["x-tandem-target"] == "spark"


async def test_a_swap_keeps_sessions_figures_responses_and_decisions():
    talks = make_target(speaks=frozenset({Dialect.RESPONSES}))

    def late(sink):
        asyncio.get_running_loop().call_later(3, streams(), sink)

    house = make_house(reach(talks, answers(RESPONSE)), reach(SAGE, late), base_rate=0.999)
    deep = Walk(house, name="req_deep", headers={"x-tandem-session": "s"}, stream=True)
    kept = Walk(house, name="req_kept", dialect=Dialect.RESPONSES, model="spark")
    await asyncio.gather(deep.task, kept.task)
    slow = house.state.live.statuses(house.plan.targets, 3.1)["sage"].speed.ttft_seconds

    house.swap(make_plan(reach(talks, answers(RESPONSE)), reach(SAGE), base_rate=0.001))

    assert deep.headers["x-tandem-tier"] == "deep"
    assert (await tier_remembered(house, "s")).state.tier == "deep"
    assert slow > 2
    assert house.state.live.statuses(house.plan.targets, 3.1)["sage"].speed.ttft_seconds == slow
    assert (await house.state.responses.find("resp_1", LOCAL)) is not None
    assert (await house.state.entries.find_decision("req_deep", LOCAL))["tier"] == "deep"
    again = Walk(house, name="req_again")
    await again.task
    assert again.headers["x-tandem-tier"] == "fast"


async def test_what_is_under_way_through_a_swap_is_counted_where_the_new_plan_knows_its_target():
    house = make_house(reach(SPARK, hangs), reach(SAGE))
    walk = Walk(house)
    await asyncio.sleep(1)

    house.swap(make_plan(reach(make_target(window_tokens=9_000)), reach(SAGE)))

    assert in_flight(house) == 1
    walk.exchange.cancel(CancelReason.CALLER_LEFT)
    await asyncio.gather(walk.task, return_exceptions=True)
    assert in_flight(house) == 0


class Late:
    """Takes down how far the caller had been served when a fact was noted."""

    def __init__(self) -> None:
        self.seen, self.sink = [], None

    def handlers(self):
        return dict.fromkeys((AttemptOpened, FirstByte, Settled), self.note)

    def note(self, exchange, fact) -> None:
        self.seen.append((type(fact).__name__, list(self.sink.words)))


async def test_the_end_is_noted_when_the_caller_has_everything():
    late = Late()
    house = make_house(reach(SPARK), reach(SAGE), observers=(late,))
    walk = Walk(house)
    late.sink = walk.sink

    await walk.task

    assert late.seen[-1] == ("Settled", ["feed_from", "start", "write", "end"])


async def test_two_houses_share_nothing():
    one, other = make_house(reach(SPARK), reach(SAGE)), make_house(reach(SPARK), reach(SAGE))
    long = [{"role": "user", "content": f"message {number} " * 100} for number in range(20)]
    walk = Walk(one, headers={"x-tandem-session": "s"}, messages=long)

    await walk.task

    assert other.state.observers.facts == []
    assert (len(one.state.histories.bodies), len(other.state.histories.bodies)) == (1, 0)
    assert (await tier_remembered(other, "s")).state.tier is None
    assert (await tier_remembered(one, "s")).state.tier == "fast"
