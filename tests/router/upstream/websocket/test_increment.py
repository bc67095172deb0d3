"""What a socket is told: only what is new where its target has the rest, and otherwise everything."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as some

from router.upstream.websocket.increment import read_ask

FIELDS = {"model": "m", "instructions": "be brief", "tools": [{"type": "function", "name": "read"}], "store": False}
CALL = {"type": "function_call", "id": "fc_1", "status": "completed", "call_id": "c1", "name": "read", "arguments": "{}"}
RESULT = {"type": "function_call_output", "call_id": "c1", "output": "x"}
SAID = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "hello", "annotations": [], "logprobs": []}],
}
THOUGHT = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "sealed"}


def user(text: str) -> dict:
    return {"role": "user", "content": text}


def body(*items: dict, **fields: object) -> bytes:
    return json.dumps({**FIELDS, "input": list(items), **fields}).encode()


def baseline_of(*items: dict, answered=(), **fields: object):
    return read_ask(body(*items, **fields), None).remember("resp_1", answered)


def test_without_a_response_to_go_on_from_everything_is_sent():
    ask = read_ask(body(user("hi"), stream=True), None)

    assert not ask.is_increment
    assert json.loads(ask.whole()) == {**FIELDS, "type": "response.create", "input": [user("hi")]}


def test_what_extends_the_last_response_is_sent_as_what_is_new():
    ask = read_ask(body(user("hi"), THOUGHT, CALL, RESULT), baseline_of(user("hi"), answered=[THOUGHT, CALL]))

    told = json.loads(ask.increment())
    assert told == {**FIELDS, "type": "response.create", "input": [RESULT], "previous_response_id": "resp_1"}


def test_a_client_may_leave_out_of_an_answer_what_says_nothing_to_the_model():
    plain_call = {"type": "function_call", "call_id": "c1", "name": "read", "arguments": "{}"}
    plain_words = {"role": "assistant", "content": "hello"}

    ask = read_ask(body(user("hi"), plain_words, plain_call, RESULT), baseline_of(user("hi"), answered=[SAID, CALL]))

    assert ask.known == 3


@pytest.mark.parametrize("items", [
    (user("hi"), CALL),
    (user("hi"),),
    (user("ho"), CALL, RESULT),
    (user("hi"), RESULT),
    (user("hi"), {**CALL, "arguments": "{ }"}, RESULT),
    (user("hi"), {**CALL, "call_id": "c2"}, RESULT),
    (CALL, RESULT),
    (),
], ids=["nothing new", "shorter", "another word", "no answer", "other arguments", "another call", "no ask", "empty"])  # fmt: skip
def test_what_does_not_extend_it_is_sent_whole(items):
    assert not read_ask(body(*items), baseline_of(user("hi"), answered=[CALL])).is_increment


@pytest.mark.parametrize(("change", "goes_on"), [
    *((change, False) for change in ({"model": "n"}, {"instructions": None}, {"tools": []}, {"reasoning": {"effort": "low"}})),
    *((change, True) for change in ({"client_metadata": {"turn": "2"}}, {"stream": True}, {"stream_options": {"a": 1}})),
])  # fmt: skip
def test_another_field_that_changed_sends_everything_unless_it_says_nothing_to_the_model(change, goes_on):
    ask = read_ask(body(user("hi"), CALL, RESULT, **change), baseline_of(user("hi"), answered=[CALL]))

    assert ask.is_increment is goes_on


def test_a_request_by_reference_is_sent_as_it_is_and_nothing_goes_on_from_it():
    ask = read_ask(body(RESULT, previous_response_id="resp_0"), baseline_of(user("hi"), answered=[CALL]))

    assert json.loads(ask.whole())["previous_response_id"] == "resp_0"
    assert ask.remember("resp_2", []) is None


def test_a_text_as_input_is_sent_as_it_is():
    ask = read_ask(json.dumps({**FIELDS, "input": "hi"}).encode(), None)

    assert json.loads(ask.whole())["input"] == "hi"
    assert ask.remember("resp_1", []) is None


def test_a_response_that_was_given_and_answered_nothing_is_not_gone_on_from():
    assert not read_ask(body(user("hi")), baseline_of()).is_increment


def test_a_response_without_an_id_is_never_gone_on_from():
    assert read_ask(body(user("hi")), None).remember("", []) is None


def test_what_must_not_go_over_a_socket():
    deep: dict = {}
    for _ in range(300):
        deep = {"a": deep}

    assert not read_ask(body(user("hi"), background=True), None).may_go
    assert not read_ask(body(user("hi"), metadata=deep), None).may_go
    assert read_ask(body(user("hi"), background=False), None).may_go


def test_numbers_stay_what_they_were():
    raw = b'{"model":"m","input":[{"n":123456789012345678901234567890}],"temperature":0.10000000000000001}'

    told = read_ask(raw, None).whole()

    assert b"123456789012345678901234567890" in told
    assert b"0.10000000000000001" in told
    assert not read_ask(b'{"temperature":1e400}', None).may_go


ITEMS = some.lists(some.sampled_from([user("a"), user("b"), CALL, RESULT, SAID, THOUGHT, {**SAID, "content": []}]), max_size=5)
CHANGES = some.sampled_from([{}, {}, {}, {"model": "n"}, {"tools": []}, {"client_metadata": {"a": "b"}}])


def echo(item: dict) -> dict:
    return {name: value for name, value in item.items() if name not in ("id", "status")}


@given(given_items=ITEMS, answered=ITEMS, items=ITEMS, grows=some.booleans(), change=CHANGES)
def test_what_is_remembered_and_what_is_sent_are_always_the_whole(given_items, answered, items, grows, change):
    sent_back = [echo(item) for item in answered]
    whole = [*given_items, *sent_back, *items] if grows else items
    known = baseline_of(*given_items, answered=answered)

    ask = read_ask(body(*whole, **change), known)

    message = json.loads(ask.increment() if ask.is_increment else ask.whole())
    remembered = [*given_items, *sent_back] if ask.is_increment else []
    assert [echo(item) for item in [*remembered, *message["input"]]] == [echo(item) for item in whole]
    assert ("previous_response_id" in message) == ask.is_increment
    assert {name: message[name] for name in FIELDS} == {**FIELDS, **{n: v for n, v in change.items() if n in FIELDS}}
    if ask.is_increment:
        assert message["input"]
        assert not change.keys() & FIELDS.keys()
    elif grows and items and (given_items or answered) and not change.keys() & FIELDS.keys():
        raise AssertionError("what extends the last response is not sent whole")
