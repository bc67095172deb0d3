"""Callers' rights: who may ask for deep, in every way, and who never gets it."""

import base64
import json

import pytest

from tests.tools.http import LONG, call, chat
from tests.tools.keyed import KEYS, Callers, swap
from tests.tools.running import two_targets
from tests.tools.sockets import open_socket
from tests.tools.speech import Speech, speak
from tests.tools.upstream import CHAT_ANSWER, answer_json

CHAT, MESSAGES, RESPONSES = "/v1/chat/completions", "/v1/messages", "/v1/responses"
RULES = 'rules: [{when: {words: "purple"}, tier: deep}]\npass_through: {embeddings: spark, files: spark, audio: sage}\n'
SESSION = {"x-tandem-session": "mine"}
ALONE, FIRST_LINE = "tier: deep", "tier: deep\nfix the typo in this line"
PIXEL = base64.b64encode(bytes(40)).decode()
IMAGE = [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}]
BUSY = answer_json({"error": {"message": "busy"}}, 500)


@pytest.fixture
def callers(tmp_path):
    """Default rights, the right to force deep, and keys for one tier each."""
    return Callers(
        tmp_path,
        usual={},
        forcing={"may_force": ["fast", "deep"]},
        fast_only={"tiers": ["fast"], "may_force": ["fast", "deep"]},
        spender={"daily_usd": 5},
    )


@pytest.fixture
def config(upstream, other_upstream):
    upstream.scripts = other_upstream.scripts = [answer_json(CHAT_ANSWER)]
    price = "price: {input: 1, output: 2},"
    return KEYS + two_targets(upstream.base_url, other_upstream.base_url, extra=RULES, fast_extra=price, deep_extra=price)


@pytest.fixture
async def tandem(start, callers, config):
    return await start(config)


def say(path: str, text: str, model: str = "auto") -> dict:
    body: dict = {"model": model, "max_tokens": 9} if path == MESSAGES else {"model": model}
    return {**body, "input": text} if path == RESPONSES else {**body, "messages": [{"role": "user", "content": text}]}


WAYS = {
    "header": ({"x-tandem-tier": "deep"}, "fix the typo", "auto"),
    "model name": ({}, "fix the typo", "deep"),
    "target name": ({}, "fix the typo", "sage"),
    "first line": ({}, FIRST_LINE, "auto"),
    "a tier line alone": ({}, ALONE, "auto"),
    "session scope": ({"x-tandem-tier": "deep", "x-tandem-scope": "session"}, "fix the typo", "auto"),
}


@pytest.mark.parametrize("path", [CHAT, MESSAGES, RESPONSES])
@pytest.mark.parametrize("way", WAYS)
async def test_a_key_without_the_right_is_refused_deep_however_it_asks_and_nothing_is_called_or_remembered(
    tandem, callers, upstream, other_upstream, way, path
):
    headers, text, model = WAYS[way]

    refused = await call(tandem.port, path, say(path, text, model), {**callers["usual"], **SESSION, **headers})
    (row,) = await tandem.entries(1)
    dialled = upstream.seen + other_upstream.seen
    later = await call(tandem.port, path, say(path, "fix the typo"), callers["usual"] | SESSION)

    error = refused.json["error"]
    assert refused.status == 403
    assert "may_force" in error["message"]
    assert (error["type"] if path == MESSAGES else error["code"]) == (
        "permission_error" if path == MESSAGES else "not_permitted"
    )
    assert (row["outcome"], row["status"], row["caller"]) == ("REFUSED", 403, "usual")
    assert dialled == []
    assert (later.status, later.headers["x-tandem-tier"]) == (200, "fast")


@pytest.mark.parametrize("way", [way for way in WAYS if way != "a tier line alone"])
async def test_a_key_with_the_right_is_served_by_deep_however_it_asks(tandem, callers, way):
    headers, text, model = WAYS[way]

    served = await call(tandem.port, CHAT, say(CHAT, text, model), {**callers["forcing"], **SESSION, **headers})

    assert (served.status, served.headers["x-tandem-tier"]) == (200, "deep")


