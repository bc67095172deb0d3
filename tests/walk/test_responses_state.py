"""Responses that continue each other: chains, other targets, callers, deletion, restart, compaction."""

import asyncio
import json

import pytest

from router.contract.caller import Caller
from router.contract.exchange import Arrival
from router.contract.words import Dialect, Operation
from router.dialects.translate.envelope import unwrap_summary
from tests.conftest import SIMULATED
from tests.tools.exchanges import RecordingSink
from tests.tools.http import call, request_bytes
from tests.tools.running import one_dialect, running, two_targets
from tests.tools.speech import Speech, ToolCall, speak
from tests.tools.upstream import CHAT_STREAM_HEAD, answer_json

FAST, DEEP = {"x-tandem-tier": "fast"}, {"x-tandem-tier": "deep"}
MESSAGE = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]}


def two_responses_targets(fast: str, deep: str, extra: str = "") -> str:
    return two_targets(fast, deep, extra=extra).replace("dialect: chat", "dialect: responses")


def said(text: str, number: int = 1) -> dict:
    return {
        "type": "message",
        "id": f"msg_{number}",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": text, "annotations": []}],
    }


def response(name: str, *output: dict, **more: object) -> dict:
    return {
        "id": name,
        "object": "response",
        "created_at": 1,
        "model": "m",
        "status": "completed",
        "output": list(output) or [said(f"answer {name}")],
        "usage": {"input_tokens": 5, "output_tokens": 2, "total_tokens": 7},
        **more,
    }


def frame(kind: str, **fields: object) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()


def create(text: str = "fix the typo", **more: object) -> dict:
    return {"model": "auto", "input": text, **more}


def texts(items: list[dict]) -> list[str]:
    return [
        part["text"]
        for item in items
        for part in ([{"text": item["content"]}] if isinstance(item["content"], str) else item["content"])
    ]


@pytest.fixture
async def pair(start, upstream, other_upstream):
    """Scripted fast and deep tiers that speak Responses."""
    return await start(two_responses_targets(upstream.base_url, other_upstream.base_url))


async def test_a_chain_of_three_goes_on_with_its_whole_conversation_on_the_simulated_tier(simulated):
    first = (await call(simulated.port, "/v1/responses", create("first words"))).json
    second = (await call(simulated.port, "/v1/responses", create("second", previous_response_id=first["id"]))).json
    third = (await call(simulated.port, "/v1/responses", create("third", previous_response_id=second["id"]))).json

    items = (await call(simulated.port, f"/v1/responses/{third['id']}/input_items?order=asc")).json
    kept = (await call(simulated.port, f"/v1/responses/{third['id']}")).json
    assert [item["role"] for item in items["data"]] == ["user", "assistant", "user", "assistant", "user"]
    assert texts(items["data"])[::2] == ["first words", "second", "third"]
    assert kept == {**third, "previous_response_id": second["id"]}


async def test_a_streamed_response_can_be_gone_on_from_before_its_target_closes_the_stream(pair, upstream):
    gate = asyncio.Event()

    async def lingering(wire, seen):
        await wire.send(CHAT_STREAM_HEAD)
        await wire.chunk(frame("response.created", response={"id": "resp_a"}))
        await wire.chunk(frame("response.completed", response=response("resp_a")))
        await asyncio.wait_for(gate.wait(), 30)
        await wire.end_chunks()

    upstream.scripts = [lingering, answer_json(response("resp_b"))]
    reader, writer = await asyncio.open_connection("127.0.0.1", pair.port)
    writer.write(request_bytes("/v1/responses", create(stream=True), FAST))
    await asyncio.wait_for(reader.readuntil(b"answer resp_a"), 30)

    reply = await call(pair.port, "/v1/responses", create("go", previous_response_id="resp_a"), FAST)

    gate.set()
    writer.close()
    assert reply.status == 200
    assert texts(upstream.seen[1].json["input"]) == ["fix the typo", "answer resp_a", "go"]


