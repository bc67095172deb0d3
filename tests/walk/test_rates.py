"""A caller's limits over loopback: what is refused, until when, and for whom."""

import asyncio
import json

import pytest

from router.dispatch import waiting
from tests.tools.http import call, chat, read_reply, request_bytes
from tests.tools.keyed import KEYS, Callers, swap
from tests.tools.running import two_targets
from tests.tools.sockets import open_socket
from tests.tools.speech import Speech, speak
from tests.tools.upstream import CHAT_ANSWER, CHAT_STREAM_HEAD, GOOD_CHAT_STREAM, answer_json, silent
from tests.tools.waiting import later, until

CHAT = "/v1/chat/completions"
FIGURES = ("limit", "remaining", "reset")


@pytest.fixture
def callers(tmp_path):
    return Callers(
        tmp_path, slow={"requests_per_minute": 2}, small={"tokens_per_minute": 600}, single={"in_flight": 1}, free={}
    )


@pytest.fixture
def config(upstream):
    upstream.scripts = [answer_json(CHAT_ANSWER)]
    return KEYS + two_targets(upstream.base_url, upstream.base_url, extra="pass_through: {embeddings: spark}\n")


@pytest.fixture
async def tandem(start, callers, config):
    return await start(config)


@pytest.mark.parametrize("path", [CHAT, "/v1/messages", "/v1/responses", "/v1/embeddings"])
async def test_over_its_requests_a_caller_gets_429_with_the_wait_and_others_are_served(tandem, callers, upstream, path):
    body = {**chat(), "max_tokens": 9} if "responses" not in path else {"model": "auto", "input": "hi"}
    for _ in range(2):
        assert (await call(tandem.port, CHAT, chat(), callers["slow"])).status == 200
    called = len(upstream.seen)

    refused = await call(tandem.port, path, body, callers["slow"])

    error = refused.json["error"]
    assert refused.status == 429
    assert error.get("code", error["type"]) in ("rate_limited", "rate_limit_error")
    assert "quota of 2 requests a minute. Try again in" in error["message"]
    assert 1 <= int(refused.headers["retry-after"]) <= 60
    assert len(upstream.seen) == called
    assert (await call(tandem.port, CHAT, chat(), callers["free"])).status == 200


async def tell_limits(wire, seen) -> None:
    theirs = {"x-ratelimit-limit-requests": "10000", "x-ratelimit-remaining-requests": "9999", "x-ratelimit-own": "1"}
    if not seen.json.get("stream"):
        await answer_json(CHAT_ANSWER, headers=theirs)(wire, seen)
        return
    lines = "".join(f"{name}: {value}\r\n" for name, value in theirs.items())
    await wire.send(CHAT_STREAM_HEAD[:-2] + lines.encode() + b"\r\n")
    await wire.chunk(b"".join(GOOD_CHAT_STREAM))
    await wire.end_chunks()


def limits_in(reply) -> dict[str, str]:
    return {name: value for name, value in reply.headers.items() if "ratelimit" in name}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streaming"])
async def test_a_caller_sees_its_own_limits_by_its_dialects_names_and_never_the_providers(tandem, callers, upstream, stream):
    upstream.scripts = [tell_limits]

    replies = [await call(tandem.port, CHAT, chat(stream=stream), callers["slow"]) for _ in range(3)]
    bridged = await call(tandem.port, "/v1/messages", chat(max_tokens=9), callers["small"])
    unlimited = await call(tandem.port, CHAT, chat(stream=stream), callers["free"])

    assert [reply.status for reply in (*replies, bridged, unlimited)] == [200, 200, 429, 200, 200]
    resets = [limits_in(reply).pop("x-ratelimit-reset-requests") for reply in replies]
    assert all(0 < float(reset.removesuffix("s")) <= 60 for reset in resets)
    assert [limits_in(reply) for reply in replies] == [
        {"x-ratelimit-limit-requests": "2", "x-ratelimit-remaining-requests": left, "x-ratelimit-reset-requests": reset}
        for left, reset in zip("100", resets, strict=True)
    ]
    assert set(limits_in(bridged)) == {f"anthropic-ratelimit-tokens-{figure}" for figure in FIGURES}
    assert limits_in(unlimited) == {}


@pytest.mark.parametrize(("status", "seen"), [(429, 429), (500, 502), (400, 400)])
@pytest.mark.parametrize(
    ("name", "path", "expected"),
    [
        ("slow", CHAT, {f"x-ratelimit-{figure}-requests" for figure in FIGURES}),
        ("small", "/v1/messages", {f"anthropic-ratelimit-tokens-{figure}" for figure in FIGURES}),
        ("free", CHAT, set()),
    ],
)
async def test_a_refusal_of_the_target_tells_the_callers_own_limits(
    tandem, callers, upstream, status, seen, name, path, expected
):
    theirs = {"retry-after": "30", "x-ratelimit-remaining-requests": "0", "x-ratelimit-own": "1"}
    upstream.scripts = [answer_json({"error": {"message": "no"}}, status, theirs)]

    refused = await call(tandem.port, path, chat(max_tokens=9), callers[name])

    assert refused.status == seen
    assert set(limits_in(refused)) == expected
    assert limits_in(refused).get("x-ratelimit-remaining-requests", "1") == "1"


async def test_a_caller_that_no_target_can_serve_sees_its_own_limits_too(tandem, callers, upstream):
    upstream.scripts = [answer_json({"error": {"message": "no"}}, 429, {"retry-after": "30"})]

    refused = [await call(tandem.port, CHAT, chat(), callers["slow"]) for _ in range(2)]

    assert [reply.status for reply in refused] == [429, 429]
    assert "asked to be retried" in refused[1].json["error"]["message"]  # nothing was sent, or counted
    assert [limits_in(reply)["x-ratelimit-remaining-requests"] for reply in refused] == ["1", "1"]


