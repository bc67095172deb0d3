"""The simulated tiers as a product: the SDKs against them, their pace, their tool calls, their faults."""

import asyncio
import json

import pytest

from adapters.simulated import SimulatedAdapter
from router.contract.relay import Endpoint, OutgoingRequest
from router.contract.words import Dialect
from tests.conftest import SIMULATED
from tests.tools.exchanges import RecordingSink
from tests.tools.http import call, chat, request_bytes
from tests.tools.loop_clock import jumping_clock, seconds_passed
from tests.tools.values import ask, make_target

PATHS = {"chat": "/v1/chat/completions", "responses": "/v1/responses", "messages": "/v1/messages"}
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}
TIME = {"name": "get_time", "description": "The time."}


def question(dialect: str, **body: object) -> dict:
    """A plain question in a dialect."""
    words = [{"role": "user", "content": "hello"}]
    base = {"input": words} if dialect == "responses" else {"messages": words}
    return {"model": "fast", **base, **({"max_tokens": 500} if dialect == "messages" else {}), **body}


async def ask_both_ways(port: int, dialect: str, body: dict) -> list[dict]:
    """The answer as a whole, and the one that a stream's last events hold, in the same shape."""
    whole = await call(port, PATHS[dialect], body)
    assert whole.status == 200, whole.body
    stream = await call(port, PATHS[dialect], {**body, "stream": True})
    assert stream.status == 200, stream.body
    events = [json.loads(line[6:]) for line in stream.body.decode().splitlines() if line.startswith("data: {")]
    return [whole.json, {"chat": join_chat, "responses": join_responses, "messages": join_messages}[dialect](events)]


def join_responses(events: list[dict]) -> dict:
    return events[-1]["response"]


def join_chat(events: list[dict]) -> dict:
    message: dict = {"content": ""}
    finish = None
    for choice in (choice for event in events for choice in event["choices"]):
        message["content"] += choice["delta"].get("content") or ""
        for piece in choice["delta"].get("tool_calls", ()):
            if piece["index"] == len(message.setdefault("tool_calls", [])):
                message["tool_calls"].append(piece)
            else:
                message["tool_calls"][piece["index"]]["function"]["arguments"] += piece["function"]["arguments"]
        finish = choice["finish_reason"] or finish
    return {"choices": [{"message": message, "finish_reason": finish}]}


def join_messages(events: list[dict]) -> dict:
    message = events[0]["message"]
    written: dict[int, str] = {}
    for event in events:
        if event["type"] == "content_block_start":
            message["content"].append(event["content_block"])
        elif event["type"] == "content_block_delta":
            delta = event["delta"]
            written[event["index"]] = written.get(event["index"], "") + (delta.get("text") or delta.get("partial_json") or "")
        elif event["type"] == "message_delta":
            message |= event["delta"] | {"usage": event["usage"]}
    for index, text in written.items():
        block = message["content"][index]
        block["text" if block["type"] == "text" else "input"] = text if block["type"] == "text" else json.loads(text or "{}")
    return message


def text_of(dialect: str, answer: dict) -> str:
    if dialect == "chat":
        return answer["choices"][0]["message"]["content"] or ""
    blocks = (
        answer["content"] if dialect == "messages" else [part for item in answer["output"] for part in item.get("content", ())]
    )
    return "".join(block["text"] for block in blocks if block["type"] in ("text", "output_text"))


def calls_of(dialect: str, answer: dict) -> list[tuple[str, object]]:
    if dialect == "chat":
        calls = answer["choices"][0]["message"].get("tool_calls", ())
        return [
            (entry[entry["type"]]["name"], entry[entry["type"]].get("arguments", entry[entry["type"]].get("input")))
            for entry in calls
        ]
    if dialect == "messages":
        return [(block["name"], json.dumps(block["input"])) for block in answer["content"] if block["type"] == "tool_use"]
    return [
        (item["name"], item.get("arguments", item.get("input"))) for item in answer["output"] if item["type"].endswith("_call")
    ]


def end_of(dialect: str, answer: dict) -> object:
    if dialect == "chat":
        return answer["choices"][0]["finish_reason"]
    if dialect == "messages":
        return answer["stop_reason"]
    return answer["status"], (answer["incomplete_details"] or {}).get("reason")


FORMATS = {
    "chat": {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA, "strict": True}}},
    "responses": {"text": {"format": {"type": "json_schema", "name": "x", "schema": SCHEMA, "strict": True}}},
    "messages": {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}},
}
TIME_TOOLS = {
    "chat": [{"type": "function", "function": TIME}],
    "responses": [{"type": "function", **TIME}],
    "messages": [{**TIME, "input_schema": {"type": "object"}}],
}


