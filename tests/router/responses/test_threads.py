"""A message thread: what a request that continues one is completed with, and what each target gets of it."""

import json
import sys

import pytest
from msgspec.structs import replace

from router.contract.caller import LOCAL, Caller
from router.contract.errors import BadRequest, ThreadForgotten, ThreadUnsupported, TooDeep
from router.contract.exchange import Arrival
from router.contract.words import Dialect, Operation, Tier
from router.dialects.requests import read_request
from router.responses.keep import record_response
from router.responses.threads import HeldThread
from router.stores.memory.responses import MemoryResponses
from tests.router.responses.kept import restore
from tests.tools.values import make_target, make_view

BETA = {"anthropic-beta": "message-threads-2026-08-12"}
SPEAKS = frozenset({Dialect.MESSAGES})
SPARK, SAGE = make_target(speaks=SPEAKS), make_target("sage", Tier.DEEP, speaks=SPEAKS)
THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "signed"}
SAID = {"type": "text", "text": "done"}


def user(content: object) -> dict:
    return {"role": "user", "content": content}


def ask(*contents: object, headers: dict | None = None, **body: object):
    given = {"max_tokens": 9, "messages": [user(content) for content in contents], **body}
    return make_view(given, Dialect.MESSAGES, BETA if headers is None else headers)


def create(*contents: object, **body: object):
    return ask(*(contents or ("hello",)), thread={"type": "create"}, **body)


def go_on(*contents: object, previous: str = "msg_1", **body: object):
    return ask(*(contents or ("go on",)), thread={"type": "continue", "previous_message_id": previous}, **body)


async def held(*content: dict, view=None, target=SPARK, name: str = "msg_1", store: MemoryResponses | None = None):
    """A store with a thread up to one answer."""
    store = store or MemoryResponses(clock=lambda: 2.0)
    resumed = await restore(view or create(), store)
    store.keep(record_response(resumed, target, 1.0, {"id": name, "content": list(content)}, "s"), for_long=False)
    return store


async def test_a_chain_keeps_everything_that_was_said_and_by_whom():
    store = await held(SAID)
    store = await held(THOUGHT, SAID, view=go_on(), target=SAGE, name="msg_2", store=store)

    view = await restore(go_on("more", previous="msg_2"), store)

    assert view.continued.history.origins == ["", "spark", "", "sage"]
    assert len(view.continued.transcript().items) == 5
    assert (view.continued.session, view.continued.stored_by) == ("s", "")


async def test_a_target_gets_its_own_thinking_back_and_nobody_elses():
    view = await restore(go_on(), await held(THOUGHT, SAID))

    own, other = [view.continued.view_for(view, target) for target in (SPARK, SAGE)]

    assert own.body["messages"][1]["content"] == [THOUGHT, SAID]
    assert json.loads(own.raw) == own.body
    assert other is view
    assert view.body["messages"][1]["content"] == [SAID]
    assert view.continued.without_reference() is view.continued


@pytest.mark.parametrize("content", [[], [THOUGHT]])
async def test_an_answer_of_which_nothing_is_left_is_no_empty_message(content):
    view = await restore(go_on(), await held(*content))

    assert [message["role"] for message in view.body["messages"]] == ["user", "user"]


async def test_only_the_beta_of_threads_stays_here():
    betas = "a-2026-01-01, message-threads-2026-08-12 ,b-2026-01-01"

    some = await restore(create(headers={"anthropic-beta": betas, "user-agent": "x"}), MemoryResponses())
    none = await restore(create(), MemoryResponses())

    assert some.headers == {"anthropic-beta": "a-2026-01-01,b-2026-01-01", "user-agent": "x"}
    assert none.headers == {}


async def test_a_later_beta_of_the_same_name_is_taken_too():
    view = create(headers={"anthropic-beta": "message-threads-2027-01-01"})

    assert isinstance((await restore(view, MemoryResponses())).continued, HeldThread)


def marks_in(value: object) -> int:
    return json.dumps(value).count('"cache_control"')


async def test_no_more_cache_marks_are_sent_than_a_host_takes_and_the_newest_stay():
    mark = {"cache_control": {"type": "ephemeral"}}
    marked = [{"type": "text", "text": "x", **mark}]
    results = [{"type": "tool_result", "tool_use_id": "a", "content": marked, **mark}]
    store = await held(SAID, view=create(marked, system=marked))
    store = await held(SAID, view=go_on(marked), name="msg_2", store=store)

    view = await restore(go_on(results, previous="msg_2", **mark), store)

    messages = view.body["messages"]
    assert marks_in(view.body) == 4
    assert [marks_in(message) for message in messages] == [0, 0, 0, 0, 2]
    assert messages[0] == user([{"type": "text", "text": "x"}])
    again = await restore(go_on("no mark", previous="msg_2"), store)
    assert [marks_in(message) for message in again.body["messages"]] == [1, 0, 1, 0, 0]


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="since Python 3.12, all that can be parsed can be rewritten")
async def test_a_message_that_is_nested_too_deeply_to_be_rewritten_is_refused_in_words():
    deep = b'[{"type":"tool_result","content":' * 480 + b'"x"' + b"}]" * 480
    raw = b'{"model":"auto","max_tokens":9,"thread":{"type":"continue","previous_message_id":"msg_1"},"messages":%b}'
    raw %= b'[{"role":"user","content":%b}]' % deep

    with pytest.raises(TooDeep):
        await restore(read_request(Arrival("req_test", Dialect.MESSAGES, Operation.CREATE, BETA, raw)), await held(SAID))


async def test_a_message_is_found_by_its_own_caller_alone_and_not_as_a_response():
    store = await held(SAID)

    assert await store.find("msg_1", LOCAL) is None
    assert await store.is_denied("msg_1", LOCAL)
    assert not await store.forget("msg_1", LOCAL)
    with pytest.raises(ThreadForgotten):
        await restore(replace(go_on(), caller=Caller("bob")), store)
    assert await restore(go_on(), store)


@pytest.mark.parametrize(
    ("thread", "kind"),
    [
        ("create", BadRequest),
        ([], BadRequest),
        ({}, BadRequest),
        ({"type": None}, BadRequest),
        ({"type": "continue", "previous_message_id": 5}, BadRequest),
        ({"type": "continue"}, BadRequest),
        ({"type": "fork"}, ThreadUnsupported),
        ({"type": "create", "previous_message_id": "msg_1"}, ThreadUnsupported),
    ],
)
async def test_a_thread_of_another_shape_is_refused(thread, kind):
    with pytest.raises(BadRequest, match="^thread") as refused:
        await restore(ask("x", thread=thread), MemoryResponses())

    assert type(refused.value) is kind


@pytest.mark.parametrize("headers", [{}, {"anthropic-beta": "other"}, {"anthropic-beta": ""}])
async def test_a_thread_needs_its_beta(headers):
    with pytest.raises(ThreadUnsupported, match="anthropic-beta: message-threads-2026-08-12"):
        await restore(create(headers=headers), MemoryResponses())


async def test_a_request_without_a_thread_stays_as_it_is():
    for view in (ask("x"), ask("x", thread=None)):
        assert await restore(view, MemoryResponses()) is view