async def test_a_target_that_a_chain_returns_to_gets_its_own_reasoning_back_unchanged(pair, upstream, other_upstream):
    hidden = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"}
    upstream.scripts = [answer_json(response("resp_a", hidden, said("one"), store=True)), answer_json(response("resp_c"))]
    other_upstream.scripts = [answer_json(response("resp_b", {**hidden, "id": "rs_2"}, said("two", 2)))]

    await call(pair.port, "/v1/responses", create("a"), FAST)
    await call(pair.port, "/v1/responses", create("b", previous_response_id="resp_a"), DEEP)
    await call(pair.port, "/v1/responses", create("c", previous_response_id="resp_b"), FAST)

    items = upstream.seen[1].json["input"]
    assert [item["type"] for item in items] == ["message", "reasoning", "message", "message", "message", "message"]
    assert items[1:3] == [hidden, said("one")]
    assert items[4]["id"] != "msg_2"


async def test_the_target_that_says_it_keeps_the_response_gets_the_request_as_it_came(pair, upstream):
    upstream.scripts = [answer_json(response("resp_a", store=True)), answer_json(response("resp_b", store=True))]
    raw = b'{"model": "auto",  "input": "go on", "previous_response_id": "resp_a"}'

    await call(pair.port, "/v1/responses", create("x" * 40_000), FAST)
    reply = await call(pair.port, "/v1/responses", raw, FAST | {"x-tandem-explain": "full"})

    assert upstream.seen[1].body == raw.replace(b'"auto"', b'"fast-model"')
    assert json.loads(reply.headers["x-tandem-explain"])["prompt_tokens"] > 1_000


SETTINGS = {
    "instructions": "Be brief.",
    "metadata": {"team": "blue"},
    "temperature": 0.2,
    "max_output_tokens": 64,
    "parallel_tool_calls": False,
    "store": True,
    "text": {"format": {"type": "text"}, "verbosity": "low"},
}


async def test_settings_are_said_back_and_found_again_and_so_is_what_was_continued_from(simulated):
    first = (await call(simulated.port, "/v1/responses", {"model": "fast", "input": "one", **SETTINGS})).json
    second = (await call(simulated.port, "/v1/responses", create("two", previous_response_id=first["id"]))).json

    found = (await call(simulated.port, f"/v1/responses/{first['id']}")).json
    assert found == first
    assert {name: found[name] for name in SETTINGS} == SETTINGS
    assert second["previous_response_id"] == first["id"]
    assert (second["instructions"], second["metadata"]) == (None, {})


@pytest.mark.parametrize("status", [400, 404])
async def test_a_target_that_lost_its_response_is_asked_again_with_the_whole_transcript(pair, upstream, status):
    lost = answer_json({"error": {"code": "previous_response_not_found"}}, status)
    upstream.scripts = [answer_json(response("resp_a", store=True)), lost, answer_json(response("resp_b"))]

    await call(pair.port, "/v1/responses", create(), FAST)
    reply = await call(pair.port, "/v1/responses", create("go", previous_response_id="resp_a"), FAST)

    assert (reply.status, reply.json["id"]) == (200, "resp_b")
    assert texts(upstream.seen[2].json["input"]) == ["fix the typo", "answer resp_a", "go"]


async def test_an_id_that_nobody_can_know_is_refused_with_openais_code(start, upstream, simulated):
    chat_only = await start(two_targets(upstream.base_url, upstream.base_url).replace("test.db", "other.db"))

    replies = [
        await call(tandem.port, "/v1/responses", create(previous_response_id="resp_none")) for tandem in (chat_only, simulated)
    ]

    assert [(reply.status, reply.json["error"]["code"]) for reply in replies] == [(400, "previous_response_not_found")] * 2
    assert replies[0].json["error"]["param"] == "previous_response_id"
    assert "resp_none" in replies[0].json["error"]["message"]


async def test_a_deleted_response_is_gone_for_reading_and_for_going_on_even_where_its_target_has_it(pair, upstream):
    upstream.scripts = [answer_json(response("resp_a", store=True))]
    await call(pair.port, "/v1/responses", create(), FAST)

    deleted = await call(pair.port, "/v1/responses/resp_a", method="DELETE")

    assert deleted.json == {"id": "resp_a", "object": "response", "deleted": True}
    for path, method in (("/v1/responses/resp_a", "GET"), ("/responses/resp_a", "DELETE")):
        assert (await call(pair.port, path, method=method)).status == 404
    reply = await call(pair.port, "/v1/responses", create(previous_response_id="resp_a"), FAST)
    assert (reply.status, reply.json["error"]["code"]) == (400, "previous_response_not_found")
    assert len(upstream.seen) == 1


