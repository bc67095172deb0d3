"""Every error of every path fits its API's own description, in whole answers and in streams, and so do the smaller routes."""

import json

import pytest

from router.contract.errors import UpstreamCut
from tests.conformance.reading import check
from tests.conformance.road import PATHS, SIMULATED, Tandem
from tests.conformance.test_answers import DIALECTS, request_for
from tests.tools.cases import covering
from tests.tools.loop_clock import jumping_clock
from tests.tools.scripted import EVENTS, answers
from tests.tools.speech import Speech, write_stream

IDS = ("x-tandem-request-id", "x-request-id", "request-id")
HOSTS_ERRORS = {
    "chat": {"error": {"message": "no", "type": "invalid_request_error", "param": None, "code": None}},
    "responses": {"error": {"message": "no", "type": "invalid_request_error", "param": "input", "code": "bad"}},
    "messages": {"type": "error", "error": {"type": "invalid_request_error", "message": "no"}, "request_id": "req_host"},
}
WRONG = {
    "no model": ({"model": None}, 400),
    "an unknown model": ({"model": "nobody"}, 404),
    "a stream that is no flag": ({"stream": "yes"}, 400),
    "a field of a library": ({"api_key": "x"}, 400),
    "no words": ({"messages": None, "input": None}, 400),
}


def check_refusal(dialect: str, reply, status: int) -> None:
    assert (reply.status, reply.is_whole, reply.headers["content-type"]) == (status, True, "application/json")
    check(dialect, "Error", reply.json)
    assert len({reply.headers[name] for name in IDS}) == 1


@pytest.mark.parametrize("wrong", list(WRONG))
@pytest.mark.parametrize("dialect", DIALECTS)
@jumping_clock
async def test_a_refusal_of_our_own_fits(dialect, wrong):
    changes, status = WRONG[wrong]
    asked = {
        name: value for name, value in {**request_for(dialect, "text", streams=False), **changes}.items() if value is not None
    }

    check_refusal(dialect, await Tandem("chat").call(PATHS[dialect], asked), status)


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b'{"model": "\xff"}', b'{"a":' * 2_000])
@pytest.mark.parametrize("dialect", DIALECTS)
@jumping_clock
async def test_a_refusal_of_what_is_no_json_object_fits(dialect, body):
    check_refusal(dialect, await Tandem("chat").call(PATHS[dialect], body), 400)


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH"])
@pytest.mark.parametrize("dialect", DIALECTS)
@jumping_clock
async def test_a_wrong_method_fits(dialect, method):
    reply = await Tandem("chat").call(PATHS[dialect], method=method)

    check_refusal(dialect, reply, 405)
    assert reply.headers["allow"] == "POST"


TOLD = {400: 400, 422: 422, 401: 502, 404: 502, 429: 429, 500: 502, 529: 503}


@pytest.mark.parametrize(("dialect", "upstream", "streams", "status"), covering(DIALECTS, DIALECTS, [False, True], TOLD))
@jumping_clock
async def test_a_hosts_refusal_fits_the_callers_api(dialect, upstream, streams, status):
    tandem = Tandem(upstream, answers(HOSTS_ERRORS[upstream], status))

    reply = await tandem.call(PATHS[dialect], request_for(dialect, "text", streams=streams))

    assert reply.status == TOLD[status]
    check(dialect, "Error", reply.json)


@pytest.mark.parametrize("how", ["an error event", "a cut"])
@pytest.mark.parametrize("upstream", DIALECTS)
@pytest.mark.parametrize("dialect", DIALECTS)
@jumping_clock
async def test_a_stream_that_breaks_ends_with_its_apis_own_error(dialect, upstream, how):
    begun = write_stream(upstream, Speech("Hello there."))[:3]
    error = (
        HOSTS_ERRORS[upstream]
        if upstream != "responses"
        else {"type": "error", "sequence_number": 3, "code": "x", "message": "no", "param": None}
    )
    name = b"" if upstream == "chat" else b"event: error\n"

    def play(sink) -> None:
        sink.start(200, EVENTS)
        for frame in begun:
            sink.write(frame)
        if how == "a cut":
            sink.fail(UpstreamCut("spark", "the connection was lost"))
            return
        sink.write(name + b"data: " + json.dumps(error).encode() + b"\n\n")
        sink.end()

    reply = await Tandem(upstream, play).call(PATHS[dialect], request_for(dialect, "text", streams=True))

    assert (reply.status, reply.is_whole) == (200, False)
    *_, last = reply.body.decode().rstrip("\n").split("\n\n")
    *names, data = last.split("\n")
    event = json.loads(data.removeprefix("data: "))
    if dialect == "chat":
        check("chat", "Error", event)
        return
    assert names == [f"event: {event['type']}"]
    check(dialect, event["type"], event)
    assert event["type"] in ("error", "response.failed")
    if how == "a cut" and dialect == "responses":
        assert event["type"] == "response.failed"


@pytest.mark.parametrize(("headers", "dialect"), [({}, "chat"), ({"anthropic-version": "2023-06-01"}, "messages")])
@jumping_clock
async def test_the_list_of_models_fits(headers, dialect):
    reply = await Tandem("chat").call("/v1/models", headers=headers)

    check(dialect, "Models", reply.json)
    for model in reply.json["data"]:
        check(dialect, "Model", model)
    assert {"auto", "fast", "deep"} <= {model["id"] for model in reply.json["data"]}


@pytest.mark.parametrize("path", ["/v1/embeddings", "/v1/models/nobody", "/v1/nothing"])
@jumping_clock
async def test_a_route_that_is_not_served_is_refused_in_openais_form(path):
    reply = await Tandem("chat").call(path, {"model": "auto", "input": "x"} if path.endswith("embeddings") else None)

    check_refusal("chat", reply, 404)


@jumping_clock
async def test_one_model_fits():
    check("chat", "Model", (await Tandem("chat").call("/v1/models/auto")).json)


@pytest.mark.parametrize("upstream", [*DIALECTS, SIMULATED])
@jumping_clock
async def test_counts_of_tokens_fit(upstream):
    tandem = Tandem(upstream)
    words = [{"role": "user", "content": "Count me."}]

    claude = await tandem.call("/v1/messages/count_tokens", {"model": "auto", "messages": words})
    codex = await tandem.call("/v1/responses/input_tokens", {"model": "auto", "input": words})

    check("messages", "TokenCount", claude.json)
    check("responses", "InputTokens", codex.json)


@jumping_clock
async def test_what_can_be_done_with_a_stored_response_fits():
    tandem = Tandem("messages")
    made = (await tandem.call("/v1/responses", {"model": "auto", "input": "Hello."})).json
    path = f"/v1/responses/{made['id']}"

    items = await tandem.call(f"{path}/input_items")
    cancelled = await tandem.call(f"{path}/cancel", {})
    deleted = await tandem.call(path, method="DELETE")
    gone = [await tandem.call(path), await tandem.call(f"{path}/cancel", {}), await tandem.call(f"{path}/input_items")]

    check("responses", "Items", items.json)
    check("responses", "Deleted", deleted.json)
    check_refusal("responses", cancelled, 400)
    for reply in gone:
        check_refusal("responses", reply, 404)
