"""The simulated tiers as a product: the SDKs against them, their pace, their tool calls, their faults."""

import asyncio

import pytest

from adapters.simulated import SimulatedAdapter
from router.contract.relay import Endpoint, OutgoingRequest
from router.contract.words import Dialect
from router.dialects.table import SPECS
from tests.conftest import SIMULATED
from tests.tools.exchanges import RecordingSink
from tests.tools.http import call, chat, request_bytes
from tests.tools.loop_clock import jumping_clock, seconds_passed
from tests.tools.values import ask, make_target, make_view


def make_simulated(**options: object) -> SimulatedAdapter:
    return SimulatedAdapter(Endpoint("m"), SimulatedAdapter.Settings.model_validate(options), None)


def open_in(adapter: SimulatedAdapter, sink: RecordingSink):
    view = ask(stream=True)
    return adapter.open(OutgoingRequest(view, make_target(), Dialect.CHAT, view.raw, 10), sink)


def open_simulated(sink: RecordingSink, **options) -> None:
    """A simulated target on its own, asked for a stream."""
    open_in(make_simulated(**options), sink)


async def answers_to(dialect: Dialect, **body: object) -> list[bytes]:
    """The answer to a request, whole and streamed."""
    sinks = [RecordingSink(), RecordingSink()]
    for sink, is_streaming in zip(sinks, (False, True), strict=True):
        view = make_view({**SPECS[dialect].write_example("hello"), **body, "stream": is_streaming}, dialect)
        make_simulated().open(OutgoingRequest(view, make_target(), dialect, view.raw, 10), sink)
    return [(await sink.finished(60)).body for sink in sinks]


@jumping_clock
async def test_what_ended_an_answer_is_named_whole_and_streamed():
    for answer in await answers_to(Dialect.MESSAGES, stop_sequences=["simulated"]):
        assert b'"stop_reason":"stop_sequence","stop_sequence":"simulated"' in answer
    for answer in await answers_to(Dialect.MESSAGES, max_tokens=8):
        assert b'"stop_reason":"max_tokens"' in answer
        assert b'"output_tokens":8' in answer


@jumping_clock
async def test_a_free_form_tool_is_called_as_one_whole_and_streamed():
    for answer in await answers_to(Dialect.RESPONSES, tools=[{"type": "custom", "name": "exec"}], tool_choice="required"):
        assert b'"type":"custom_tool_call"' in answer
        assert b'"input":"simulated"' in answer


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