async def test_a_key_without_the_right_is_refused_deep_by_the_metadata_of_a_socket(start, callers, config, upstream):
    tandem = await start(config)
    upstream.scripts = [speak("chat", Speech("done"))]
    async with open_socket(tandem.port, **callers["usual"]) as socket:
        await socket.say("fix the typo", client_metadata={"x-tandem-tier": "deep", "x-tandem-scope": "session", **SESSION})
        refused = await socket.answer()
        dialled = [*upstream.seen]
        later = await socket.ask("fix the typo", client_metadata=SESSION)

    (row, *_) = await tandem.entries(1)
    assert (refused["type"], refused["status"], refused["error"]["code"]) == ("error", 403, "not_permitted")
    assert "may_force" in refused["error"]["message"]
    assert (row["outcome"], row["status"]) == ("REFUSED", 403)
    assert dialled == []
    assert later["status"] == "completed"


async def test_a_session_that_was_set_to_deep_before_the_right_was_taken_away_is_refused_and_can_be_set_back(
    tandem, callers, config, upstream, other_upstream
):
    headers = callers["forcing"] | SESSION
    kept = await call(tandem.port, CHAT, chat(), headers | {"x-tandem-tier": "deep", "x-tandem-scope": "session"})
    before = await call(tandem.port, CHAT, chat(), headers)
    callers.write(forcing={})
    swap(tandem, config)
    called = len(upstream.seen + other_upstream.seen)

    refused = [await call(tandem.port, CHAT, chat(), headers) for _ in range(2)]
    calls_more = len(upstream.seen + other_upstream.seen) - called
    back = await call(tandem.port, CHAT, chat(), headers | {"x-tandem-tier": "auto", "x-tandem-scope": "session"})
    after = await call(tandem.port, CHAT, chat(), headers)

    assert (kept.status, before.headers["x-tandem-tier"]) == (200, "deep")
    assert [reply.status for reply in refused] == [403, 403]
    assert "x-tandem-tier: auto with x-tandem-scope: session" in refused[0].json["error"]["message"]
    assert calls_more == 0
    assert [(reply.status, reply.headers["x-tandem-tier"]) for reply in (back, after)] == [(200, "fast")] * 2


async def test_an_operators_rule_sends_a_caller_to_deep_that_may_not_force_it(tandem, callers):
    ruled = await call(tandem.port, CHAT, chat("make it purple"), callers["usual"])
    chosen = await call(tandem.port, CHAT, chat(LONG), callers["usual"])

    assert (ruled.status, ruled.headers["x-tandem-tier"]) == (200, "deep")
    assert (chosen.status, chosen.headers["x-tandem-tier"]) == (200, "deep")


async def test_of_two_wishes_only_the_one_that_counts_needs_a_right(tandem, callers):
    fast = {"x-tandem-tier": "fast"}

    outranked = await call(tandem.port, CHAT, chat(model="sage"), callers["usual"] | fast)
    cleared = await call(tandem.port, CHAT, chat(FIRST_LINE), callers["usual"] | {"x-tandem-tier": "auto"})
    counts = await call(tandem.port, CHAT, chat(model="spark"), callers["usual"] | {"x-tandem-tier": "deep"})

    assert (outranked.status, outranked.headers["x-tandem-tier"]) == (200, "fast")
    assert (cleared.status, cleared.headers["x-tandem-tier"]) == (200, "fast")
    assert counts.status == 403


async def test_an_explanation_is_refused_for_a_wish_that_would_be(tandem, callers):
    headers, wish = callers["usual"], {"x-tandem-tier": "deep"}

    refused = [
        await call(tandem.port, "/tandem/explain", chat(text), headers | more) for text, more in (("hi", wish), (ALONE, {}))
    ]
    explained = await call(tandem.port, "/tandem/explain", chat(LONG), headers)

    assert [(reply.status, reply.json["error"]["code"]) for reply in refused] == [(403, "not_permitted")] * 2
    assert (explained.status, explained.json["tier"]) == (200, "deep")


OTHER = {"x-tandem-on-misfit": "other"}