@pytest.mark.parametrize("dialect", PATHS)
async def test_a_schema_is_fitted_in_every_dialect_whole_and_streamed(simulated, dialect):
    answers = await ask_both_ways(simulated.port, dialect, question(dialect, **FORMATS[dialect]))

    assert [json.loads(text_of(dialect, answer)) for answer in answers] == [{"n": 1}] * 2


@pytest.mark.parametrize(
    ("dialect", "body"),
    [("chat", {"response_format": {"type": "json_object"}}), ("responses", {"text": {"format": {"type": "json_object"}}})],
)
async def test_json_mode_gives_json_whole_and_streamed(simulated, dialect, body):
    answers = await ask_both_ways(simulated.port, dialect, question(dialect, **body))

    assert all("simulated" in json.loads(text_of(dialect, answer))["answer"] for answer in answers)


@pytest.mark.parametrize("dialect", PATHS)
@pytest.mark.parametrize("with_schema", [False, True])
async def test_a_tool_without_parameters_is_called_in_every_dialect_also_beside_a_schema(simulated, dialect, with_schema):
    body = question(dialect, tools=TIME_TOOLS[dialect], **(FORMATS[dialect] if with_schema else {}))

    answers = await ask_both_ways(simulated.port, dialect, body)

    assert [calls_of(dialect, answer) for answer in answers] == [[("get_time", "{}")]] * 2


@pytest.mark.parametrize(
    ("dialect", "tool", "choice"),
    [
        ("chat", {"type": "custom", "custom": {"name": "exec"}}, {"type": "custom", "custom": {"name": "exec"}}),
        ("chat", {"type": "custom", "custom": {"name": "exec"}}, "required"),
        ("responses", {"type": "custom", "name": "exec"}, {"type": "custom", "name": "exec"}),
        ("responses", {"type": "custom", "name": "exec"}, "required"),
    ],
)
async def test_a_custom_tool_is_called_when_it_is_forced_whole_and_streamed(simulated, dialect, tool, choice):
    answers = await ask_both_ways(simulated.port, dialect, question(dialect, tools=[tool], tool_choice=choice))

    assert [calls_of(dialect, answer) for answer in answers] == [[("exec", "simulated")]] * 2


@pytest.mark.parametrize(
    ("dialect", "field", "end"),
    [
        ("chat", "max_tokens", "length"),
        ("chat", "max_completion_tokens", "length"),
        ("responses", "max_output_tokens", ("incomplete", "max_output_tokens")),
        ("messages", "max_tokens", "max_tokens"),
    ],
)
async def test_a_length_is_kept_in_every_dialect_whole_and_streamed(simulated, dialect, field, end):
    answers = await ask_both_ways(simulated.port, dialect, question(dialect, **{field: 8}))

    assert [end_of(dialect, answer) for answer in answers] == [end] * 2
    assert all(0 < len(text_of(dialect, answer)) <= 8 * 7 for answer in answers)
    usage = answers[0]["usage"]
    assert usage.get("completion_tokens", usage.get("output_tokens")) == 8


@pytest.mark.parametrize(
    ("dialect", "body", "end"),
    [
        ("chat", {"stop": "simulated"}, "stop"),
        ("chat", {"stop": ["nowhere", "simulated"]}, "stop"),
        ("messages", {"stop_sequences": ["simulated"]}, "stop_sequence"),
    ],
)
async def test_a_stop_ends_the_text_whole_and_streamed(simulated, dialect, body, end):
    answers = await ask_both_ways(simulated.port, dialect, question(dialect, **body))

    assert [text_of(dialect, answer) for answer in answers] == ["This is Tandem's "] * 2
    assert [end_of(dialect, answer) for answer in answers] == [end] * 2
    if dialect == "messages":
        assert [answer["stop_sequence"] for answer in answers] == ["simulated"] * 2


def make_simulated(**options: object) -> SimulatedAdapter:
    return SimulatedAdapter(Endpoint("m"), SimulatedAdapter.Settings.model_validate(options), None)


def open_in(adapter: SimulatedAdapter, sink: RecordingSink):
    view = ask(stream=True)
    return adapter.open(OutgoingRequest(view, make_target(), Dialect.CHAT, view.raw, 10), sink)


def open_simulated(sink: RecordingSink, **options) -> None:
    """A simulated target on its own, asked for a stream."""
    open_in(make_simulated(**options), sink)


