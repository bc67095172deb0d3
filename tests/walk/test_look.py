"""Deep looks over what fast did: whole requests, their rows, money and jobs."""

import asyncio
import json
from datetime import UTC, datetime

import pytest

from tests.tools.http import call
from tests.tools.keyed import KEYS, Callers
from tests.tools.running import running, two_targets
from tests.tools.upstream import CHAT_ANSWER, GOOD_CHAT_STREAM, SEEN_CHAT_STREAM, answer_json, silent, stream
from tests.tools.waiting import later, until

PATH = "/v1/chat/completions"
PRICES = {"fast_extra": "price: {input: 1, output: 10},", "deep_extra": "price: {input: 3, output: 30},"}
OBJECTION = {"fine": False, "objections": [{"file": "src/app.py", "line": 3, "breaks": "total is None", "sure": "likely"}]}
BLOCK = "deep looked this over:\n1) `src/app.py`, line 3: “total is None” (likely)\nSay *fix it* and deep does."
QUESTION = b"Look it over before the person builds on it"


LOOK_USD = (1_000 * 3 + 300 * 30) / 1e6


def saying(text):
    """An answer of deep's that costs `LOOK_USD`."""
    message = {"role": "assistant", "content": text if isinstance(text, str) else json.dumps(text)}
    usage = {"prompt_tokens": 1_000, "completion_tokens": 300, "total_tokens": 1_300}
    choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
    return answer_json({**CHAT_ANSWER, "choices": choices, "usage": usage})


def edited(ask="fix the typo in this line: retrun x", **more) -> dict:
    arguments = json.dumps({"file_path": "src/app.py", "old_string": "retrun", "new_string": "return"})
    edit = {"id": "c1", "type": "function", "function": {"name": "Edit", "arguments": arguments}}
    messages = [
        {"role": "user", "content": ask},
        {"role": "assistant", "content": None, "tool_calls": [edit]},
        {"role": "tool", "tool_call_id": "c1", "content": "ok"},
    ]
    return {"model": "auto", "messages": messages, **more}


@pytest.fixture
def build(start, upstream, other_upstream):
    """A Tandem whose deep target objects."""

    async def build(combine="{look: always}", *, extra="", **more):
        upstream.scripts = [stream(*GOOD_CHAT_STREAM)]
        other_upstream.scripts = [saying(OBJECTION)]
        config = two_targets(upstream.base_url, other_upstream.base_url, **PRICES, extra=f"combine: {combine}\n{extra}")
        return await start(config, **more)

    return build


async def ask(tandem, body=None, **headers):
    return await call(tandem.port, PATH, body or edited(stream=True), headers={"x-tandem-session": "s1", **headers})


def text_of(reply) -> str:
    frames = [line[6:] for line in reply.body.split(b"\n") if line.startswith(b"data: {")]
    return "".join(choice["delta"].get("content") or "" for frame in frames for choice in json.loads(frame)["choices"])


async def test_objections_are_added_to_fasts_answer_and_the_row_says_so(build, upstream, other_upstream):
    tandem = await build()

    reply = await ask(tandem)

    assert reply.headers["x-tandem-target"] == "spark"
    assert text_of(reply).startswith("ab")
    assert text_of(reply).endswith(BLOCK)
    (question,) = other_upstream.seen
    assert QUESTION in question.body
    assert b"retrun" in question.body
    (row,) = await tandem.entries()
    assert (row["tier"], row["target"], row["combined"]) == ("fast", "spark", "deep looked it over: 1 objection")
    look, (served, looked) = json.loads(row["decision"])["look"], json.loads(row["attempts"])
    assert (look["target"], look["end"], look["objections"]) == ("sage", "objections", 1)
    assert look["cost_usd"] == looked["cost_usd"] == pytest.approx(LOOK_USD)
    assert row["cost_usd"] == pytest.approx(served["cost_usd"] + looked["cost_usd"])


async def test_an_answer_that_is_fine_has_the_bytes_of_one_that_was_not_looked_at(build, other_upstream):
    tandem = await build()
    other_upstream.scripts = [saying({"fine": True})]

    assert (await ask(tandem)).body == SEEN_CHAT_STREAM

    (row,) = await tandem.entries()
    assert row["combined"] == "deep looked it over: fine"


async def test_a_deep_target_that_is_silent_holds_the_end_for_max_seconds(build, other_upstream):
    tandem = await build("{look: {when: always, max_seconds: 0.2}}")
    other_upstream.scripts = [silent]

    assert (await ask(tandem)).body == SEEN_CHAT_STREAM

    (row,) = await tandem.entries()
    assert row["combined"] == "deep was too late to look it over"
    assert json.loads(row["decision"])["look"]["seconds"] <= 0.5


