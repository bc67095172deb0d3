"""Traces of whole requests, with a collector and scripted targets."""

import asyncio
import contextlib
import json
import socket

import pytest

from router.config.outside import name_replica
from tests.conftest import SIMULATED
from tests.tools.http import call, chat, request_bytes
from tests.tools.running import one_dialect, running, two_targets
from tests.tools.sockets import open_socket
from tests.tools.speech import Speech, speak
from tests.tools.trace_receiver import Receiver, family_of, misplaced_in, read_batch, values_of
from tests.tools.upstream import CHAT_ANSWER, GOOD_CHAT_STREAM, answer_json, silent, stream
from tests.tools.waiting import until

PATH = "/v1/chat/completions"
CANARY = "zanzibarcanary"
TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
SAMPLED, UNSAMPLED = f"00-{TRACE}-{SPAN}-01", f"00-{TRACE}-{SPAN}-00"
GOOD = answer_json(CHAT_ANSWER)


@pytest.fixture
def receiver():
    with Receiver() as found:
        yield found


def traced(receiver, sample: float = 1.0) -> str:
    return f"\ntraces: {{endpoint: '{receiver.url}', sample: {sample}}}\n"


@pytest.fixture
def serve(receiver, upstream, other_upstream, tmp_path):
    """A traced Tandem. The collector has all traces once it is closed."""
    upstream.scripts = other_upstream.scripts = [GOOD]

    @contextlib.asynccontextmanager
    async def begin(sample=1.0, **more):
        extra = more.pop("extra", "") + traced(receiver, sample)
        config = two_targets(upstream.base_url, other_upstream.base_url, extra=extra, **more)
        async with running(config, tmp_path) as tandem:
            yield tandem

    return begin


def only_trace(receiver):
    """The only trace, with correct parents and times."""
    (spans,) = receiver.traces.values()
    assert misplaced_in(spans) == []
    return family_of(spans)


async def test_a_callers_trace_goes_through_the_router_to_the_target(serve, receiver, upstream):
    async with serve(sample=0) as tandem:
        reply = await call(tandem.port, PATH, chat(), {"traceparent": SAMPLED, "tracestate": "vendor=1"})
    request, decide, (attempt,) = only_trace(receiver)

    sent = upstream.seen[0].headers
    assert (request.trace_id.hex(), request.parent_span_id.hex()) == (TRACE, SPAN)
    assert sent["traceparent"] == f"00-{TRACE}-{attempt.span_id.hex()}-01"
    assert sent["tracestate"] == "vendor=1"
    assert values_of(request.attributes)["tandem.request_id"] == reply.headers["x-tandem-request-id"]
    assert values_of(decide.attributes)["tandem.because"] == reply.headers["x-tandem-because"]


async def test_a_request_tells_the_url_that_was_asked_and_the_router_that_was(serve, receiver):
    async with serve(extra="pass_through: {embeddings: spark}\n") as tandem:
        await call(tandem.port, "/chat/completions", chat())
        await call(tandem.port, "/v1/embeddings/deep?x=1", {"model": "m", "input": "hi"})
    told = [values_of(family_of(spans)[0].attributes) for spans in receiver.traces.values()]

    assert {(each["http.route"], each["url.path"], each["url.scheme"]) for each in told} == {
        ("/v1/chat/completions", "/chat/completions", "http"),
        ("/v1/embeddings", "/v1/embeddings/deep", "http"),
    }
    (resource,) = read_batch(receiver.taken[0]).resource_spans
    assert values_of(resource.resource.attributes)["service.instance.id"] == name_replica()


async def test_a_callers_trace_that_is_not_sampled_is_not_recorded_and_reaches_the_target_as_it_came(serve, receiver, upstream):
    async with serve() as tandem:
        await call(tandem.port, PATH, chat(), {"traceparent": UNSAMPLED})

    assert (receiver.seen, upstream.seen[0].headers["traceparent"]) == ([], UNSAMPLED)


async def test_without_traces_a_callers_trace_goes_no_further_and_a_target_is_sent_none(pair, upstream):
    await call(pair.port, PATH, chat(), {"traceparent": SAMPLED, "tracestate": "vendor=1"})

    assert {"traceparent", "tracestate"}.isdisjoint(upstream.seen[0].headers)


