"""A tier that is out: who serves instead, and how the answer says so."""

import re

import pytest

from tests.tools.http import LONG, call, chat
from tests.tools.running import two_targets
from tests.tools.upstream import CHAT_ANSWER, answer_json

PATH = "/v1/chat/completions"
GOOD, BROKEN, BUSY = answer_json(CHAT_ANSWER), answer_json({"error": {"message": "broke"}}, 500), answer_json({}, 429)
TOLD = answer_json({}, 429, {"retry-after": "30"})
QUICK = "fix the typo in the readme"


async def ask(tandem, text=QUICK, *, messages=None, **headers):
    body = chat(text) if messages is None else {"model": "auto", "messages": messages}
    return await call(tandem.port, PATH, body, headers={name.replace("_", "-"): value for name, value in headers.items()})


def served(reply):
    return reply.status, reply.headers.get("x-tandem-tier"), reply.headers.get("x-tandem-target")


@pytest.mark.parametrize("refusal", [BUSY, answer_json({}, 503), answer_json({"type": "error"}, 529)])
async def test_a_refusal_of_fast_goes_to_deep_at_once_and_the_answer_says_so(pair, upstream, other_upstream, refusal):
    upstream.scripts = [refusal]

    reply = await ask(pair)

    assert served(reply) == (200, "deep", "sage")
    assert reply.headers["x-tandem-because"].startswith("spark failed (")
    assert ", so sage answers: looks like a quick edit" in reply.headers["x-tandem-because"]
    assert (len(upstream.seen), len(other_upstream.seen)) == (1, 1)


async def test_while_fast_is_closed_deep_serves_quick_edits_and_says_that_fast_is_out(pair, upstream):
    upstream.scripts = [TOLD]
    await ask(pair)

    reply = await ask(pair)

    assert served(reply) == (200, "deep", "sage")
    said = reply.headers["x-tandem-because"]
    assert said.startswith("looks like a quick edit")
    assert said.endswith("fast is out for now (spark asked to be retried in 30 s), so deep serves this")
    assert len(upstream.seen) == 1


async def test_a_long_task_goes_to_fast_at_once_where_deep_refuses_it(pair, other_upstream):
    other_upstream.scripts = [BUSY]

    reply = await ask(pair, LONG)

    assert served(reply) == (200, "fast", "spark")
    assert reply.headers["x-tandem-because"].startswith("sage failed (429), so spark answers: looks like a long task")


async def test_while_deep_is_closed_fast_serves_long_tasks_and_says_that_deep_is_out(pair, other_upstream):
    other_upstream.scripts = [TOLD]
    await ask(pair, LONG)

    reply = await ask(pair, LONG)

    assert served(reply) == (200, "fast", "spark")
    said = reply.headers["x-tandem-because"]
    assert said.startswith("looks like a long task")
    assert said.endswith("deep is out for now (sage asked to be retried in 30 s), so fast serves this")
    assert len(other_upstream.seen) == 1


@pytest.mark.parametrize("text", [QUICK, LONG])
async def test_where_work_may_not_spill_over_a_closed_tier_is_waited_for(start, upstream, other_upstream, text):
    tandem = await start(two_targets(upstream.base_url, other_upstream.base_url, extra="spill_over: false"))
    upstream.scripts = other_upstream.scripts = [TOLD, GOOD]

    first, second = await ask(tandem, text), await ask(tandem, text)

    assert [(reply.status, reply.headers["retry-after"]) for reply in (first, second)] == [(429, "30"), (429, "30")]
    assert len(upstream.seen) + len(other_upstream.seen) == 1


async def test_who_asked_for_deep_gets_the_refusal_and_no_other_tier(pair, upstream, other_upstream):
    other_upstream.scripts = [TOLD]

    first, second = [await ask(pair, x_tandem_tier="deep") for _ in range(2)]

    assert [(reply.status, reply.headers["retry-after"]) for reply in (first, second)] == [(429, "30"), (429, "30")]
    assert "x-tandem-tier asks for deep" in second.json["error"]["message"]
    assert (len(upstream.seen), len(other_upstream.seen)) == (0, 1)


