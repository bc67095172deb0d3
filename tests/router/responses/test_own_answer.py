"""A sentence of the router's own, in every dialect, as clients read it."""

import json

import pytest

from router.contract.facts import Ending
from router.contract.words import Dialect, Outcome
from router.dialects.answers import read_whole_answer
from router.responses.own_answer import say_here
from router.stores.memory.responses import MemoryResponses
from tests.tools.sinks import RecordingSink
from tests.tools.values import make_view

WORDS = "This session is set to fast."
USER = {"role": "user", "content": "tier: fast"}
BODIES = {
    Dialect.CHAT: {"messages": [USER]},
    Dialect.MESSAGES: {"messages": [USER], "max_tokens": 9},
    Dialect.RESPONSES: {"input": [USER]},
}


@pytest.mark.parametrize("dialect", BODIES)
@pytest.mark.parametrize("is_streaming", [True, False])
def test_a_sentence_goes_out_as_a_complete_answer(dialect, is_streaming):
    sink = RecordingSink()

    ending = say_here(make_view({**BODIES[dialect], "stream": is_streaming}, dialect), WORDS, MemoryResponses(), sink)

    headers = dict(sink.headers)
    assert ending == Ending(Outcome.SERVED, 200)
    assert WORDS.encode() in sink.body
    assert headers["x-tandem-request-id"] == "req_test"
    assert "x-tandem-target" not in headers
    if is_streaming:
        assert headers["content-type"].startswith("text/event-stream")
        assert b"data: " in sink.body
    else:
        assert read_whole_answer(dialect, sink.body).output_tokens == 0


@pytest.mark.parametrize("store", [None, True, False])
async def test_a_response_can_be_gone_on_from_unless_it_is_not_to_be_stored(store):
    responses, sink = MemoryResponses(), RecordingSink()
    view = make_view({**BODIES[Dialect.RESPONSES], **({} if store is None else {"store": store})}, Dialect.RESPONSES)

    say_here(view, WORDS, responses, sink)
    found = await responses.find(json.loads(sink.body)["id"], view.caller)

    assert (found is not None) is (store is not False)
    if found is not None:
        history, response = found.read()
        assert (history.items, found.target) == ([USER], "")
        assert WORDS in json.dumps(response["output"])
