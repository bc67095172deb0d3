"""Second opinions: whole requests, and the target that is asked about them."""

import asyncio
import json

import pytest

from tests.tools.http import call, chat, request_bytes
from tests.tools.running import two_targets
from tests.tools.upstream import CHAT_ANSWER, GOOD_CHAT_STREAM, SEEN_CHAT_STREAM, answer_json, silent, stream
from tests.tools.waiting import by_the_clock

PATH = "/v1/chat/completions"
UNSURE = "speed up the parser"
"""Goes to fast by a hair."""
KEY = "sk-callers-own-key"


def saying(text: str, after_seconds: float = 0.0):
    message = {"role": "assistant", "content": text}
    answer = answer_json({**CHAT_ANSWER, "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})

    async def script(wire, seen):
        await by_the_clock(after_seconds)
        await answer(wire, seen)

    return script


def first_question(question):
    """Plays this script for questions, and answers all else."""

    async def script(wire, seen):
        await (question if is_question(seen) else answer_json(CHAT_ANSWER))(wire, seen)

    return [script]


def is_question(seen) -> bool:
    return b"One word, QUICK or LONG" in seen.body


def questions(*upstreams) -> list:
    return [seen for each in upstreams for seen in each.seen if is_question(seen)]


@pytest.fixture
async def tandem(start, upstream, other_upstream):
    """A Tandem whose fast target calls everything long."""
    prices = {"fast_extra": "price: {input: 1, output: 10},", "deep_extra": "price: {input: 3, output: 30},"}
    config = two_targets(upstream.base_url, other_upstream.base_url, **prices, extra="second_opinion: {target: spark}")
    upstream.scripts = first_question(saying("LONG"))
    other_upstream.scripts = [answer_json(CHAT_ANSWER)]
    return await start(config)


async def ask(tandem, text=UNSURE, path=PATH, headers=None, **more):
    return await call(tandem.port, path, chat(text, **more), headers=headers)


async def explained(tandem, reply) -> dict:
    name = reply.headers["x-tandem-request-id"]
    return (await call(tandem.port, f"/tandem/decisions/{name}")).json


async def test_a_turn_in_doubt_is_asked_about_and_decided_with_the_answer(tandem, upstream, other_upstream):
    reply = await ask(tandem)

    assert (reply.status, reply.headers["x-tandem-target"]) == (200, "sage")
    assert "the second opinion of spark says long" in reply.headers["x-tandem-because"]
    assert len(questions(upstream)) == len(upstream.seen) == 1
    told = await explained(tandem, reply)
    assert told["second_opinion"]["answer"] == "long"
    assert told["second_opinion"]["value_seconds"] > told["second_opinion"]["cost_seconds"] > 0
    assert told["second_opinion"]["asked_ms"] > 0
    lean = next(item for item in told["evidence"] if item["policy"] == "second_opinion")
    assert lean["log_odds"] == pytest.approx(0.619, abs=0.001)


async def test_the_row_has_the_questions_attempt_and_its_cost(tandem):
    await ask(tandem)

    (row,) = await tandem.entries()
    question, served = json.loads(row["attempts"])
    assert (question["target"], question["status"], question["error"], question["is_question"]) == ("spark", 200, None, True)
    assert "is_question" not in served
    assert row["target"] == "sage"
    assert question["cost_usd"] == pytest.approx((5 * 1 + 2 * 10) / 1e6)
    assert row["cost_usd"] == pytest.approx((5 * 1 + 2 * 10) / 1e6 + (5 * 3 + 2 * 30) / 1e6)


async def test_the_time_of_the_question_is_not_told_as_our_own(tandem, upstream):
    upstream.scripts = first_question(saying("quick", 0.15))

    reply = await ask(tandem)

    told = await explained(tandem, reply)
    assert told["second_opinion"]["asked_ms"] >= 150
    assert told["overhead_ms"] <= told["duration_ms"] - told["second_opinion"]["asked_ms"]
    assert float(reply.headers["x-tandem-overhead-ms"]) <= told["duration_ms"] - told["second_opinion"]["asked_ms"]


async def test_the_same_request_again_is_not_asked_about_twice_and_decided_alike(tandem, upstream):
    first, again = await ask(tandem), await ask(tandem)

    assert (first.headers["x-tandem-target"], again.headers["x-tandem-target"]) == ("sage", "sage")
    assert len(questions(upstream)) == 1
    assert (await explained(tandem, again))["second_opinion"]["because"] == "it was asked before, for the same turn"
    assert len((await explained(tandem, again))["attempts"]) == 1


@pytest.mark.parametrize(
    ("script", "answer", "code"),
    [(silent, "late", "late"), (answer_json({"error": {"message": "no"}}, 500), "failed", "upstream_refused")],
    ids=["silent", "500"],
)
async def test_a_question_that_fails_costs_the_turn_nothing(tandem, upstream, script, answer, code):
    upstream.scripts = first_question(script)

    reply = await ask(tandem)

    assert (reply.status, reply.headers["x-tandem-target"]) == (200, "spark")
    told = await explained(tandem, reply)
    assert (told["second_opinion"]["answer"], told["attempts"][0]["error"]) == (answer, code)
    assert questions(upstream)[0].left.is_set() is (script is silent)


async def test_a_caller_who_leaves_meanwhile_closes_the_question_at_once(tandem, upstream, other_upstream):
    upstream.scripts = first_question(silent)
    _, writer = await asyncio.open_connection("127.0.0.1", tandem.port)
    writer.write(request_bytes(PATH, chat(UNSURE, stream=True)))
    await asyncio.wait_for(upstream.arrived.wait(), 30)
    writer.close()

    await asyncio.wait_for(upstream.seen[0].left.wait(), 30)

    (row,) = await tandem.entries()
    (attempt,) = json.loads(row["attempts"])
    assert (row["outcome"], attempt["error"], attempt["is_question"]) == ("ABANDONED", "abandoned", True)
    assert len(upstream.seen) == 1
    assert not other_upstream.seen


async def test_explain_says_that_it_would_ask_and_calls_nobody(tandem, upstream, other_upstream):
    told = (await call(tandem.port, "/tandem/explain", chat(UNSURE))).json

    assert told["second_opinion"]["answer"] == "would ask"
    assert told["second_opinion"]["value_usd"] > told["second_opinion"]["cost_usd"] > 0
    assert told["tier"] == "fast"
    assert not upstream.seen
    assert not other_upstream.seen
    clear = (await call(tandem.port, "/tandem/explain", chat())).json["second_opinion"]
    assert (clear["answer"], clear["because"]) == ("not asked", "no answer would change the tier")


async def test_no_key_of_the_caller_and_no_more_than_900_characters_go_out(start, upstream, other_upstream):
    rule = "rules: [{when: {words: parser}, lean: -3.6}]"  # such long words would otherwise leave no doubt
    extra = f"second_opinion: {{target: spark}}\n{rule}"
    tandem = await start(two_targets(upstream.base_url, other_upstream.base_url, extra=extra))
    upstream.scripts = first_question(saying("LONG"))
    other_upstream.scripts = [answer_json(CHAT_ANSWER)]
    text = f"{UNSURE}, {'x' * 5_000} and {UNSURE}"
    headers = {"authorization": f"Bearer {KEY}", "x-api-key": KEY, "openai-beta": "a", "x-client-request-id": "b"}

    await ask(tandem, text, headers=headers, user="somebody", tools=[{"type": "function", "function": {"name": "look"}}])
    (seen,) = questions(upstream)

    assert KEY not in json.dumps(seen.headers) + seen.body.decode()
    assert not {"authorization", "x-api-key", "openai-beta", "x-client-request-id"} & set(seen.headers)
    assert set(seen.json) == {"model", "messages", "max_tokens"}
    (message,) = seen.json["messages"]
    words = message["content"].split("-" * 10)[1].strip()
    assert len(words.replace("\n", "")) <= 900
    assert words.startswith(UNSURE)
    assert words.endswith(UNSURE)


async def test_a_stream_is_served_as_ever_after_the_question(tandem, upstream, other_upstream):
    other_upstream.scripts = [stream(*GOOD_CHAT_STREAM)]

    reply = await ask(tandem, stream=True)

    assert reply.headers["x-tandem-target"] == "sage"
    assert reply.body == SEEN_CHAT_STREAM


async def test_a_tiers_own_instructions_are_no_part_of_a_question_and_low_effort_is_asked_for_where_the_config_has_it(
    start, upstream, other_upstream
):
    config = two_targets(
        upstream.base_url,
        other_upstream.base_url,
        fast_extra="effort: {low: minimal},",
        extra="second_opinion: {target: spark}",
    ).replace("  fast:\n", "  fast:\n    instructions: be brief\n")
    tandem = await start(config)
    upstream.scripts = first_question(saying("LONG"))
    other_upstream.scripts = [answer_json(CHAT_ANSWER)]

    await ask(tandem)

    (seen,) = questions(upstream)
    assert "be brief" not in seen.body.decode()
    assert seen.json["reasoning_effort"] == "minimal"


async def test_without_the_setting_nobody_is_asked(pair, upstream, other_upstream):
    reply = await ask(pair)

    assert reply.headers["x-tandem-target"] == "spark"
    assert not questions(upstream, other_upstream)
    assert (await call(pair.port, "/tandem/explain", chat(UNSURE))).json["second_opinion"] is None