async def test_who_asked_for_deep_and_allows_the_other_tier_gets_that_and_is_told(pair, other_upstream):
    other_upstream.scripts = [TOLD]

    first, second = [await ask(pair, x_tandem_tier="deep", x_tandem_on_misfit="other") for _ in range(2)]

    assert (served(first), served(second)) == ((200, "fast", "spark"), (200, "fast", "spark"))
    assert first.headers["x-tandem-because"] == "sage failed (429), so spark answers: x-tandem-tier asks for deep"
    assert second.headers["x-tandem-because"] == (
        "x-tandem-tier asks for deep, but sage asked to be retried in 30 s; fast instead, as x-tandem-on-misfit allows"
    )


def tool_loop(text):
    call_of = {"id": "c1", "type": "function", "function": {"name": "read_file", "arguments": "{}"}}
    return [
        {"role": "user", "content": text},
        {"role": "assistant", "content": None, "tool_calls": [call_of]},
        {"role": "tool", "tool_call_id": "c1", "content": "def main(): ..."},
    ]


async def test_a_turn_that_runs_on_deep_is_taken_over_by_fast_while_deep_is_out_and_says_so(pair, other_upstream):
    other_upstream.scripts = [GOOD, TOLD]
    first = await ask(pair, LONG, x_tandem_session="s1")
    refused = await ask(pair, messages=tool_loop(LONG), x_tandem_session="s1")
    closed = await ask(pair, messages=tool_loop(LONG), x_tandem_session="s1")

    assert [served(reply)[1] for reply in (first, refused, closed)] == ["deep", "fast", "fast"]
    assert refused.headers["x-tandem-because"].startswith(
        "sage failed (429), so spark answers: 1 tool call into a turn on deep"
    )
    assert "but sage asked to be retried in 30 s" in closed.headers["x-tandem-because"]


async def test_an_operators_rule_yields_to_the_other_tier_and_the_answer_says_why(start, upstream, other_upstream):
    rule = "rules:\n  - {when: {words: [typo]}, tier: deep}"
    tandem = await start(two_targets(upstream.base_url, other_upstream.base_url, extra=rule))
    upstream.scripts, other_upstream.scripts = [GOOD], [TOLD]

    first, second = await ask(tandem), await ask(tandem)

    assert (served(first)[1], served(second)[1]) == ("fast", "fast")
    assert first.headers["x-tandem-because"].startswith("sage failed (429), so spark answers: ")
    assert "but sage asked to be retried in 30 s" in second.headers["x-tandem-because"]


async def test_a_caller_of_another_dialect_is_told_the_same(pair, upstream):
    upstream.scripts = [BUSY]
    body = {"model": "auto", "max_tokens": 100, "messages": [{"role": "user", "content": QUICK}]}

    reply = await call(pair.port, "/v1/messages", body, headers={"anthropic-version": "2023-06-01"})

    assert served(reply) == (200, "deep", "sage")
    assert reply.headers["x-tandem-because"].startswith("spark failed (429), so sage answers: ")


async def test_a_rest_of_our_own_making_refuses_nobody_who_would_not_wait_for_it(pair, upstream, other_upstream, long_rests):
    upstream.scripts, other_upstream.scripts = [TOLD], [BROKEN]
    for _ in range(6):
        await ask(pair, x_tandem_tier="deep")
    await ask(pair)
    other_upstream.scripts = [GOOD]

    reply = await ask(pair, x_tandem_max_wait="5")

    assert served(reply) == (200, "deep", "sage")
    said = r"sage rests after \d+ failures in a row, and x-tandem-max-wait is 5 s, and nothing else can serve this$"
    assert re.search(said, reply.headers["x-tandem-because"])
