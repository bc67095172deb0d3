"""Undecided routes are relayed whole to the configured target."""

import asyncio
import os

import msgspec
import pytest

from tests.tools.http import call, read_reply, request_bytes
from tests.tools.running import two_targets
from tests.tools.upstream import CHAT_STREAM_HEAD, answer_json, silent
from tests.tools.waiting import until

pytestmark = pytest.mark.wire

KEY = "sk-canary-0123456789"
EMBEDDINGS = {"object": "list", "data": [{"object": "embedding", "index": 0, "embedding": [0.1, 0.2]}]}
ASKED = {"model": "text-embedding-3-small", "input": "hello"}


@pytest.fixture
async def tandem(start, upstream, other_upstream, monkeypatch):
    monkeypatch.setenv("PASSED_KEY", KEY)
    config = two_targets(
        upstream.base_url,
        other_upstream.base_url,
        fast_extra="api_key: env:PASSED_KEY,",
        extra="pass_through: {embeddings: spark, files: spark, audio: sage}\nlimits: {max_body_bytes: 100000, max_in_flight: 1}",
    )
    upstream.scripts = [answer_json(EMBEDDINGS, headers={"x-ratelimit-remaining-requests": "9", "set-cookie": "a=b"})]
    return await start(config)


async def test_embeddings_reach_their_target_with_its_key_and_come_back_as_they_are(tandem, upstream):
    reply = await call(
        tandem.port, "/v1/embeddings?x=1", ASKED, {"authorization": "Bearer mine", "x-api-key": "mine", "cookie": "mine"}
    )
    (row,) = await tandem.entries(1)

    assert (reply.status, reply.json) == (200, EMBEDDINGS)
    assert (reply.headers["x-tandem-target"], reply.headers["x-ratelimit-remaining-requests"]) == ("spark", "9")
    assert "set-cookie" not in reply.headers
    seen = upstream.seen[0]
    assert (seen.method, seen.path, seen.json) == ("POST", "/v1/embeddings?x=1", ASKED)
    assert seen.headers["authorization"] == f"Bearer {KEY}"
    assert "mine" not in str(seen.headers)
    assert (row["outcome"], row["target"], row["status"]) == ("SERVED", "spark", 200)
    assert row["because"] == "pass_through names spark for embeddings"
    assert row["duration_ms"] > 0


async def test_binary_bodies_and_any_method_pass_in_both_directions(tandem, upstream, other_upstream):
    blob = os.urandom(60_000)
    other_upstream.scripts = [answer_json(blob, headers={"content-type": "audio/mpeg", "content-disposition": "attachment"})]
    form = b'--b\r\ncontent-disposition: form-data; name="file"\r\n\r\n' + blob + b"\r\n--b--\r\n"

    spoken = await call(tandem.port, "/audio/transcriptions", form, {"content-type": "multipart/form-data; boundary=b"})
    upstream.scripts = [answer_json({"deleted": True})]
    deleted = await call(tandem.port, "/v1/files/file-1", method="DELETE")

    sent = other_upstream.seen[0]
    assert (sent.path, sent.body) == ("/v1/audio/transcriptions", form)
    assert sent.headers["content-type"] == "multipart/form-data; boundary=b"
    assert (spoken.body, spoken.headers["content-type"]) == (blob, "audio/mpeg")
    assert spoken.headers["content-disposition"] == "attachment"
    assert (deleted.json, upstream.seen[-1].method, upstream.seen[-1].path) == ({"deleted": True}, "DELETE", "/v1/files/file-1")


async def test_a_refusal_of_the_target_is_the_callers_and_closes_nothing(tandem, upstream):
    words = {"error": {"message": f"no such file for {KEY}"}}
    upstream.scripts = [answer_json(words, 404)]

    reply = await call(tandem.port, "/v1/files/nothing")
    (row,) = await tandem.entries(1)
    stats = (await call(tandem.port, "/tandem/stats")).json["targets"]["spark"]

    assert (reply.status, reply.json) == (404, {"error": {"message": "no such file for ***"}})
    assert (row["outcome"], row["status"]) == ("REFUSED", 404)
    assert (stats["wait_seconds"], stats["in_flight"]) == (0.0, 0)


@pytest.mark.parametrize(("status", "code"), [(401, "upstream_auth"), (302, "upstream_malformed")])
async def test_what_is_the_configs_fault_or_leads_elsewhere_is_told_in_our_words(tandem, upstream, status, code):
    upstream.scripts = [answer_json({}, status, headers={"location": "http://elsewhere.example"})]

    reply = await call(tandem.port, "/v1/embeddings", ASKED)

    assert (reply.status, reply.json["error"]["code"]) == (502, code)
    assert "location" not in reply.headers


