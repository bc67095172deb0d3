"""When a turn is looked at, and how its answer ends then."""

import asyncio
import json

import pytest
from msgspec.structs import replace

from router.contract.combine import LookTell, LookTerms
from router.contract.exchange import CancelReason
from router.contract.facts import Decided, QuestionEnded, Settled
from router.contract.spending import as_units
from router.contract.words import Tier, TurnKind
from router.dispatch.dispatch import Dispatcher
from router.dispatch.live.statistics import LiveStatistics
from router.dispatch.streaming import HEARTBEAT
from router.limits.callers import NO_LIMITS
from router.look.asking import Asker
from router.look.looking import Looker
from router.look.looks import Looks
from router.sessions.turns import read_turn
from tests.tools.exchanges import RecordingSink, make_decided, make_decision, make_exchange, make_snapshot
from tests.tools.loop_clock import jumping_clock, seconds_passed
from tests.tools.scripted import HandClock, answers, hangs, reach, streams
from tests.tools.upstream import CHAT_ANSWER, GOOD_CHAT_STREAM
from tests.tools.upstream import SEEN_CHAT_STREAM as PLAIN
from tests.tools.values import PRICE, make_signals, make_target, make_view, stand
from tests.tools.waiting import later, until

NOON = 1_800_014_400.0
OBJECTION = {"fine": False, "objections": [{"file": "src/app.py", "line": 3, "breaks": "total is None", "sure": "likely"}]}
BLOCK = "deep looked this over:\n1) `src/app.py`, line 3: “total is None” (likely)\nSay *fix it* and deep does."
SPARK, SAGE = make_target(), make_target("sage", Tier.DEEP, price=PRICE)


