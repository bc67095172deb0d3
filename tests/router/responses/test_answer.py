"""Which way an answer takes to its caller."""

import json

import pytest
from msgspec.structs import replace

from router.contract.errors import UpstreamMalformed
from router.contract.facts import AttemptOpened, Ending
from router.contract.words import Dialect, Operation, Outcome
from router.dialects.translate.envelope import unwrap_summary
from router.responses.answer import reply_to
from tests.router.responses.kept import restore
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


async def test_an_answer_in_a_thread_is_noted_on_its_way_and_a_count_in_one_is_not():
    body = {"messages": [{"role": "user", "content": "x"}], "max_tokens": 9, "thread": {"type": "create"}}
    view = await restore(make_view(body, Dialect.MESSAGES, {"anthropic-beta": "message-threads-2026-08-12"}))
    message = {"id": "msg_1", "content": []}
    way, sink, exchange = reply(view)

    send(way, message)
    way.finish(SERVED)

    assert names_of(exchange.journal) == ["AttemptOpened", "ResponseCompleted"]
    assert json.loads(sink.body) == message
    count, sink, _ = reply(replace(view, operation=Operation.COUNT_TOKENS))
    assert count.sink is sink


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