async def ask(tandem, caller: str, body: dict) -> RecordingSink:
    taken = RecordingSink()
    arrival = Arrival(f"req_{caller}", Dialect.RESPONSES, Operation.CREATE, FAST, json.dumps(body).encode(), Caller(caller))
    await tandem.house.serve(tandem.house.begin(arrival), taken)
    return taken


async def test_callers_never_see_one_anothers_responses(pair, upstream):
    upstream.scripts = [answer_json(response("resp_a", store=True)), answer_json(response("resp_b"))]
    assert (await ask(pair, "ann", create("secret"))).status == 200

    stranger = await ask(pair, "bob", create(previous_response_id="resp_a"))
    owner = await ask(pair, "ann", create(previous_response_id="resp_a"))

    assert (stranger.status, json.loads(stranger.body)["error"]["code"]) == (400, "previous_response_not_found")
    assert owner.status == 200
    assert len(upstream.seen) == 2
    assert await pair.house.state.responses.find("resp_a", Caller("bob")) is None
    assert (await call(pair.port, "/v1/responses/resp_a")).status == 404


async def test_only_an_explicit_store_true_survives_a_restart(tmp_path):
    config = SIMULATED + "store: {path: responses.db}\n"
    async with running(config, tmp_path) as tandem:
        asked = (await call(tandem.port, "/v1/responses", create("for long", store=True))).json
        silent = (await call(tandem.port, "/v1/responses", create("for now"))).json

    async with running(config, tmp_path) as tandem:
        kept = await call(tandem.port, f"/v1/responses/{asked['id']}")
        gone = await call(tandem.port, f"/v1/responses/{silent['id']}")
        more = await call(tandem.port, "/v1/responses", create("go", previous_response_id=asked["id"]))

    assert (kept.json, gone.status, more.status) == (asked, 404, 200)
    assert (tmp_path / "responses.db").stat().st_mode & 0o777 == 0o600
    assert b"for long" in (tmp_path / "responses.db").read_bytes()
    assert b"for now" not in (tmp_path / "responses.db").read_bytes()


async def test_input_tokens_are_counted_here_with_the_history_and_nobody_is_called(pair, upstream):
    upstream.scripts = [answer_json(response("resp_a", said("word " * 200)))]
    await call(pair.port, "/v1/responses", create(), FAST)

    alone = await call(pair.port, "/v1/responses/input_tokens", create("fix it"))
    with_history = await call(pair.port, "/responses/input_tokens", create("fix it", previous_response_id="resp_a"))

    assert alone.json["object"] == "response.input_tokens"
    assert 1 < alone.json["input_tokens"] < 40
    assert with_history.json["input_tokens"] > alone.json["input_tokens"] + 150
    assert len(upstream.seen) == 1
    assert [entry["outcome"] for entry in await pair.entries(3)] == ["SERVED"] * 3


async def test_a_compaction_holds_what_was_said_and_a_summary_and_is_known_as_one(pair, upstream, other_upstream):
    upstream.scripts = other_upstream.scripts = [answer_json(response("resp_s", said("All is done but the tests.")))]
    history = [
        {"role": "developer", "content": "Be terse."},
        {"role": "user", "content": "write a parser"},
        said("I wrote it."),
        {"type": "function_call", "call_id": "call_9", "name": "ls", "arguments": "{}"},
    ]
    body = {"model": "auto", "input": history, "tools": [{"type": "function", "name": "ls"}], "instructions": "Code."}

    reply = await call(pair.port, "/v1/responses/compact", body)

    sent = (upstream.seen + other_upstream.seen)[0].json
    assert (sent["store"], sent["stream"], sent["instructions"], "tools" in sent) == (False, False, "Code.", False)
    assert sent["input"][:3] == history[:3]
    assert len(sent["input"]) == 4
    assert (reply.json["object"], reply.json["usage"]["input_tokens"]) == ("response.compaction", 5)
    assert [item.get("role") for item in reply.json["output"]] == ["developer", "user", None]
    assert reply.json["output"][2]["type"] == "compaction"
    assert unwrap_summary(reply.json["output"][2]["encrypted_content"]).endswith("All is done but the tests.")
    assert reply.headers["x-tandem-tier"] in ("fast", "deep")
    (entry,) = await pair.entries()
    assert (entry["turn_kind"], entry["outcome"]) == ("compaction", "SERVED")


