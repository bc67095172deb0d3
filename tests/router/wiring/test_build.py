"""The composition root: who observes before whom, and that plans come and go on one state."""

import asyncio
import json
import threading
from pathlib import Path

import pytest

from router.config.load import check_config
from router.contract.caller import LOCAL
from router.contract.exchange import Arrival
from router.contract.stores import StoreUnusable
from router.contract.words import Dialect, Operation, Tier
from router.dispatch.live.statistics import LiveStatistics
from router.house import House
from router.responses.keep import ResponseKeeper
from router.responses.repeats import Repeats
from router.sense.exact import ExactCounter
from router.sessions.memory import SessionMemory
from router.settle.record import Recorder
from router.stores.memory.responses import MemoryResponses
from router.telemetry.log import RequestLog
from router.upstream.pool import Pool
from router.wiring import build
from router.wiring.build import build_house, build_plan, known_names
from tests.conftest import SIMULATED
from tests.tools.exchanges import RecordingSink
from tests.tools.running import read_entries
from tests.tools.sessions import TURN_STATE, codex, look
from tests.tools.waiting import until

OTHER = SIMULATED.replace("simulated-fast", "swift").replace("{path: test.db}", "{path: test.db, keep_text: true}") + (
    "limits: {deadline_seconds: 77, max_in_flight: 3}\nin_band_line: false\nspill_over: false\n"
)


def load(text: str, folder: Path):
    return check_config(text, "test", folder, known_names())


def request(name: str = "req_1", **more) -> Arrival:
    body = {"model": "auto", "messages": [{"role": "user", "content": "fix the typo"}], **more}
    return Arrival(name, Dialect.CHAT, Operation.CREATE, {"x-tandem-session": "s"}, json.dumps(body).encode())


async def serve(house: House, arrival: Arrival) -> dict[str, str]:
    sink = RecordingSink()
    await asyncio.wait_for(house.serve(house.begin(arrival), sink), 30)
    assert sink.status == 200
    return dict(sink.headers)


async def test_each_fact_is_told_to_memory_before_the_ledger_and_to_the_ledger_before_the_log(tmp_path, monkeypatch):
    told: list[tuple[str, str]] = []

    def watched(name, handler):
        def handle(exchange, fact):
            told.append((type(fact).__name__, name))
            handler(exchange, fact)

        return handle

    for observer in (SessionMemory, LiveStatistics, ResponseKeeper, Recorder, RequestLog):

        def handlers(self, *, own=observer.handlers, name=observer.__name__):
            return {kind: watched(name, handler) for kind, handler in own(self).items()}

        monkeypatch.setattr(observer, "handlers", handlers)
    built = build_house(load(SIMULATED, tmp_path), with_ledger=False)

    await serve(built.house, request(stream=True))
    await built.close()

    assert told == [
        ("AttemptOpened", "LiveStatistics"),
        ("FirstByte", "SessionMemory"),
        ("FirstToken", "LiveStatistics"),
        ("AttemptEnded", "LiveStatistics"),
        ("Settled", "SessionMemory"),
        ("Settled", "Recorder"),
        ("Recorded", "SessionMemory"),
        ("Recorded", "RequestLog"),
    ]


async def test_a_plan_holds_what_its_config_says(built, tmp_path):
    loaded = load(OTHER, tmp_path)

    plan = build_plan(loaded, built.house.state)

    assert list(plan.targets) == ["swift", "simulated-deep"]
    assert [target.tier for target in plan.targets.values()] == [Tier.FAST, Tier.DEEP]
    assert (plan.deadline_seconds, plan.limits.max_in_flight) == (77, 3)
    assert (plan.keeps_text, plan.hears_lines, plan.rules.spill_over) == (True, False, False)
    assert plan.rules.config_fingerprint == loaded.fingerprint
    assert [policy.name for policy in plan.rules.policies] == [name for name, _ in loaded.policies]
    assert plan.limits == loaded.config.limits
    assert plan.models.resolve("quick").target == "swift"


async def test_two_plans_on_one_state_share_what_is_remembered_and_nothing_else(built, tmp_path):
    house, first = built.house, built.house.plan
    state = house.state
    assert (await serve(house, request("req_1")))["x-tandem-target"] == "simulated-fast"

    house.swap(build_plan(load(OTHER, tmp_path), state))

    assert (await serve(house, request("req_2")))["x-tandem-target"] == "swift"
    assert house.state is state
    assert not {id(adapter) for adapter in first.dispatcher.adapters} & {id(each) for each in house.plan.dispatcher.adapters}
    assert set(state.live.statuses(house.plan.targets, 0.0)) == {"swift", "simulated-deep"}
    assert set(state.live.statuses(first.targets, 0.0)) == {"simulated-fast", "simulated-deep"}
    for name in ("req_1", "req_2"):
        assert (await state.entries.find_decision(name, LOCAL))["request_id"] == name


