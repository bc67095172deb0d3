"""Which way an answer takes to its caller."""

import json

import pytest

from router.contract.errors import UpstreamMalformed
from router.contract.facts import AttemptOpened, Ending, ResponseCompleted
from router.contract.words import Dialect, Operation, Outcome
from router.dialects.translate.envelope import unwrap_summary
from router.responses.answer import name_in_answer, name_in_stream, reply_to
from tests.router.responses.kept import holding, kept, restore
from tests.tools.exchanges import RecordingSink, make_exchange
from tests.tools.scripted import JSON, names_of
from tests.tools.values import ask, make_target, make_view

SERVED = Ending(Outcome.SERVED, 200)
RESPONSE = {
    "id": "resp_1",
    "output": [{"type": "message", "content": [{"type": "output_text", "text": "all that was done"}]}],
    "usage": {"input_tokens": 5, "output_tokens": 3},
}


def responses(operation=Operation.CREATE, **body):
    return make_view({"input": "hello", **body}, Dialect.RESPONSES, operation=operation)


def reply(view, operation=Operation.CREATE):
    sink, exchange = RecordingSink(), make_exchange(operation=operation, dialect=view.dialect)
    exchange.note(AttemptOpened(0.0, make_target(), "", ()))
    return reply_to(exchange, view, sink), sink, exchange


def send(reply, body=RESPONSE) -> None:
    reply.sink.start(200, (*JSON, ("content-length", "999"), ("x-tandem-tier", "fast")))
    reply.sink.write(json.dumps(body).encode())
    reply.sink.end()


def test_an_answer_that_nobody_may_continue_from_goes_out_as_it_comes():
    for view in (ask(), responses(store=False), responses(conversation="conv_1")):
        way, sink, _ = reply(view)

        assert way.sink is sink
        assert way.finish(SERVED) is SERVED
        assert sink.told == []


def test_an_answer_that_may_be_continued_from_is_noted_on_its_way_and_unchanged():
    way, sink, exchange = reply(responses())

    send(way)
    way.finish(SERVED)

    assert names_of(exchange.journal) == ["AttemptOpened", "ResponseCompleted"]
    assert json.loads(sink.body) == RESPONSE
    assert sink.words == ["start", "write", "end"]


async def test_a_compaction_is_held_back_until_it_is_made_and_keeps_the_answers_headers():
    view = await restore(responses(Operation.COMPACT))
    way, sink, exchange = reply(view, Operation.COMPACT)

    send(way)
    assert sink.told == []
    way.finish(SERVED)

    body, headers = json.loads(sink.body), dict(sink.headers)
    assert body["object"] == "response.compaction"
    assert body["output"][-1]["type"] == "compaction"
    assert unwrap_summary(body["output"][-1]["encrypted_content"]).endswith("all that was done")
    assert (headers["x-tandem-tier"], headers["content-length"]) == ("fast", str(len(sink.body)))
    assert sink.words == ["start", "write", "end"]
    assert names_of(exchange.journal) == ["AttemptOpened"]


async def test_an_answer_that_broke_off_is_not_made_a_compaction():
    way, sink, _ = reply(await restore(responses(Operation.COMPACT)), Operation.COMPACT)
    send(way)
    failed = Ending(Outcome.FAILED, 502)

    assert way.finish(failed) is failed
    assert sink.told == []


async def test_a_compaction_without_a_summary_is_the_failure_of_the_target_that_wrote_it():
    way, sink, _ = reply(await restore(responses(Operation.COMPACT)), Operation.COMPACT)
    send(way, {**RESPONSE, "output": []})

    with pytest.raises(UpstreamMalformed, match='target "spark" did not write a summary'):
        way.finish(SERVED)

    assert sink.told == []


async def continuing(**body):
    return await restore(responses(previous_response_id="resp_0", **body), holding(kept(id="resp_0")))


@pytest.mark.parametrize("said", [{}, {"previous_response_id": None}, {"previous_response_id": "resp_of_the_target"}])
async def test_a_whole_answer_names_the_response_that_it_continues(said):
    way, sink, exchange = reply(await continuing())

    send(way, {**RESPONSE, **said})

    assert json.loads(sink.body) == {**RESPONSE, "previous_response_id": "resp_0"}
    assert dict(sink.headers)["content-length"] == str(len(sink.body))
    assert exchange.last(ResponseCompleted).response["previous_response_id"] == "resp_0"


def test_bytes_that_name_it_are_not_touched():
    body = b'{ "previous_response_id" :  "resp_0", "n": 1.50 }'
    frame = b'event: response.created\ndata: {"response" : {"previous_response_id":"resp_0"}}\n\n'

    assert name_in_answer(body, "resp_0") is body
    assert name_in_stream(frame, "resp_0") == frame


FRAMES = [
    b": comment\n\n",
    b'event: response.created\ndata: {"type":"response.created","response":{"id":"a","previous_response_id":null}}\n\n',
    b'event: response.output_text.delta\ndata: {"delta": "{\\"response\\": 1}", "response": 7}\n\n',
    b'data: {"type":"response.completed","response":{"id":"a","output":[{"previous_response_id":null}]}}\n\n',
    b"data: [DONE]\n\n",
]


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("size", [1, 7, 100, 10_000])
async def test_a_stream_names_it_in_each_response_wherever_the_stream_is_cut(size, end):
    way, sink, _ = reply(await continuing(stream=True))
    stream = b"".join(FRAMES).replace(b"\n", end)

    way.sink.start(200, ())
    for start in range(0, len(stream), size):
        way.sink.write(stream[start : start + size])
    way.sink.end()

    comment, created, delta, completed, done = bytes(sink.body).replace(b"\r\n", b"\n").split(b"\n\n")[:-1]
    assert [part + b"\n\n" for part in (comment, delta, done)] == [FRAMES[0], FRAMES[2], FRAMES[4]]
    for frame, output in ((created, None), (completed, [{"previous_response_id": None}])):
        response = json.loads(frame.partition(b"data: ")[2])["response"]
        assert (response["previous_response_id"], response.get("output")) == ("resp_0", output)


async def test_a_stream_that_fails_keeps_its_last_bytes_and_its_failure():
    way, sink, _ = reply(await continuing(stream=True))
    error = UpstreamMalformed("spark", "no")

    way.sink.start(200, ())
    way.sink.write(FRAMES[0] + b"event: resp")
    way.sink.fail(error)

    assert bytes(sink.body) == FRAMES[0] + b"event: resp"
    assert sink.error is error
