"""Deep plans and fast edits, through a router: sessions as each client sends them (see `recorded_plans` in `tests/router`)."""

import pytest

from tests.conftest import SIMULATED
from tests.tools.http import call
from tests.tools.keyed import swap
from tests.tools.planners import Aider, ClaudeCode, Cline, Codex, Opencode

PLAN_ON = SIMULATED + "combine: {plan: on}\n"
QUICK = "Fix the typo in the word retrun in calc.py"
LONG = (
    "Refactor the entire billing module: migrate all files to the new API, rewrite the test suite and investigate the deadlock"
)
PLANNING = "planning on deep"
EDITS = "plan accepted; edits on fast until something fails"
MOVED = "plan accepted; edits moved up to deep"

CLIENTS = pytest.mark.parametrize("client", [ClaudeCode, Codex, Opencode, Cline], ids=lambda kind: kind.__name__)


class Walk:
    """Sends a client's requests, and keeps for each its tier, and what headers, explanation and ledger say of the plan."""

    def __init__(self, tandem, client, **headers: str) -> None:
        self.tandem, self.client, self.more = tandem, client, {f"x-tandem-{name}": value for name, value in headers.items()}
        self.tiers: list[str] = []

    async def send(self) -> tuple[str, str | None]:
        client, headers = self.client, {**self.client.headers, **self.more}
        body = client.body()
        explained = (await call(self.tandem.port, "/tandem/explain", body, headers)).json
        reply = await call(self.tandem.port, client.path, body, headers)
        assert reply.status == 200, reply.body
        tier, because = reply.headers["x-tandem-tier"], reply.headers["x-tandem-because"]
        kept = (await call(self.tandem.port, f"/tandem/decisions/{reply.headers['x-tandem-request-id']}")).json
        assert (explained["tier"], explained["combined"]) == (tier, kept["combined"])
        assert kept["combined"] is None or kept["combined"] in because
        assert not (kept["combined"] and ("the client is planning" in because or "the plan is accepted" in because))
        self.tiers.append(tier)
        return tier, kept["combined"]


@CLIENTS
@pytest.mark.parametrize("ask", [QUICK, LONG], ids=["quick", "long"])
async def test_a_plan_is_made_on_deep_and_carried_out_on_fast(start, client, ask):
    client = client()
    walk = Walk(await start(PLAN_ON), client)
    client.ask(ask, plans=True)
    seen = [await walk.send()]
    client.work()
    seen.append(await walk.send())
    client.accept()
    seen.append(await walk.send())
    client.edit()
    seen.append(await walk.send())

    assert seen == [("deep", PLANNING)] * 2 + [("fast", EDITS)] * 2


