"""A target with a refused account: the next one is asked, ledger and log name the reason, and it rests."""

import json

import pytest

from tests.router.dialects.test_accounts import HOSTS, MODEL
from tests.tools.bridging import claude
from tests.tools.cases import covering
from tests.tools.http import call, chat
from tests.tools.running import two_targets
from tests.tools.upstream import CHAT_ANSWER, answer_json

ASKED = {
    "/v1/chat/completions": chat(),
    "/v1/messages": claude(model="auto"),
    "/v1/responses": {"model": "auto", "input": "rename x to y"},
}


@pytest.mark.parametrize(
    ("host", "path"),
    covering(
        ["anthropic, no credit", "gemini, key", "gemini, region", "xai, key", "groq, retired", "openai, quota", "gone"],
        ASKED,
        strength=1,
    ),
)
async def test_an_accounts_fault_goes_to_the_next_target_in_every_dialect(pair, upstream, other_upstream, host, path, capfd):
    status, body, fault, words = HOSTS[host]
    upstream.scripts = [answer_json(json.dumps(body).encode(), status, {"content-type": "application/json"})]
    other_upstream.scripts = [answer_json(CHAT_ANSWER)]

    reply = await call(pair.port, path, ASKED[path])

    (entry,) = await pair.entries()
    code = "upstream_model" if fault is MODEL else "upstream_auth"
    assert (reply.status, reply.headers["x-tandem-target"]) == (200, "sage")
    assert [(row["target"], row["error"]) for row in json.loads(entry["attempts"])] == [("spark", code), ("sage", None)]
    assert pair.house.state.live.statuses(pair.house.plan.targets, pair.house.clock())["spark"].is_resting
    log = [json.loads(line) for line in capfd.readouterr().err.splitlines() if "target.misconfigured" in line]
    assert [(line["fault"], line["words"]) for line in log] == [(fault, words)]


async def test_a_prompt_that_quotes_such_words_in_a_refusal_stays_the_requests_own_fault(pair, upstream, other_upstream):
    refused = {"error": {"message": "content: unknown value 'Your credit balance is too low'", "code": "invalid_value"}}
    upstream.scripts = [answer_json(refused, 400)]

    reply = await call(pair.port, "/v1/chat/completions", chat())

    assert (reply.status, reply.json) == (400, refused)
    assert other_upstream.seen == []


async def test_no_target_but_one_without_credit_is_not_told_as_a_rate_limit(start, upstream):
    status, body, _, _ = HOSTS["openai, quota"]
    upstream.scripts = [answer_json(body, status)]
    tandem = await start(two_targets(upstream.base_url, upstream.base_url, extra="spill_over: false"))

    reply = await call(tandem.port, "/v1/chat/completions", chat())

    assert (reply.status, reply.json["error"]["code"]) == (502, "upstream_auth")
    assert "no credit" in reply.json["error"]["message"]
    assert (reply.headers["x-should-retry"], reply.headers.get("retry-after")) == ("false", None)


async def test_a_callers_own_account_without_credit_is_told_to_the_caller(start, upstream):
    status, body, _, _ = HOSTS["anthropic, no credit"]
    upstream.scripts = [answer_json(body, status)]
    tandem = await start(two_targets(upstream.base_url, upstream.base_url, fast_extra="api_key: caller,"))

    reply = await call(tandem.port, "/v1/chat/completions", chat(model="spark"), headers={"x-api-key": "k"})

    assert (reply.status, reply.json["error"]["code"]) == (401, "caller_key")
    assert "your account has no credit" in reply.json["error"]["message"]
