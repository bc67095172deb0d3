"""A plan and its client get from each other what they get without Tandem, refusals too."""

import asyncio
import json

import pytest

from tests.tools.http import call
from tests.tools.logins import ACCOUNT, chatgpt_login, claude_login
from tests.tools.plans import CODEX, DEEP, HI, MESSAGES, RESPONSES, ROAD, answering, config_of, shown_to
from tests.tools.speech import speak
from tests.tools.upstream import CHAT_STREAM_HEAD, answer_json
from tests.tools.waiting import later

each_road = pytest.mark.parametrize(("path", "body", "headers", "own"), ROAD.values(), ids=ROAD)


def without_connection(headers: dict[str, str]) -> dict[str, str]:
    kept_here = {"host", "content-length", "accept-encoding", "connection", "transfer-encoding", "date", "server"}
    return {name: value for name, value in headers.items() if name not in kept_here}


@each_road
async def test_a_plan_gets_what_its_client_sent(start, vendors, path, body, headers, own):
    tandem = await start(config_of(vendors))
    raw = json.dumps({**body, "odd": 12345678901234567890123, "metadata": {"user_id": "sk-ant-oat01-in-the-body"}}, indent=1)

    more = {"x-tandem-key": "router", "x-api-key": "router", "cookie": "tandem=1", "x-forwarded-for": "1.2.3.4", **DEEP}
    await call(tandem.port, path, raw.encode(), {**headers, **more})

    seen = vendors[own].seen[0]
    assert without_connection(seen.headers) == {**headers, "content-type": "application/json"}
    assert seen.headers["accept-encoding"] == "identity"
    assert (seen.path, seen.body) == (path, raw.encode())


@pytest.mark.parametrize(
    ("asked", "sent"),
    [("deep", "claude-opus-5-5"), ("claude-sonnet-5", "claude-sonnet-5"), ("anthropic/claude-deep", "claude-opus-5-5")],
)
async def test_a_plan_gets_the_models_own_name_and_never_one_of_ours(start, vendors, asked, sent):
    tandem = await start(config_of(vendors))

    await call(tandem.port, "/v1/messages", {**MESSAGES, "model": asked}, claude_login() | DEEP)

    assert vendors["claude"].seen[0].json["model"] == sent


FIGURES = {
    "claude": {
        "anthropic-ratelimit-unified-status": "allowed",
        "anthropic-ratelimit-unified-5h-utilization": "0.41",
        "anthropic-ratelimit-unified-representative-claim": "five_hour",
        "anthropic-organization-id": "org-1",
        "cf-ray": "1-FRA",
    },
    "chatgpt": {
        "x-codex-primary-used-percent": "41",
        "x-codex-secondary-used-percent": "7",
        "x-codex-plan-type": "pro",
        "x-codex-turn-state": "opaque",
        "openai-model": "gpt-6.1-sol",
    },
}
STREAMS = {
    "claude": b'event: message_start\ndata: {"type":"message_start","message":{"usage":{"input_tokens":1,"output_tokens":1}}}\n\n'
    b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"hi"}}\n\n'
    b'event: message_delta\ndata: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":1}}\n\n'
    b'event: message_stop\ndata: {"type":"message_stop"}\n\n',
    "chatgpt": b'event: codex.rate_limits\ndata: {"type":"codex.rate_limits","rate_limits":{"primary":{"used_percent":41}}}\n\n'
    b'event: response.created\ndata: {"type":"response.created","response":{"id":"resp_1"}}\n\n'
    b'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","delta":"hi"}\n\n'
    b'event: response.completed\ndata: {"type":"response.completed","response":{"id":"resp_1","output":[],"usage":'
    b'{"input_tokens":1,"output_tokens":1,"total_tokens":2}}}\n\n',
}


@each_road
async def test_a_client_gets_what_its_plan_answered(start, vendors, path, body, headers, own):
    figures = {**FIGURES[own], "content-type": "text/event-stream; charset=utf-8", "set-cookie": "__cf_bm=1"}
    vendors[own].scripts = [answering(200, figures, STREAMS[own])]
    tandem = await start(config_of(vendors))

    reply = await call(tandem.port, path, body, {**headers, **DEEP})

    assert (reply.status, reply.body) == (200, STREAMS[own])
    assert FIGURES[own].items() <= reply.headers.items()
    assert "set-cookie" not in reply.headers
    assert reply.headers["x-tandem-target"] == own