async def test_a_malformed_trace_is_ignored_and_the_request_begins_its_own(serve, receiver, upstream):
    async with serve() as tandem:
        await call(tandem.port, PATH, chat(), {"traceparent": f"00-{TRACE}-{CANARY}-01", "tracestate": CANARY})
    request, *_ = only_trace(receiver)

    assert request.trace_id.hex() != TRACE
    assert request.parent_span_id == b""
    assert CANARY not in str(upstream.seen[0].headers)


async def test_a_spill_has_a_span_for_each_target_and_each_target_the_id_of_its_own(serve, receiver, upstream, other_upstream):
    upstream.scripts = [answer_json({"error": {"message": CANARY}}, 503)]
    async with serve() as tandem:
        reply = await call(tandem.port, PATH, chat(CANARY, model="auto"), {"x-tandem-tier": "auto"})
    request, _, attempts = only_trace(receiver)

    assert reply.status == 200
    assert [values_of(each.attributes)["tandem.target"] for each in attempts][-1] == "sage"
    sent = [seen.headers["traceparent"].split("-")[2] for seen in (*upstream.seen, *other_upstream.seen)]
    assert sent == [each.span_id.hex() for each in attempts]
    assert (request.status.code, attempts[0].status.code, attempts[-1].status.code) == (0, 2, 0)


async def test_a_stream_tells_its_first_chunk_and_its_tokens(serve, receiver, upstream, other_upstream):
    upstream.scripts = other_upstream.scripts = [stream(*GOOD_CHAT_STREAM)]
    async with serve() as tandem:
        await call(tandem.port, PATH, chat(stream=True))
    _, _, (attempt,) = only_trace(receiver)
    told = values_of(attempt.attributes)

    assert told["gen_ai.request.stream"] is True
    assert 0 < told["gen_ai.response.time_to_first_chunk"] <= (attempt.end_time_unix_nano - attempt.start_time_unix_nano) / 1e9
    assert told["gen_ai.usage.output_tokens"] > 0


async def test_refused_replayed_and_passed_on_requests_have_spans_that_say_so(serve, receiver, upstream):
    async with serve(extra="pass_through: {embeddings: spark}") as tandem:
        await call(tandem.port, PATH, {"model": "auto", "messages": CANARY})
        await call(tandem.port, PATH, chat(), {"idempotency-key": "k1"})
        await call(tandem.port, PATH, chat(), {"idempotency-key": "k1"})
        await call(tandem.port, f"/v1/embeddings?q={CANARY}", {"model": "e", "input": CANARY})
    found = [family_of(spans) for spans in receiver.traces.values()]
    refused, _, again, passed = found

    assert [len(misplaced_in(spans)) for spans in receiver.traces.values()] == [0] * 4
    assert values_of(refused[0].attributes)["tandem.outcome"] == "REFUSED"
    assert refused[1:] == (None, [])
    assert values_of(again[0].attributes)["tandem.because"].startswith("replayed from req_")
    assert again[1:] == (None, [])
    assert (passed[0].name, passed[1], passed[2][0].name) == ("POST /v1/embeddings", None, "embeddings fast-model")
    assert upstream.seen[-1].headers["traceparent"].split("-")[2] == passed[2][0].span_id.hex()


async def test_a_request_whose_caller_leaves_is_traced_as_far_as_it_came(serve, receiver, upstream):
    upstream.scripts = [silent]
    async with serve() as tandem:
        _, writer = await asyncio.open_connection("127.0.0.1", tandem.port)
        writer.write(request_bytes(PATH, chat(model="fast")))
        await until(lambda: upstream.seen)
        writer.close()
        await tandem.entries(1)
    request, _, (attempt,) = only_trace(receiver)

    assert values_of(request.attributes)["tandem.outcome"] == "ABANDONED"
    assert values_of(attempt.attributes)["error.type"] == "abandoned"
    assert (request.status.code, attempt.status.code) == (0, 0)