def say(text) -> object:
    message = {"role": "assistant", "content": text if isinstance(text, str) else json.dumps(text)}
    return answers({**CHAT_ANSWER, "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})


def after(seconds: float, script):
    return lambda sink: asyncio.get_running_loop().call_later(seconds, script, sink)


def edited(number: int = 0, *, printed: str = "", **body):
    """A request after one edit of a turn."""
    arguments = json.dumps({"file_path": "src/app.py", "old_string": "1", "new_string": str(number)})
    call = {"id": "c1", "type": "function", "function": {"name": "Edit", "arguments": arguments}}
    messages = [
        {"role": "user", "content": f"make it {number}"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "ok"},
    ]
    if printed:
        ran = {"id": "c2", "type": "function", "function": {"name": "bash", "arguments": '{"command": "pytest"}'}}
        messages += [
            {"role": "assistant", "content": None, "tool_calls": [ran]},
            {"role": "tool", "tool_call_id": "c2", "content": printed},
        ]
    return make_view({"messages": messages, "stream": True, **body})


def decide(view, *, combining="look:always", tier=Tier.FAST, **turn) -> Decided:
    read = replace(read_turn(view), **turn)
    signals = replace(make_signals(stand(SPARK), stand(SAGE)), turn=read)
    targets = ("spark",) if tier is Tier.FAST else ("sage",)
    decision = make_decision(tier, targets, signals=signals, turn=read, combining=combining, weighing=None)
    return make_decided(view, decision, make_snapshot())


class Router:
    """Both tiers, scripted, and a looker, as the house calls them."""

    def __init__(self, *deep, fast=(), clock=None, tell=LookTell.ANSWER, daily_usd=2.0, max_seconds=20.0) -> None:
        self.clock = clock or asyncio.get_running_loop().time
        self.spark, self.sage = reach(SPARK, *(fast or (streams(),))), reach(SAGE, *deep)
        self.looks, self.kept, self.running = Looks(now=HandClock(NOON)), [], set()
        reachable = {"spark": self.spark, "sage": self.sage}
        terms = LookTerms(tell=tell, daily_usd=daily_usd, max_seconds=max_seconds)
        asker = Asker(reachable, NO_LIMITS, self.looks, daily_usd, self.clock)
        self.objected = []
        self.looker = Looker(
            terms,
            asker,
            self.looks,
            self.clock,
            running=self.running,
            new_id=lambda: "req_look",
            keep_job=self._keep,
            note_objections=self.objected.append,
        )
        self.dispatcher = Dispatcher(reachable, max_response_bytes=1 << 20, clock=self.clock)
        self.live = LiveStatistics()
        self.facts = []

    async def _keep(self, exchange, session, title, text) -> None:
        self.kept.append((session, title, text))

    def begin(self, decided=None):
        decided, exchange, sink = decided or decide(edited()), make_exchange(began=self.clock()), RecordingSink()
        exchange.observers.facts = self.facts
        exchange.note(decided)
        serving = later(self.looker.send(self.dispatcher.send, exchange, decided, sink, self.live))
        exchange.run_by(serving)
        return exchange, sink, serving

    async def serve(self, decided=None):
        exchange, sink, serving = self.begin(decided)
        await serving
        return exchange, sink

    @property
    def asked(self) -> int:
        return len(self.sage.adapter.opened)


def text_of(body: bytes) -> str:
    frames = [json.loads(line[6:]) for line in body.split(b"\n") if line.startswith(b"data: {")]
    return "".join(choice["delta"].get("content") or "" for frame in frames for choice in frame["choices"])


def look_of(exchange):
    return exchange.last(Decided).decision.look


async def test_objections_are_added_to_the_answer_and_recorded_with_their_cost():
    exchange, sink = await Router(say(OBJECTION)).serve()

    assert text_of(sink.body).startswith("ab")
    assert text_of(sink.body).endswith(BLOCK)
    look, decision = look_of(exchange), exchange.last(Decided).decision
    assert (look.target, look.end, look.objections) == ("sage", "objections", 1)
    assert decision.combined == "deep looked it over: 1 objection"
    (asked,) = [fact for fact in exchange.journal if isinstance(fact, QuestionEnded)]
    assert look.cost_usd == asked.attempt.cost_usd > 0
    assert sink.told[-1] == ("end",)


@pytest.mark.parametrize(
    ("script", "end"),
    [
        (say({"fine": True}), "fine"),
        (say("I would rather talk."), "odd"),
        (say("x" * 2_000_000), "odd"),
        (say({"objections": [{"file": "other.py", "breaks": "it all"}]}), "odd"),
        (answers({"error": {"message": "no"}}, status=500), "failed"),
    ],
)
async def test_without_a_usable_objection_the_answer_is_as_it_was(script, end):
    exchange, sink = await Router(script).serve()

    assert sink.body == PLAIN
    assert look_of(exchange).end == end


@jumping_clock
async def test_a_late_look_ends_the_answer_when_its_seconds_are_over():
    exchange, sink = await Router(hangs, max_seconds=7.0).serve()

    assert seconds_passed() == pytest.approx(7.0, abs=0.3)
    assert sink.body.replace(HEARTBEAT, b"") == PLAIN
    assert (look_of(exchange).end, look_of(exchange).seconds) == ("late", pytest.approx(7.0, abs=0.3))


@pytest.mark.parametrize(("reason", "end"), [(CancelReason.CALLER_LEFT, "left"), (CancelReason.SUPERSEDED, "superseded")])
async def test_a_caller_who_leaves_while_the_end_is_held_ends_the_look(reason, end):
    router = Router(hangs)
    exchange, sink, serving = router.begin()
    await until(lambda: router.asked)

    exchange.cancel(reason)
    ending = await serving

    assert (ending.status, look_of(exchange).end) == (200, end)
    assert router.sage.adapter.calls[0].is_cancelled
    assert sink.body == PLAIN


NOT_LOOKED_AT = {
    "off": decide(edited(), combining=""),
    "plan alone": decide(edited(), combining="plan"),
    "on deep": decide(edited(), tier=Tier.DEEP),
    "no edits": decide(make_view({"messages": [{"role": "user", "content": "hi"}], "stream": True})),
    "green": decide(edited(printed="3 passed in 0.1s")),
    "structured": decide(edited(response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": {}}})),
    "json": decide(edited(response_format={"type": "json_object"})),
    "two answers": decide(edited(n=2)),
    "subagent": decide(edited(), kind=TurnKind.SUBAGENT),
    "auto": decide(edited(), combining="look:auto"),
}


@pytest.mark.parametrize("decided", NOT_LOOKED_AT.values(), ids=NOT_LOOKED_AT)
async def test_other_turns_are_not_looked_at(decided):
    router = Router(say(OBJECTION), fast=(streams(),))
    if decided.decision.tier is Tier.DEEP:
        router.sage.adapter.scripts = [streams()]

    exchange, sink = await router.serve(decided)

    assert router.asked == (decided.decision.tier is Tier.DEEP)
    assert look_of(exchange) is None
    assert sink.body == PLAIN


CALL = {
    "id": "c",
    "choices": [
        {
            "index": 0,
            "delta": {"tool_calls": [{"index": 0, "id": "c9", "function": {"name": "bash", "arguments": "{}"}}]},
            "finish_reason": "tool_calls",
        }
    ],
}


async def test_an_answer_with_a_tool_call_is_not_looked_at():
    piece = b"data: " + json.dumps(CALL).encode() + b"\n\n"
    router = Router(say(OBJECTION), fast=(streams(GOOD_CHAT_STREAM[0], piece, b"data: [DONE]\n\n"),))

    exchange, _ = await router.serve()

    assert (router.asked, look_of(exchange)) == (0, None)


async def test_with_auto_a_turn_of_three_edits_is_looked_at():
    view = edited()
    messages = view.body["messages"]
    three = make_view({"messages": [*messages, *messages[1:], *messages[1:]], "stream": True})
    router = Router(say({"fine": True}))

    await router.serve(decide(three, combining="look:auto"))

    assert router.asked == 1


async def test_a_turn_is_looked_at_once():
    router = Router(say(OBJECTION))

    _, first = await router.serve()
    exchange, second = await router.serve()
    await router.serve(decide(edited(7)))

    assert (router.asked, look_of(exchange)) == (2, None)
    assert first.body != second.body == PLAIN


async def test_a_deep_tier_that_may_not_look_is_recorded_as_a_refusal():
    router = Router(say(OBJECTION))
    decided = decide(edited())
    closed = replace(decided.decision.signals.statuses["sage"], closed_seconds=60.0)
    signals = replace(decided.decision.signals, statuses={**decided.decision.signals.statuses, "sage": closed})

    exchange, sink = await router.serve(replace(decided, decision=replace(decided.decision, signals=signals)))

    assert (look_of(exchange).end, router.asked, sink.body) == ("refused", 0, PLAIN)


async def test_a_defect_of_the_look_leaves_the_answer_as_it_was():
    router, reported = Router(say(OBJECTION)), []
    router.looks.begin = lambda key: 1 / 0
    exchange, sink, serving = router.begin()
    exchange.observers.report = lambda _, error: reported.append(error)

    ending = await serving

    assert (ending.status, sink.body, [type(error) for error in reported]) == (200, PLAIN, [ZeroDivisionError])


async def test_later_nothing_is_held_and_objections_become_a_job_with_a_row_of_its_own():
    router = Router(after(0.0, say(OBJECTION)), tell=LookTell.LATER)

    exchange, sink = await router.serve()

    assert sink.body == PLAIN
    assert look_of(exchange) is None
    await until(lambda: any(isinstance(fact, Settled) for fact in router.facts))
    assert router.kept == [(exchange.last(Decided).decision.turn.session, "deep objects: make it 0", BLOCK)]
    assert router.objected == [exchange.last(Decided)]
    assert router.running == set()


async def test_the_row_of_a_later_look_repeats_nothing_of_the_turns_own():
    router = Router(say({"fine": True}), tell=LookTell.LATER)
    decided, settled = decide(edited()), []
    decided = replace(decided, decision=replace(decided.decision, combined="plan accepted", look_before="acted on"))
    exchange, _, serving = router.begin(decided)
    exchange.observers.handlers[Settled].append(lambda own, _: settled.append(own))
    await serving

    await until(lambda: settled)

    decision = settled[0].last(Decided).decision
    assert (decision.combined, decision.look_before, decision.look.end) == ("deep looked it over: fine", "", "fine")
    assert (decision.tier, decision.turn.kind) == (Tier.DEEP, TurnKind.SIDE)


async def test_later_a_turn_that_is_fine_makes_no_job():
    router = Router(say({"fine": True}), tell=LookTell.LATER)

    await router.serve()

    await until(lambda: any(isinstance(fact, Settled) for fact in router.facts))
    assert router.kept == []


@jumping_clock
async def test_200_turns_at_a_slow_deep_target_stay_within_their_money_and_their_seconds():
    """Every third answer of deep takes longer than anybody waits."""
    scripts = [after(delay, say(OBJECTION)) for delay in (4.0, 19.9, 60.0)] * 70
    router = Router(*scripts, daily_usd=0.05, max_seconds=20.0)
    began, ends = {}, {}

    async def serve(number: int) -> None:
        exchange, _, serving = router.begin(decide(edited(number)))
        began[number] = seconds_passed()
        await serving
        ends[number] = (seconds_passed() - began[number], look_of(exchange).end, look_of(exchange).cost_usd)
        again = router.begin(decide(edited(number)))
        await again[2]
        assert look_of(again[0]) is None

    for start in range(0, 200, 20):
        await asyncio.gather(*map(serve, range(start, start + 20)))

    results = [end for _, end, _ in ends.values()]
    budget = await router.looks.hold(0, as_units(0.05))
    assert len(ends) == 200
    assert max(seconds for seconds, *_ in ends.values()) <= 20.3
    assert budget.spent <= as_units(0.05)
    assert as_units(sum(cost or 0.0 for *_, cost in ends.values())) <= as_units(0.05)
    assert {"objections", "late", "over budget"} <= set(results)
    assert router.asked == len(results) - results.count("over budget")