async def test_a_target_that_is_gone_is_told_and_recorded(tandem, upstream):
    await upstream.stop()

    reply = await call(tandem.port, "/v1/embeddings", ASKED)
    (row,) = await tandem.entries(1)

    assert (reply.status, reply.json["error"]["code"]) == (502, "upstream_unreachable")
    assert (row["outcome"], row["target"], row["error"]) == ("FAILED", "spark", "upstream_unreachable")


async def test_without_the_setting_a_404_names_it(tandem, upstream):
    reply = await call(tandem.port, "/v1/images/generations", {"prompt": "a tandem"})

    assert reply.status == 404
    assert "pass_through: {images: TARGET}" in reply.json["error"]["message"]
    assert upstream.seen == []


@pytest.mark.parametrize(
    ("path", "method", "headers", "status"),
    [
        ("/v1/files/../models", "GET", {}, 400),
        ("/v1/files/..%2f..%2fadmin", "GET", {}, 400),
        ("/v1/files/%2e%2e/models", "GET", {}, 400),
        ("/v1/files/%252e%252e/models", "GET", {}, 400),
        ("/v1/files/..;/models", "GET", {}, 400),
        ("/v1/filesystem", "GET", {}, 404),
        ("/v1/files", "OPTIONS", {}, 405),
        ("/v1/files", "GET", {"origin": "http://evil.example"}, 403),
        ("/v1/files", "POST", {"content-length": "100001"}, 413),
    ],
)
async def test_the_limits_of_the_edge_count_here_too(tandem, upstream, path, method, headers, status):
    reply = await call(tandem.port, path, None, headers, method)

    assert reply.status == status
    assert upstream.seen == []


async def test_a_caller_who_leaves_closes_the_call_and_frees_its_slot(tandem, upstream):
    upstream.scripts = [silent]
    _, writer = await asyncio.open_connection("127.0.0.1", tandem.port)
    writer.write(request_bytes("/v1/embeddings", ASKED))
    await asyncio.wait_for(upstream.arrived.wait(), 30)
    full = await call(tandem.port, "/v1/embeddings", ASKED)

    writer.close()
    await asyncio.wait_for(upstream.seen[0].left.wait(), 30)
    await until(lambda: tandem.admission.in_flight == 0)
    (row,) = await tandem.entries(1)

    assert (full.status, full.json["error"]["code"]) == (503, "unavailable")
    assert (row["outcome"], row["target"]) == ("ABANDONED", "spark")


async def test_an_answer_that_breaks_off_is_cut_and_the_key_is_taken_out_wherever_it_is_split(tandem, upstream):
    async def broken(wire, seen):
        await wire.send(CHAT_STREAM_HEAD)
        await wire.chunk(b"before " + KEY[:9].encode())
        await wire.chunk(KEY[9:].encode() + b" after")
        wire.writer.close()

    upstream.scripts = [broken]
    reply = await call(tandem.port, "/v1/files/1/content")
    (row,) = await tandem.entries(1)

    assert (reply.body, reply.is_whole) == (b"before *** after", False)
    assert (row["outcome"], row["error"]) == ("CUT_SHORT", "upstream_cut")


async def test_secrets_of_the_query_never_come_back_in_a_refusal(start, upstream, other_upstream, monkeypatch):
    monkeypatch.setenv("PASSED_KEY", KEY)
    monkeypatch.setenv("GATEWAY_KEY", "gw-canary-987654321")
    more = "api_key: env:PASSED_KEY, query: {subscription-key: env:GATEWAY_KEY},"
    config = two_targets(upstream.base_url, other_upstream.base_url, fast_extra=more, extra="pass_through: {files: spark}")
    tandem = await start(config)

    async def quoting(wire, seen):
        await answer_json({"error": {"message": f"no route {seen.path}"}}, 404)(wire, seen)

    upstream.scripts = [quoting]
    reply = await call(tandem.port, "/v1/files/1")

    assert upstream.seen[0].path == "/v1/files/1?subscription-key=gw-canary-987654321"
    assert reply.status == 404
    assert reply.json == {"error": {"message": "no route /v1/files/1?subscription-key=***"}}


async def test_a_setting_that_is_gone_when_the_body_has_come_is_told_like_one_that_never_was(tandem, upstream):
    reader, writer = await asyncio.open_connection("127.0.0.1", tandem.port)
    writer.write(request_bytes("/v1/files", b"12345")[:-2])
    await until(lambda: tandem.admission.in_flight == 1)

    tandem.house.swap(msgspec.structs.replace(tandem.house.plan, pass_through={}))
    writer.write(b"45")
    reply = await asyncio.wait_for(read_reply(reader), 30)
    writer.close()

    assert (reply.status, upstream.seen) == (404, [])
    assert "pass_through: {files: TARGET}" in reply.json["error"]["message"]