@pytest.mark.parametrize("client", [ClaudeCode, Codex, Opencode], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("ask", [QUICK, LONG], ids=["quick", "long"])
async def test_edits_that_fail_move_up_to_deep_and_stay_there(start, client, ask):
    client = client()
    walk = Walk(await start(PLAN_ON), client)
    client.ask(ask, plans=True)
    await walk.send()
    client.accept()
    await walk.send()
    client.edit()
    await walk.send()
    seen = []
    for _ in range(3):
        client.fail()
        seen.append(await walk.send())
    client.edit()
    seen.append(await walk.send())
    client.work()
    seen.append(await walk.send())

    assert seen == [("fast", EDITS)] * 2 + [("deep", MOVED)] * 3


@CLIENTS
async def test_a_refused_plan_is_planned_again_on_deep(start, client):
    client = client()
    walk = Walk(await start(PLAN_ON), client)
    client.ask(LONG, plans=True)
    seen = [await walk.send()]
    client.refuse("Also add docs")
    seen.append(await walk.send())
    client.accept()
    seen.append(await walk.send())

    assert seen == [("deep", PLANNING), ("deep", PLANNING), ("fast", EDITS)]


@CLIENTS
async def test_a_new_ask_ends_the_plan(start, client):
    client = client()
    walk = Walk(await start(PLAN_ON), client)
    client.ask(QUICK, plans=True)
    await walk.send()
    client.accept()
    await walk.send()
    client.edit()
    await walk.send()
    client.finish()
    client.ask(LONG)
    new = await walk.send()
    client.edit()

    assert [new, await walk.send()] == [("deep", None)] * 2


async def plan_and_accept(walk: Walk, ask: str = LONG) -> list[tuple[str, str | None]]:
    walk.client.ask(ask, plans=True)
    seen = [await walk.send()]
    walk.client.accept()
    return [*seen, await walk.send()]


async def test_a_person_who_asks_for_a_tier_gets_it_in_every_phase(start):
    tandem = await start(PLAN_ON)

    assert await plan_and_accept(Walk(tandem, ClaudeCode(), tier="fast")) == [("fast", None)] * 2
    assert await plan_and_accept(Walk(tandem, ClaudeCode(), tier="deep")) == [("deep", None)] * 2


@CLIENTS
async def test_with_plan_off_nothing_of_it_happens(start, client):
    tandem = await start(SIMULATED)

    assert [combined for _, combined in await plan_and_accept(Walk(tandem, client()))] == [None, None]


async def test_a_header_has_it_on_or_off_for_its_requests(start):
    tandem = await start(SIMULATED)

    by_header = await plan_and_accept(Walk(tandem, ClaudeCode(), combine="plan"))
    swap(tandem, PLAN_ON)
    others = [await plan_and_accept(Walk(tandem, ClaudeCode(), combine=word)) for word in ("off", "look")]

    assert by_header == [("deep", PLANNING), ("fast", EDITS)]
    assert others == [[("deep", None)] * 2] * 2


async def test_edits_stay_on_deep_where_fast_would_have_to_read_a_long_conversation(start):
    slow_reader = PLAN_ON.replace("prefill_tokens_per_second: 60000}", "prefill_tokens_per_second: 1500}", 1)
    client = ClaudeCode()
    walk = Walk(await start(slow_reader), client)
    client.ask(QUICK, plans=True)
    await walk.send()
    client.work(output="def divide(a, b): return a / b\n" * 8_000)
    await walk.send()
    client.accept()
    seen = [await walk.send()]
    client.edit()
    seen.append(await walk.send())

    assert seen == [("deep", "plan accepted; deep has the edits done sooner")] * 2


async def test_a_model_that_begins_to_plan_in_the_middle_of_a_turn_hands_it_to_deep_and_gets_the_edits_back(start):
    client = ClaudeCode()
    walk = Walk(await start(PLAN_ON), client)
    client.ask(QUICK)
    seen = [await walk.send()]
    client.work("EnterPlanMode")
    client.mode = "plan"
    seen.append(await walk.send())
    client.accept()
    seen.append(await walk.send())

    assert seen == [("fast", None), ("deep", PLANNING), ("fast", EDITS)]


async def test_a_mark_that_comes_and_goes_with_every_request_does_not_move_the_turn_each_time(start):
    tandem = await start(PLAN_ON)
    cline, claude = Walk(tandem, Cline()), Walk(tandem, ClaudeCode())
    for walk in (cline, claude):
        walk.client.ask(LONG, plans=True)
        await walk.send()
    for number in range(8):
        cline.client.mode = "PLAN" if number % 2 else "ACT"
        claude.client.mode = "plan" if number % 2 else "default"
        for walk in (cline, claude):
            walk.client.work()
            await walk.send()

    assert cline.tiers == ["deep", "fast", *["deep"] * 7]
    assert claude.tiers == ["deep"] * 9


async def test_after_a_compaction_the_edits_go_on_where_they_were(start):
    client = ClaudeCode()
    walk = Walk(await start(PLAN_ON), client)
    await plan_and_accept(walk)
    client.edit()
    summary = "This session is being continued from a previous conversation that ran out of context. Refactor everything."
    client.messages = [{"role": "user", "content": summary}, *client.messages[-2:]]
    seen = [await walk.send()]
    client.edit()

    assert [*seen, await walk.send()] == [("fast", EDITS)] * 2


@pytest.mark.parametrize(("before", "after"), [(PLAN_ON, SIMULATED), (SIMULATED, PLAN_ON)], ids=["switched off", "switched on"])
async def test_a_turn_that_is_planned_keeps_what_it_began_with_over_a_reload(start, before, after):
    client = ClaudeCode()
    walk = Walk(await start(before), client)
    client.ask(LONG, plans=True)
    await walk.send()
    swap(walk.tandem, after)
    client.accept()
    accepted = await walk.send()
    client.finish()
    next_turn = await plan_and_accept(walk)

    assert accepted == (("fast", EDITS) if before is PLAN_ON else ("deep", None))
    assert next_turn == ([("deep", PLANNING), ("fast", EDITS)] if after is PLAN_ON else [("deep", None)] * 2)


ARCHITECT = "Act as an expert architect engineer and provide direction to your editor engineer."
EDITOR = "Act as an expert software developer who edits source code."
CODER = "Act as an expert software developer.\nTake requests for changes to the supplied code."


async def test_aiders_architect_is_deep_and_its_editor_fast(start):
    tandem = await start(PLAN_ON)
    calls = [(ARCHITECT, QUICK), (EDITOR, LONG), (ARCHITECT, "Also add docs"), (CODER, QUICK), (CODER, LONG)]

    seen = [await Walk(tandem, Aider(system, words)).send() for system, words in calls]

    assert seen == [("deep", PLANNING), ("fast", EDITS), ("deep", PLANNING), ("fast", None), ("deep", None)]


async def test_the_explanation_says_that_a_client_has_no_plan_mode(start):
    tandem = await start(PLAN_ON)
    body = {"model": "auto", "messages": [{"role": "user", "content": QUICK}]}

    told = (await call(tandem.port, "/tandem/explain", body, {"user-agent": "QwenCode/0.24.4"})).json

    reasons = [item["because"] for item in told["evidence"] if item["policy"] == "plan_then_edit"]
    assert reasons == ["this client shows no plan mode that Tandem knows, so combine: plan does nothing"]
    assert (told["tier"], told["combined"]) == ("fast", None)