def usage_limit(seconds: int) -> bytes:
    told = {"type": "usage_limit_reached", "message": "The usage limit has been reached", "resets_in_seconds": seconds}
    return json.dumps({"error": {**told, "plan_type": "pro", "resets_at": 1_800_000_000}}).encode()


def refused_by_claude(kind: str, message: str) -> bytes:
    return json.dumps({"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_011"}).encode()


FIVE_HOURS = {
    "anthropic-ratelimit-unified-status": "rejected",
    "anthropic-ratelimit-unified-reset": "1800000000",
    "anthropic-ratelimit-unified-representative-claim": "five_hour",
    "retry-after": "5400",
}
WEEK = {**FIVE_HOURS, "anthropic-ratelimit-unified-representative-claim": "seven_day", "retry-after": "400000"}
JSON = {"content-type": "application/json"}
REFUSALS = {
    "claude, 401": ("claude", 401, {}, refused_by_claude("authentication_error", "OAuth token has expired. Please obtain …")),
    "claude, 403": ("claude", 403, {}, refused_by_claude("permission_error", "OAuth token has been revoked.")),
    "claude, 404": ("claude", 404, {}, refused_by_claude("not_found_error", "model: claude-opus-9")),
    "claude, 429": ("claude", 429, {"retry-after": "3"}, refused_by_claude("rate_limit_error", "Slow down")),
    "claude, 5 hours": ("claude", 429, FIVE_HOURS, refused_by_claude("rate_limit_error", "This request would exceed your …")),
    "claude, week": ("claude", 429, WEEK, refused_by_claude("rate_limit_error", "This request would exceed your …")),
    "claude, 529": ("claude", 529, {"x-should-retry": "true"}, refused_by_claude("overloaded_error", "Overloaded")),
    "claude, 500": ("claude", 500, {}, refused_by_claude("api_error", "Internal server error")),
    "chatgpt, 401": (
        "chatgpt",
        401,
        {},
        b'{"error":{"message":"Provided authentication token is expired.","code":"token_expired"}}',
    ),
    "chatgpt, 5 hours": ("chatgpt", 429, {"x-codex-primary-used-percent": "100"}, usage_limit(5400)),
    "chatgpt, week": ("chatgpt", 429, {"x-codex-secondary-used-percent": "100"}, usage_limit(400_000)),
    "chatgpt, 403": ("chatgpt", 403, {"content-type": "text/html"}, b"<html>Enable JavaScript</html>"),
    "chatgpt, 503": ("chatgpt", 503, {}, b'{"error":{"message":"down"}}'),
}


@pytest.mark.parametrize(("own", "status", "told", "body"), REFUSALS.values(), ids=REFUSALS)
async def test_a_refusal_of_a_plan_arrives_in_its_own_words_after_one_request(start, vendors, own, status, told, body):
    vendors[own].scripts = [answering(status, {**JSON, **told}, body)]
    tandem = await start(config_of(vendors))
    path, asked, headers, _ = ROAD["Claude Code" if own == "claude" else "Codex"]

    reply = await call(tandem.port, path, asked, {**headers, **DEEP})

    assert (reply.status, reply.body) == (status, body)
    assert ({**JSON, **told}).items() <= reply.headers.items()
    assert {"retry-after", "retry-after-ms", "x-should-retry"} & reply.headers.keys() <= told.keys()
    assert len(vendors[own].seen) == 1


FAILED_STREAMS = {
    "claude": b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}\n\n',
    "chatgpt": b'event: response.created\ndata: {"type":"response.created","response":{"id":"resp_1"}}\n\n'
    b'event: response.failed\ndata: {"type":"response.failed","response":{"id":"resp_1","error":{"code":"rate_limit_exceeded",'
    b'"message":"Rate limit reached"}}}\n\n',
}


@each_road
async def test_an_error_inside_a_stream_that_began_well_arrives_there_too(start, vendors, path, body, headers, own):
    vendors[own].scripts = [answering(200, {"content-type": "text/event-stream", **FIGURES[own]}, FAILED_STREAMS[own])]
    tandem = await start(config_of(vendors))

    reply = await call(tandem.port, path, body, {**headers, **DEEP})

    assert (reply.status, reply.body) == (200, FAILED_STREAMS[own])
    assert reply.headers["content-type"] == "text/event-stream"
    assert len(vendors[own].seen) == 1


@each_road
async def test_an_error_inside_a_stream_lets_a_spare_take_over(start, vendors, path, body, headers, own):
    vendors[own].scripts = [answering(200, {"content-type": "text/event-stream"}, FAILED_STREAMS[own])]
    tandem = await start(config_of(vendors, (own, "spare")))

    reply = await call(tandem.port, path, body, {**headers, **DEEP})

    assert (reply.status, reply.headers["x-tandem-target"]) == (200, "spare")
    assert "canary" not in shown_to(vendors["spare"])
    assert ACCOUNT not in shown_to(vendors["spare"])