async def test_closing_writes_the_entries_of_all_plans_to_one_ledger(tmp_path):
    loaded = load(SIMULATED, tmp_path)
    built = build_house(loaded)
    await serve(built.house, request("req_1"))
    built.house.swap(build_plan(load(OTHER, tmp_path), built.house.state))
    await serve(built.house, request("req_2"))

    await built.close()

    rows = read_entries(loaded.ledger_path)
    assert [(row["id"], row["target"], row["prompt_text"] is not None) for row in rows] == [
        ("req_1", "simulated-fast", False),
        ("req_2", "swift", True),
    ]


async def test_closing_cuts_off_what_is_under_way_and_still_records_it(tmp_path):
    slow = SIMULATED.replace("ttft_seconds: 0.005", "ttft_seconds: 60")
    loaded = load(slow, tmp_path)
    built = build_house(loaded)
    sink, exchange = RecordingSink(), built.house.begin(request())
    task = asyncio.get_running_loop().create_task(built.house.serve(exchange, sink))
    exchange.run_by(task)
    await until(lambda: len(exchange.journal) >= 3)

    await built.close()

    assert task.done()
    assert sink.status == 503
    assert [(row["outcome"], row["status"]) for row in read_entries(loaded.ledger_path)] == [("FAILED", 503)]


async def test_the_house_stops_first_and_every_store_closes_after_what_writes_to_it(tmp_path, monkeypatch):
    closed: list[str] = []

    def noting(owner, method):
        own = getattr(owner, method)

        def note(self, *given):
            closed.append(owner.__name__)
            return own(self, *given)

        monkeypatch.setattr(owner, method, note)

    noting(House, "stop")
    for part in (Pool, ExactCounter, Recorder, MemoryResponses, SessionMemory, Repeats):
        noting(part, "close")
    built = build_house(load(SIMULATED, tmp_path))

    await built.close()
    await built.close()

    assert closed == ["House", "Pool", "ExactCounter", "Recorder", "MemoryResponses", "SessionMemory", "Repeats"]


@pytest.mark.parametrize("failing", ["open_responses", "build_plan"])
async def test_a_part_that_fails_to_open_leaves_nothing_open(tmp_path, monkeypatch, failing):
    def fail(*_, **__):
        raise StoreUnusable("broken")

    monkeypatch.setattr(build, failing, fail)
    before = set(threading.enumerate())

    with pytest.raises(StoreUnusable, match="broken"):
        build_house(load(SIMULATED, tmp_path))

    for thread in set(threading.enumerate()) - before:
        thread.join(5)
    assert set(threading.enumerate()) <= before
    assert [path.name for path in tmp_path.iterdir() if path.name.endswith("-wal")] == []


async def test_a_turn_goes_on_over_a_restart_that_forgot_its_session(tmp_path):
    view = codex()
    arrival = Arrival("req_1", Dialect.RESPONSES, Operation.CREATE, {**view.headers, "x-tandem-tier": "deep"}, view.raw)
    before = build_house(load(SIMULATED, tmp_path))
    token = (await serve(before.house, arrival))[TURN_STATE]
    await before.close()
    (tmp_path / "test.db").unlink()

    after = build_house(load(SIMULATED, tmp_path))
    found = await look(after.house.state.memory, codex(token))
    await after.close()

    assert (found.position.tier, found.position.is_running) == (Tier.DEEP, True)


async def test_a_house_without_a_ledger_touches_no_file_and_still_knows_its_last_decisions(tmp_path):
    built = build_house(load(SIMULATED, tmp_path), with_ledger=False)

    await serve(built.house, request("req_1"))
    found = await built.house.state.entries.find_decision("req_1", LOCAL)
    await built.close()

    assert found["request_id"] == "req_1"
    assert list(tmp_path.iterdir()) == []


def test_a_config_may_name_every_policy_adapter_and_client_that_there_is():
    known = known_names()

    assert {"simulated", "openai_http", "anthropic_http", "litellm"} <= set(known.adapters)
    assert {"window", "override", "learned"} <= set(known.policies)
    assert {"codex", "claude-code"} <= set(known.clients)


async def test_the_policy_for_subagents_is_in_use_only_where_the_config_names_a_tier(built, tmp_path):
    def names(text):
        return [policy.name for policy in build_plan(load(text, tmp_path), built.house.state).rules.policies]

    assert "subagent" not in names(SIMULATED)
    assert "subagent" in names(SIMULATED + "subagents: deep\n")


async def test_rules_are_asked_only_where_the_config_has_some(built, tmp_path):
    def names(text):
        return [policy.name for policy in build_plan(load(text, tmp_path), built.house.state).rules.policies]

    assert "rules" not in names(SIMULATED)
    assert "rules" in names(SIMULATED + "rules: [{when: {words: [bump]}, tier: fast}]\n")


async def test_background_work_alone_is_asked_about_by_its_policy(built):
    plan = built.house.plan

    usual, background = plan.rules.policies, plan.for_background().rules.policies

    assert "background" not in [policy.name for policy in usual]
    assert [policy.name for policy in background] == [*(policy.name for policy in usual), "background"]
    assert plan.for_background().dispatcher is plan.dispatcher