async def test_looks_of_a_day_cost_no_more_than_daily_usd_also_after_a_restart(upstream, other_upstream, tmp_path):
    upstream.scripts, other_upstream.scripts = [stream(*GOOD_CHAT_STREAM)], [saying(OBJECTION)]
    zone = f"Etc/GMT{datetime.now(UTC).hour - 12:+d}"  # about noon there: no day ends during the test
    extra = f"combine: {{look: {{when: always, daily_usd: 0.05}}}}\nbudgets: {{time_zone: {zone}}}"
    config = two_targets(upstream.base_url, other_upstream.base_url, **PRICES, extra=extra)
    asked = []
    for run in range(2):
        async with running(config, tmp_path) as tandem:
            for number in range(10):
                await ask(tandem, edited(f"fix the typo {run} in line {number:03}: retrun x", stream=True))
            rows = await tandem.entries(10 * (run + 1))
            asked.append(len(other_upstream.seen))

    looks = [json.loads(row["decision"])["look"] for row in rows]
    assert asked[0] == sum(look["end"] == "objections" for look in looks[:10])
    assert 0 < asked[0] < 10
    assert asked[1] == asked[0]
    assert {look["end"] for look in looks[10:]} == {"over budget"}
    assert sum(look.get("cost_usd") or 0.0 for look in looks) <= 0.05


async def test_a_look_is_paid_from_its_callers_budget_and_counted_once(start, upstream, other_upstream, tmp_path):
    upstream.scripts, other_upstream.scripts = [stream(*GOOD_CHAT_STREAM)], [saying(OBJECTION)]
    callers = Callers(tmp_path, ada={"daily_usd": 5}, bob={"daily_usd": 0.012})
    extra = f"combine: {{look: always}}{KEYS}"
    tandem = await start(two_targets(upstream.base_url, other_upstream.base_url, **PRICES, extra=extra))

    await ask(tandem, edited("fix the typo: retrun x", stream=True), **callers["ada"])
    await ask(tandem, edited("fix the typo: retrun x", stream=True), **callers["bob"])

    rows = {row["caller"]: row for row in await tandem.entries(2)}
    spent = tandem.house.state.budgets.picture("ada")["day"]
    assert rows["ada"]["combined"] == "deep looked it over: 1 objection"
    assert spent["spent_usd"] == pytest.approx(rows["ada"]["cost_usd"])
    assert spent["held_usd"] == 0
    assert rows["bob"]["combined"] == "deep did not look it over: there is too little left of a budget"
    assert len(other_upstream.seen) == 1


async def test_a_key_that_may_not_combine_or_is_not_for_deep_gets_no_look(start, upstream, other_upstream, tmp_path):
    upstream.scripts, other_upstream.scripts = [stream(*GOOD_CHAT_STREAM)], [saying(OBJECTION)]
    callers = Callers(tmp_path, ada={"may_combine": False}, bob={"tiers": ["fast"]})
    extra = f"combine: {{look: always}}{KEYS}"
    tandem = await start(two_targets(upstream.base_url, other_upstream.base_url, **PRICES, extra=extra))

    for caller in ("ada", "bob"):
        assert (await ask(tandem, **callers[caller])).body == SEEN_CHAT_STREAM

    assert other_upstream.seen == []


async def test_the_look_uses_the_callers_own_key_and_keeps_it_nowhere(start, upstream, other_upstream, tmp_path):
    upstream.scripts, other_upstream.scripts = [stream(*GOOD_CHAT_STREAM)], [saying(OBJECTION)]
    own = {"fast_extra": "api_key: caller,", "deep_extra": "api_key: caller,"}
    extra = "combine: {look: {when: always, tell: later}}"
    tandem = await start(two_targets(upstream.base_url, other_upstream.base_url, **own, extra=extra))

    await ask(tandem, authorization="Bearer canary-key-of-the-caller")

    await until(lambda: tandem.house.state.ended_jobs.list_all())
    assert other_upstream.seen[0].headers["authorization"] == "Bearer canary-key-of-the-caller"
    assert "x-tandem-upstream-key" not in other_upstream.seen[0].headers
    await tandem.entries(2)
    kept = [path for path in tmp_path.rglob("*") if path.is_file() and b"canary-key" in path.read_bytes()]
    assert kept == []