@pytest.mark.parametrize(("path", "prefix"), [(CHAT, "x-ratelimit-"), ("/v1/messages", "anthropic-ratelimit-")])
async def test_a_stream_that_waits_in_a_queue_begins_with_the_callers_own_limits(
    start, callers, upstream, monkeypatch, path, prefix
):
    monkeypatch.setattr(waiting, "HEARTBEAT_SECONDS", 0.05)
    gate = asyncio.Event()

    async def hold(wire, seen) -> None:
        await gate.wait()
        await answer_json(CHAT_ANSWER)(wire, seen)

    upstream.scripts = [hold]
    tandem = await start(KEYS + two_targets(upstream.base_url, upstream.base_url, fast_extra="quota: {in_flight: 1},"))
    body = chat(model="fast", max_tokens=9)
    first = later(call(tandem.port, CHAT, body, callers["free"]))
    await until(lambda: upstream.seen)
    reader, writer = await asyncio.open_connection("127.0.0.1", tandem.port)
    writer.write(request_bytes(path, {**body, "stream": True}, callers["slow"]))

    head = (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 30)).decode()
    gate.set()
    await first
    writer.close()

    assert "x-tandem-target: queued" in head
    assert head.count(prefix) == len(FIGURES), head


async def test_a_route_that_is_passed_on_tells_the_callers_limits_too(tandem, callers, upstream):
    upstream.scripts = [answer_json({"data": []}, headers={"x-ratelimit-remaining-requests": "9999"})]

    limited, unlimited = [
        await call(tandem.port, "/v1/embeddings", {"model": "m", "input": "x"}, callers[name]) for name in ("slow", "free")
    ]

    assert limits_in(limited)["x-ratelimit-remaining-requests"] == "1"
    assert limits_in(unlimited) == {}


async def test_over_its_requests_a_caller_is_refused_before_its_body_is_read(tandem, callers, upstream):
    for _ in range(2):
        await call(tandem.port, CHAT, chat(), callers["slow"])
    head = request_bytes(CHAT, b"", {**callers["slow"], "content-length": "10000000"})

    reader, writer = await asyncio.open_connection("127.0.0.1", tandem.port)
    writer.write(head)
    refused = await asyncio.wait_for(read_reply(reader), 30)
    writer.close()

    assert (refused.status, refused.json["error"]["code"]) == (429, "rate_limited")
    assert tandem.admission.in_flight == 0


async def test_tokens_are_counted_as_the_answer_says(tandem, callers, upstream):
    large = {**CHAT_ANSWER, "usage": {"prompt_tokens": 400, "completion_tokens": 300, "total_tokens": 700}}
    upstream.scripts = [answer_json(large)]

    first = await call(tandem.port, CHAT, chat(), callers["small"])
    refused = await call(tandem.port, CHAT, chat(), callers["small"])
    shown = await call(tandem.port, "/tandem/stats", headers=callers["small"])

    assert first.status == 200
    assert (refused.status, refused.json["error"]["code"]) == (429, "rate_limited")
    assert "quota of 600 tokens a minute" in refused.json["error"]["message"]
    assert shown.json["limits"] == {"tokens_per_minute": {"used": 700, "limit": 600, "left": 0}}


async def test_one_at_once_is_one_at_once_and_those_that_follow_each_other_are_never_refused(tandem, callers, upstream):
    upstream.scripts = [silent]
    first = later(call(tandem.port, CHAT, chat(), callers["single"]))
    await until(lambda: upstream.seen)
    upstream.scripts = [answer_json(CHAT_ANSWER)]

    second = await call(tandem.port, CHAT, chat(), callers["single"])
    first.cancel()
    await until(lambda: not tandem.house.state.running)
    rows = await tandem.entries(2)
    replies = [await call(tandem.port, CHAT, chat(stream=False), callers["single"]) for _ in range(25)]

    assert (second.status, second.json["error"]["code"]) == (429, "rate_limited")
    assert "quota of 1 at once" in second.json["error"]["message"]
    assert ("REFUSED", 429, "single") in [(row["outcome"], row["status"], row["caller"]) for row in rows]
    assert {reply.status for reply in replies} == {200}


async def test_the_limits_hold_on_a_socket_too(tandem, callers, upstream):
    upstream.scripts = [speak("chat", Speech("done"))]
    async with open_socket(tandem.port, **callers["slow"]) as socket:
        for _ in range(2):
            await socket.ask("fix the typo")
        await socket.say("fix the typo")
        refused = await socket.answer()

    assert (refused["type"], refused["status"], refused["error"]["code"]) == ("error", 429, "rate_limited")
    assert len(upstream.seen) == 2


async def test_a_new_plan_changes_the_limit_and_keeps_what_was_used(tandem, callers, config):
    for _ in range(2):
        await call(tandem.port, CHAT, chat(), callers["slow"])
    callers.write(slow={"requests_per_minute": 3})
    swap(tandem, config)

    statuses = [(await call(tandem.port, CHAT, chat(), callers["slow"])).status for _ in range(2)]
    callers.write(slow={})
    swap(tandem, config)
    freed = await call(tandem.port, CHAT, chat(), callers["slow"])

    assert statuses == [200, 429]
    assert freed.status == 200


async def test_what_a_refused_caller_is_told_names_no_one_else(tandem, callers):
    for _ in range(3):
        refused = await call(tandem.port, CHAT, chat(), callers["slow"])

    shown = await call(tandem.port, "/tandem/stats", headers=callers["free"])
    told = json.dumps([refused.json, shown.json])
    assert not {name for name in ("slow", "small", "single") if name in told}