async def test_each_request_on_a_socket_has_a_trace_of_its_own_unless_its_handshake_brought_one(receiver, tmp_path):
    async with running(SIMULATED + traced(receiver), tmp_path) as tandem:
        for headers in ({}, {"traceparent": SAMPLED}):
            async with open_socket(tandem.port, **headers) as client:
                for _ in range(2):
                    await client.say(CANARY)
                    await client.answer()
    found = receiver.traces

    assert sorted(len(spans) for spans in found.values()) == [3, 3, 6]
    assert len(found[bytes.fromhex(TRACE)]) == 6
    assert {span.name for spans in found.values() for span in spans if span.kind == span.SPAN_KIND_SERVER} == {"/v1/responses"}
    assert [wrong for spans in found.values() for wrong in misplaced_in(spans)] == []


@pytest.mark.parametrize("dialect", ["chat", "responses", "messages"])
async def test_words_of_a_request_are_in_no_trace_wherever_they_are(dialect, receiver, upstream, tmp_path):
    upstream.scripts = [speak(dialect, Speech(f"the answer is {CANARY}"))]
    config = one_dialect(dialect, upstream.base_url, extra=traced(receiver) + "ledger: {path: test.db, keep_text: true}\n")
    config = config.replace("ledger: {path: test.db}\n", "", 1)
    tool = {"type": "function", "function": {"name": CANARY, "description": CANARY, "parameters": {}}}
    bodies = {
        "chat": (PATH, {**chat(f"fix the typo {CANARY}"), "tools": [tool], "user": CANARY}),
        "responses": (
            "/v1/responses",
            {"model": "auto", "input": f"fix {CANARY}", "instructions": CANARY, "metadata": {"a": CANARY}},
        ),
        "messages": ("/v1/messages", {**chat(f"fix {CANARY}"), "max_tokens": 99, "system": CANARY}),
    }
    headers = {"x-tandem-session": CANARY, "x-tandem-supersede": CANARY, "idempotency-key": CANARY, "user-agent": CANARY}
    async with running(config, tmp_path) as tandem:
        path, body = bodies[dialect]
        replies = [await call(tandem.port, path, body, headers), await call(tandem.port, path, {**body, "stream": True})]
        row = (await tandem.entries(2))[0]

    assert [reply.status for reply in replies] == [200, 200]
    assert CANARY in json.dumps({name: str(value) for name, value in row.items()})
    assert len(receiver.traces) == 2
    assert all(CANARY.encode() not in taken for taken in receiver.taken)


async def test_a_reload_switches_traces_on_and_off_with_their_sample_and_headers(
    pair, receiver, upstream, other_upstream, tmp_path, monkeypatch
):
    plain = two_targets(upstream.base_url, other_upstream.base_url)
    monkeypatch.setenv("TRACE_HEADERS", "x-key=canary-of-headers")
    observers, headers = (
        pair.house.state.observers,
        f"traces: {{endpoint: '{receiver.url}', sample: 1, headers: env:TRACE_HEADERS}}",
    )

    async def ask_with(config: str):
        (tmp_path / "config.yaml").write_text(config)
        done = await pair.built.reloader.reload()
        await call(pair.port, PATH, chat())
        await pair.entries(len(upstream.seen))
        return done

    before = {kind: len(handlers) for kind, handlers in observers.handlers.items()}
    on = await ask_with(plain + headers)
    off = await ask_with(plain)
    receiver.arrived.acquire()

    assert len(receiver.traces) == 1
    assert receiver.seen[0][1]["x-key"] == "canary-of-headers"
    assert "canary-of-headers" not in str((on, off, pair.loaded))
    assert "traces" in on.changes.applied
    assert {kind: len(handlers) for kind, handlers in observers.handlers.items() if handlers} == {
        kind: count for kind, count in before.items() if count
    }
    assert [("traceparent" in seen.headers) for seen in upstream.seen] == [True, False]


async def test_an_endpoint_that_never_answers_fails_no_request_and_its_losses_are_counted_when_the_router_stops(
    serve, receiver
):
    with socket.create_server(("127.0.0.1", 0)) as mute:
        receiver.url = f"http://127.0.0.1:{mute.getsockname()[1]}"
        async with serve() as tandem:
            replies = await asyncio.gather(*[call(tandem.port, PATH, chat(model="fast")) for _ in range(20)])

    assert {reply.status for reply in replies} == {200}
    assert tandem.house.state.tracing.losses.count == 20