async def test_an_expired_login_is_refreshed_by_its_client_and_not_answered_by_a_spare(start, vendors):
    body = refused_by_claude("authentication_error", "OAuth token has expired.")
    vendors["claude"].scripts = [answering(401, JSON, body), speak("messages", HI)]
    tandem = await start(config_of(vendors, ("claude", "spare")))
    path, asked, headers, _ = ROAD["Claude Code"]

    expired = await call(tandem.port, path, asked, {**headers, **DEEP})
    fresh = await call(tandem.port, path, asked, {**headers, **claude_login("ada-again"), **DEEP})

    assert (expired.status, expired.body) == (401, body)
    assert (fresh.status, fresh.headers["x-tandem-target"]) == (200, "claude")
    assert not vendors["spare"].seen


async def test_when_plan_and_spare_both_refuse_the_plans_own_refusal_arrives(start, vendors):
    body = refused_by_claude("rate_limit_error", "This request would exceed your …")
    vendors["claude"].scripts = [answering(429, {**JSON, **FIVE_HOURS}, body)]
    vendors["spare"].scripts = [answer_json({"error": {"message": "down"}}, 503)]
    tandem = await start(config_of(vendors, ("claude", "spare")))
    path, asked, headers, _ = ROAD["Claude Code"]

    reply = await call(tandem.port, path, asked, {**headers, **DEEP})

    assert (reply.status, reply.body) == (429, body)
    assert FIVE_HOURS.items() <= reply.headers.items()
    assert len(vendors["spare"].seen) == 1


async def test_a_spare_that_speaks_messages_is_not_sent_the_flag_of_a_login(start, vendors):
    vendors["claude"].scripts = [answering(529, JSON, b"{}")]
    vendors["spare"].scripts = [speak("messages", HI)]
    config = config_of(vendors, ("claude", "spare")).replace(
        f'adapter: openai_http, dialect: chat, base_url: "{vendors["spare"].base_url}"',
        f'adapter: anthropic_http, base_url: "{vendors["spare"].base_url}"',
    )
    tandem = await start(config)
    path, asked, headers, _ = ROAD["Claude Code"]

    reply = await call(tandem.port, path, asked, {**headers, **DEEP})

    assert reply.headers["x-tandem-target"] == "spare"
    sent = vendors["spare"].seen[0].headers
    assert sent["anthropic-beta"] == "claude-code-20250219,interleaved-thinking-2025-05-14"
    assert sent["x-api-key"] == "spare-key"
    assert not {"x-app", "x-claude-code-session-id", "authorization"} & sent.keys()


async def test_a_summary_that_the_router_asks_for_is_not_asked_of_a_plan(start, vendors):
    tandem = await start(config_of(vendors))

    reply = await call(
        tandem.port,
        "/v1/responses/compact",
        {"model": "gpt-6.1-sol", "input": [{"role": "user", "content": "hi"}]},
        chatgpt_login(),
    )

    assert (reply.status, reply.headers["x-tandem-target"]) == (200, "spark")
    assert not vendors["chatgpt"].seen


SEALED = "gAAAA-sealed-by-the-plan"


def reasoned(*, is_plans: bool) -> dict:
    """An answer with reasoning that only its maker can read."""
    thought = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": SEALED if is_plans else "of-another"}
    said = {"type": "output_text", "text": "hi", "annotations": []}
    message = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [said]}
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    return {"id": "resp_1", "object": "response", "status": "completed", "output": [thought, message], "usage": usage}


async def test_reasoning_of_a_plan_comes_back_to_it_and_goes_nowhere_else(start, vendors):
    vendors["chatgpt"].scripts = [answer_json(reasoned(is_plans=True))]
    tandem = await start(config_of(vendors, ("chatgpt",)))
    headers, items = {**chatgpt_login(), **CODEX}, []

    for number, tier in enumerate(("deep", "fast", "deep")):
        items += [{"type": "message", "role": "user", "content": f"turn {number}"}]
        body = {**RESPONSES, "input": items, "include": ["reasoning.encrypted_content"]}
        reply = await call(tandem.port, "/v1/responses", body, {**headers, "x-tandem-tier": tier})
        assert (reply.status, reply.headers["x-tandem-tier"]) == (200, tier), reply.body
        items += reply.json["output"]

    last = vendors["chatgpt"].seen[-1]
    assert SEALED in last.body.decode()
    assert [item["content"] for item in last.json["input"] if item.get("role") == "user"] == ["turn 0", "turn 1", "turn 2"]
    assert last.headers["authorization"] == headers["authorization"]
    told = shown_to(vendors["spark"])
    assert vendors["spark"].seen
    assert not any(secret in told for secret in (SEALED, "canary", ACCOUNT, "codex_exec", "x-codex"))