async def test_a_prompt_of_the_operators_own_takes_the_place_of_the_question(build, other_upstream, tmp_path):
    (tmp_path / "look.txt").write_text("Judge it as a poet would.")
    tandem = await build("{look: {when: always, prompt: look.txt}}")

    await ask(tandem)

    assert b"Judge it as a poet would." in other_upstream.seen[0].body
    assert QUESTION not in other_upstream.seen[0].body
    assert b"one JSON object" in other_upstream.seen[0].body


async def test_later_the_answer_ends_at_once_and_a_job_tells_the_session(build, other_upstream):
    tandem = await build("{look: {when: always, tell: later}}")

    assert (await ask(tandem)).body == SEEN_CHAT_STREAM

    answered, looked = await tandem.entries(2)
    assert answered["combined"] is None
    assert (looked["tier"], looked["turn_kind"], looked["combined"]) == ("deep", "side", "deep looked it over: 1 objection")
    assert (looked["session"], looked["caller"]) == (answered["session"], answered["caller"])
    assert looked["cost_usd"] == pytest.approx(LOOK_USD)
    await until(lambda: tandem.house.state.ended_jobs.list_all())
    named = (await ask(tandem, edited("and what does it do?", stream=True))).headers["x-tandem-jobs"]
    job, _, state = named.partition("=")
    assert state == "completed"
    response = (await call(tandem.port, f"/v1/responses/{job}")).json
    assert response["output"][-1]["content"][0]["text"] == BLOCK


async def test_fix_it_after_a_later_look_goes_to_deep(build, other_upstream):
    tandem = await build("{look: {when: always, tell: later}}")
    first = edited()
    answered = await ask(tandem, {**first, "stream": True})
    await until(lambda: tandem.house.state.ended_jobs.list_all())
    other_upstream.scripts = [saying("Fixed.")]
    messages = [*first["messages"], {"role": "assistant", "content": text_of(answered)}, {"role": "user", "content": "fix it"}]

    fixed = await ask(tandem, {"model": "auto", "messages": messages})

    assert fixed.headers["x-tandem-target"] == "sage"
    assert fixed.headers["x-tandem-because"].startswith("you act on what deep objected to")


async def test_a_caller_who_leaves_while_the_end_is_held_has_a_served_row(build, other_upstream):
    tandem = await build()
    other_upstream.scripts = [silent]
    reader, writer = await asyncio.open_connection("127.0.0.1", tandem.port)
    raw = json.dumps(edited(stream=True)).encode()
    writer.write(b"POST %b HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: %d\r\n\r\n%b" % (PATH.encode(), len(raw), raw))
    await reader.readuntil(b'"b"')
    await until(lambda: other_upstream.seen)

    writer.close()

    (row,) = await tandem.entries()
    assert (row["outcome"], row["combined"]) == ("SERVED", "deep did not finish looking it over: nobody waited any more")
    await asyncio.wait_for(other_upstream.seen[0].left.wait(), 30)


async def test_a_newer_request_with_the_same_supersede_ends_the_look_and_the_answer(build, other_upstream):
    tandem = await build()
    other_upstream.scripts = [silent, saying({"fine": True})]
    first = later(ask(tandem, **{"x-tandem-supersede": "a"}))
    await until(lambda: other_upstream.seen)

    await ask(tandem, edited("fix another typo: retrun y", stream=True), **{"x-tandem-supersede": "a"})

    assert (await first).body == SEEN_CHAT_STREAM
    rows = {row["combined"] for row in await tandem.entries(2)}
    assert "deep did not finish looking it over: a newer request came" in rows


async def test_a_reload_that_switches_looks_off_leaves_a_look_under_way(build, other_upstream, tmp_path):
    tandem = await build()
    reached, go = asyncio.Event(), asyncio.Event()

    async def wait(wire, seen):
        reached.set()
        await go.wait()
        await saying(OBJECTION)(wire, seen)

    other_upstream.scripts = [wait]
    first = later(ask(tandem))
    await reached.wait()
    (tmp_path / "config.yaml").write_text(two_targets("http://127.0.0.1:9", "http://127.0.0.1:9", **PRICES))
    await tandem.built.reloader.reload()
    go.set()

    assert text_of(await first).endswith(BLOCK)


async def test_a_header_turns_the_look_on_and_off(build, other_upstream):
    tandem = await build("{look: off}")

    assert (await ask(tandem)).body == SEEN_CHAT_STREAM
    assert other_upstream.seen == []
    three = edited(stream=True)
    three["messages"] += three["messages"][1:] * 2
    assert text_of(await ask(tandem, three, **{"x-tandem-combine": "look"})).endswith(BLOCK)