@jumping_clock
async def test_a_stream_is_written_at_the_pace_that_it_is_told():
    sink = RecordingSink()

    open_simulated(sink, ttft_seconds=3, tokens_per_second=1024, answer_tokens=512)
    await sink.first.wait()
    began = seconds_passed()
    await sink.finished(60)

    assert began == pytest.approx(3, abs=0.01)
    assert seconds_passed() - began == pytest.approx(0.5, abs=0.01)
    assert sink.body.count(b'"content"') >= 500


def with_fault(fault: str) -> str:
    return (
        SIMULATED.replace("answer_tokens: 40}\n  deep", f"answer_tokens: 40, faults: [{fault}]}}\n  deep")
        + "spill_over: false\n"
    )


@pytest.mark.parametrize(
    ("fault", "status", "code"),
    [
        ("{kind: rate_limit}", 429, "tiers_busy"),
        ("{kind: rate_limit, retry_after_seconds: 9}", 429, "tiers_busy"),
        ("{kind: error, status: 529}", 503, "unavailable"),
        ("{kind: error, status: 500}", 502, "upstream_refused"),
        ("{kind: too_long}", 400, "context_length_exceeded"),
    ],
)
async def test_faults_come_when_asked_for(start, fault, status, code):
    tandem = await start(with_fault(fault))

    reply = await call(tandem.port, "/v1/chat/completions", chat())

    assert (reply.status, reply.json["error"]["code"]) == (status, code)
    if "retry_after_seconds" in fault:
        assert reply.headers["retry-after"] == "9"


async def test_a_cut_comes_when_asked_for(start):
    tandem = await start(with_fault('{kind: cut, after_tokens: 3, when: "please cut"}'))

    cut = await call(tandem.port, "/v1/chat/completions", chat("fix the typo, please cut", stream=True))

    assert not cut.is_whole
    assert b"[DONE]" not in cut.body


@jumping_clock
async def test_a_queue_is_waited_in_before_the_first_token():
    sink = RecordingSink()

    open_simulated(sink, ttft_seconds=2, tokens_per_second=64, faults=[{"kind": "queue", "seconds": 30}])
    await sink.first.wait()

    assert seconds_passed() == pytest.approx(32, abs=0.1)
    assert (await sink.finished(60)).body.endswith(b"data: [DONE]\n\n")


@jumping_clock
async def test_a_fault_that_alternates_is_off_and_on_for_as_long_in_turn():
    options = {"faults": [{"kind": "queue", "seconds": 8, "alternate_seconds": 30}]}
    adapter, waited = make_simulated(**options), []
    for _ in range(5):
        began, sink = seconds_passed(), RecordingSink()
        open_in(adapter, sink)
        await sink.first.wait()
        waited.append(seconds_passed() - began > 5)
        await asyncio.sleep(max(0.0, began + 20 - seconds_passed()))

    assert waited == [False, False, True, False, False]


@jumping_clock
async def test_one_slot_writes_one_answer_after_the_other_and_whoever_leaves_frees_a_place():
    adapter = make_simulated(ttft_seconds=1, tokens_per_second=64, answer_tokens=64, slots=1)
    first, leaves, waits = RecordingSink(), RecordingSink(), RecordingSink()
    writing = open_in(adapter, first)
    leaving = open_in(adapter, leaves)
    open_in(adapter, waits)
    await first.first.wait()

    leaving.cancel()
    writing.cancel()
    began = seconds_passed()
    await waits.finished(60)

    assert leaves.body == b""
    assert seconds_passed() - began == pytest.approx(2, abs=0.2)


@jumping_clock
async def test_a_model_that_loads_says_so_until_it_is_ready():
    adapter = make_simulated(faults=[{"kind": "loading", "seconds": 20}])
    statuses = []
    for wait in (0, 10, 15):
        await asyncio.sleep(wait)
        open_in(adapter, sink := RecordingSink())
        await sink.finished(60)
        statuses.append(sink.status)

    assert statuses == [503, 503, 200]


async def test_a_fault_comes_every_nth_time_only(start):
    tandem = await start(with_fault("{kind: rate_limit, retry_after_seconds: 0, every: 3}"))

    statuses = [(await call(tandem.port, "/v1/chat/completions", chat())).status for _ in range(6)]

    assert statuses == [200, 200, 429, 200, 200, 429]


async def test_a_caller_that_leaves_stops_the_simulated_model(start):
    tandem = await start(SIMULATED.replace("tokens_per_second: 50000", "tokens_per_second: 10"))
    reader, writer = await asyncio.open_connection("127.0.0.1", tandem.port)
    writer.write(request_bytes("/v1/chat/completions", chat(stream=True)))
    await asyncio.wait_for(reader.readuntil(b"data:"), 30)
    writer.transport.abort()

    (entry,) = await tandem.entries()
    assert entry["outcome"] == "ABANDONED"