@each_road
@pytest.mark.parametrize("is_plan_down", [False, True], ids=["fast down", "plan down"])
async def test_when_one_tier_is_down_the_other_answers(start, vendors, path, body, headers, own, is_plan_down):
    tandem = await start(config_of(vendors, (own,)))
    down, left = (own, "spark") if is_plan_down else ("spark", own)
    await vendors[down].stop()
    asked = {"x-tandem-tier": "deep" if is_plan_down else "fast", "x-tandem-on-misfit": "other"}

    reply = await call(tandem.port, path, body, {**headers, **asked})

    assert (reply.status, reply.headers["x-tandem-target"]) == (200, left)
    assert "canary" not in shown_to(vendors["spark"])


async def test_reasoning_stays_with_its_plan_after_the_client_has_renewed_its_login(start, vendors):
    vendors["chatgpt"].scripts = [answer_json(reasoned(is_plans=True))]
    vendors["spark"].scripts = [answer_json(reasoned(is_plans=False))]
    config = config_of(vendors, ("chatgpt",)).replace("name: spark, dialect: chat", "name: spark, dialect: responses")
    tandem, items = await start(config), []

    for number, tier in enumerate(("deep", "fast", "deep")):
        items += [{"type": "message", "role": "user", "content": f"turn {number}"}]
        body = {**RESPONSES, "input": items, "include": ["reasoning.encrypted_content"]}
        headers = {**chatgpt_login(f"ada-{number}"), **CODEX, "x-tandem-tier": tier}
        items += (await call(tandem.port, "/v1/responses", body, headers)).json["output"]

    assert {seen.path for seen in vendors["spark"].seen} == {"/v1/responses"}
    assert SEALED not in shown_to(vendors["spark"])
    last = vendors["chatgpt"].seen[-1].body.decode()
    assert SEALED in last
    assert "of-another" not in last


async def test_a_token_that_changes_within_a_turn_goes_on_with_the_new_one(start, vendors):
    vendors["chatgpt"].scripts = [answer_json(reasoned(is_plans=True))]
    tandem = await start(config_of(vendors, ("chatgpt",)))
    first = {**RESPONSES, "input": [{"type": "message", "role": "user", "content": "go"}]}
    one = await call(tandem.port, "/v1/responses", first, {**chatgpt_login(), **CODEX, **DEEP})
    items = [*first["input"], *one.json["output"], {"type": "message", "role": "user", "content": "on"}]

    other = await call(tandem.port, "/v1/responses", {**first, "input": items}, {**chatgpt_login("ada-2"), **CODEX, **DEEP})

    assert (one.status, other.status) == (200, 200)
    assert vendors["chatgpt"].seen[1].headers["authorization"] == chatgpt_login("ada-2")["authorization"]
    assert vendors["chatgpt"].seen[1].json["input"] == items


async def test_a_reload_without_the_plan_lets_its_stream_end(start, vendors, tmp_path):
    gate, begun = asyncio.Event(), asyncio.Event()
    pieces = STREAMS["claude"].split(b"\n\n")

    async def halting(wire, seen) -> None:
        await wire.send(CHAT_STREAM_HEAD)
        for number, piece in enumerate(pieces[:-1]):
            if number == 2:
                begun.set()
                await gate.wait()
            await wire.chunk(piece + b"\n\n")
        await wire.end_chunks()

    vendors["claude"].scripts = [halting]
    tandem = await start(config_of(vendors, ("claude", "spare")))
    path, asked, headers, _ = ROAD["Claude Code"]

    running = later(call(tandem.port, path, asked, {**headers, **DEEP}))
    await asyncio.wait_for(begun.wait(), 30)
    (tmp_path / "config.yaml").write_text(config_of(vendors, ("spare",)))
    await tandem.built.reloader.reload()
    following = await call(tandem.port, path, asked, {**headers, **DEEP})
    gate.set()
    reply = await running

    assert (reply.status, reply.body) == (200, STREAMS["claude"])
    assert following.headers["x-tandem-target"] == "spare"
    assert "canary" not in shown_to(vendors["spare"])