@pytest.mark.parametrize(
    ("text", "headers"),
    [
        (LONG, {}),
        ("make it purple", OTHER),
        ("fix the typo", {"x-tandem-max-wait": "0"}),
    ],
    ids=["chosen", "ruled", "no wait"],
)
async def test_a_key_for_fast_only_is_served_by_fast_whatever_speaks_for_deep(tandem, callers, other_upstream, text, headers):
    reply = await call(tandem.port, CHAT, chat(text), callers["fast_only"] | headers)

    assert (reply.status, reply.headers.get("x-tandem-tier")) == (200, "fast"), reply.body
    assert "this key is for fast only" in reply.headers["x-tandem-because"]
    assert other_upstream.seen == []


@pytest.mark.parametrize("headers", [{}, OTHER, {"x-tandem-tier": "fast"} | OTHER, {"x-tandem-tier": "deep"} | OTHER])
async def test_what_only_deep_could_do_is_a_misfit_for_a_key_for_fast_only(tandem, callers, other_upstream, headers):
    reply = await call(tandem.port, CHAT, chat(IMAGE), callers["fast_only"] | headers)
    (row,) = await tandem.entries(1)

    assert (reply.status, reply.json["error"]["code"]) == (400, "misfit")
    assert "this key is for fast only" in reply.json["error"]["message"]
    assert row["outcome"] == "REFUSED"
    assert other_upstream.seen == []


async def test_a_prompt_that_only_deep_could_hold_is_too_long_for_a_key_for_fast_only(tandem, callers, other_upstream):
    reply = await call(tandem.port, CHAT, chat("word " * 150_000), callers["fast_only"])

    error = reply.json["error"]
    assert (reply.status, error["code"]) == (400, "context_length_exceeded")
    assert "This key is for fast only, and no target there has a larger window" in error["message"]
    assert other_upstream.seen == []


async def test_a_key_for_fast_only_does_not_spill_over_to_deep_when_fast_fails(tandem, callers, upstream, other_upstream):
    upstream.scripts = [BUSY]

    reply = await call(tandem.port, CHAT, chat(), callers["fast_only"] | OTHER)
    others = await call(tandem.port, CHAT, chat(), callers["usual"])

    assert reply.status >= 500
    assert (others.status, others.headers["x-tandem-tier"]) == (200, "deep")
    assert len(other_upstream.seen) == 1


async def test_a_key_for_fast_only_waits_for_fasts_quota_or_is_refused_and_never_goes_to_deep(
    start, callers, config, other_upstream
):
    quota = "price: {input: 1, output: 2}, quota: {requests_per_minute: 1, max_wait_seconds: 0.01},"
    tandem = await start(config.replace("price: {input: 1, output: 2},", quota, 1))

    replies = [await call(tandem.port, CHAT, chat(), callers["fast_only"] | OTHER) for _ in range(3)]
    other = await call(tandem.port, CHAT, chat(), callers["usual"])

    assert [reply.status for reply in replies] == [200, 429, 429]
    assert (other.status, other.headers["x-tandem-tier"]) == (200, "deep")
    assert len(other_upstream.seen) == 1


@pytest.mark.parametrize(
    ("name", "path", "right"),
    [
        ("fast_only", "/v1/audio/speech", "tiers"),
        ("spender", "/v1/audio/speech", "daily_usd"),
        ("spender", "/v1/embeddings", "daily_usd"),
        ("usual", "/v1/files/file-1", "admin"),
    ],
)
async def test_a_route_that_is_passed_on_is_refused_outside_a_callers_rights(
    tandem, callers, upstream, other_upstream, name, path, right
):
    reply = await call(tandem.port, path, {"input": "x"}, callers[name])
    (row,) = await tandem.entries(1)

    assert (reply.status, reply.json["error"]["code"]) == (403, "not_permitted")
    assert right in reply.json["error"]["message"]
    assert (row["outcome"], row["status"], row["caller"]) == ("REFUSED", 403, name)
    assert upstream.seen + other_upstream.seen == []


@pytest.mark.parametrize(
    ("name", "path"), [("fast_only", "/v1/embeddings"), ("usual", "/v1/embeddings"), ("usual", "/v1/audio/speech")]
)
async def test_a_route_that_is_passed_on_is_open_to_a_key_for_its_tier(tandem, callers, upstream, other_upstream, name, path):
    reply = await call(tandem.port, path, {"input": "x"}, callers[name])

    (seen,) = upstream.seen + other_upstream.seen
    assert reply.status == 200
    assert callers[name]["authorization"] not in json.dumps(seen.headers)