def named(item: dict) -> dict:
    return {"type": "item_reference", "id": item["id"]}


@pytest.mark.parametrize("dialect", ["chat", "responses", "messages"])
async def test_a_second_turn_that_names_the_first_answer_is_sent_with_it(start, upstream, dialect):
    tandem = await start(one_dialect(dialect, upstream.base_url))
    upstream.scripts = [speak(dialect, Speech("the secret is 4711")), speak(dialect, Speech("4711"))]
    question = {"role": "user", "content": "What was it?"}

    first = (await call(tandem.port, "/v1/responses", create("say: the secret is 4711"))).json
    second = await call(tandem.port, "/v1/responses", create([MESSAGE, named(first["output"][0]), question]))

    sent = json.dumps(upstream.seen[1].json)
    assert second.status == 200
    assert sent.index("hi") < sent.index("the secret is 4711") < sent.index("What was it?")
    assert "item_reference" not in sent


async def test_an_item_that_is_not_kept_is_not_found_and_nobody_is_called(pair, upstream, other_upstream):
    upstream.scripts = [answer_json(response("resp_a", said("one")))]
    await call(pair.port, "/v1/responses", create("a", store=False), FAST)

    replies = [
        await call(pair.port, "/v1/responses", create([MESSAGE, named({"id": name})], stream=stream))
        for name in ("msg_1", "msg_none")
        for stream in (False, True)
    ]

    assert {(reply.status, reply.json["error"]["code"]) for reply in replies} == {(404, "item_not_found")}
    assert replies[0].json["error"]["message"].startswith("Item with id 'msg_1' not found")
    assert replies[0].json["error"]["param"] == "input[1].id"
    assert (len(upstream.seen), other_upstream.seen) == (1, [])


async def test_callers_never_see_one_anothers_items(pair, upstream):
    upstream.scripts = [answer_json(response("resp_a", said("secret"))), answer_json(response("resp_b"))]
    await ask(pair, "ann", create("keep this"))

    stranger = await ask(pair, "bob", create([named(said("secret"))]))
    owner = await ask(pair, "ann", create([named(said("secret"))]))

    assert (stranger.status, owner.status) == (404, 200)
    assert len(upstream.seen) == 2


async def test_items_that_were_stored_are_found_after_a_restart(tmp_path):
    config = SIMULATED + "store: {path: responses.db}\n"
    async with running(config, tmp_path) as tandem:
        asked = (await call(tandem.port, "/v1/responses", create("for long", store=True))).json
        silent = (await call(tandem.port, "/v1/responses", create("for now"))).json

    async with running(config, tmp_path) as tandem:
        kept, gone = [
            await call(tandem.port, "/v1/responses", create([named(made["output"][0]), MESSAGE])) for made in (asked, silent)
        ]

    assert (kept.status, gone.status) == (200, 404)


async def test_a_call_that_is_named_is_the_one_of_its_own_answer_where_a_host_counts_calls_from_zero(start, upstream):
    tandem = await start(one_dialect("chat", upstream.base_url))
    words = [
        Speech(calls=(ToolCall("functions.read:0", "read", json.dumps({"path": path})),)) for path in ("mine.py", "other.py")
    ]
    upstream.scripts = [*(speak("chat", said) for said in words), speak("chat", Speech("done"))]

    first, second = [(await call(tandem.port, "/v1/responses", create(path))).json for path in ("mine.py", "other.py")]
    ran = {"type": "function_call_output", "call_id": "functions.read:0", "output": "x"}
    reply = await call(tandem.port, "/v1/responses", create([MESSAGE, named(first["output"][0]), ran]))

    assert reply.status == 200
    assert first["output"][0]["id"] != second["output"][0]["id"]
    assert "mine.py" in json.dumps(upstream.seen[2].json)
    assert "other.py" not in json.dumps(upstream.seen[2].json)
