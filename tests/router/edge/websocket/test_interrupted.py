"""What a response had said when it was interrupted."""

import json

import pytest

from router.edge.websocket.interrupted import Said


def event(kind: str, number: int, **fields) -> bytes:
    return json.dumps({"type": kind, "sequence_number": number, **fields}).encode()


CREATED = event("response.created", 0, response={"id": "resp_1", "status": "in_progress", "output": []})


def delta(number: int, text: str, index: int = 0) -> bytes:
    return event("response.output_text.delta", number, output_index=index, item_id=f"msg_{index}", delta=text)


def done(number: int, index: int, **item) -> bytes:
    return event("response.output_item.done", number, output_index=index, item=item)


def said(*events: bytes) -> Said:
    heard = Said()
    for each in events:
        heard.add(each)
    return heard


def texts(heard: Said) -> list[str]:
    return [item["content"][0]["text"] for item in heard.so_far()["output"]]


def test_words_are_kept_as_far_as_they_came():
    heard = said(CREATED, delta(1, "first "), delta(2, "words"))

    response = heard.so_far()
    assert heard.response_id == response["id"] == "resp_1"
    assert [(item["id"], item["status"], item["content"][0]["text"]) for item in response["output"]] == [
        ("msg_0", "incomplete", "first words")
    ]


def test_a_finished_message_stays_as_it_is_and_a_call_is_left_out():
    message = {"type": "message", "id": "msg_0", "role": "assistant", "content": [{"type": "output_text", "text": "all"}]}
    call = done(3, 1, type="function_call", call_id="c", name="f")
    heard = said(CREATED, delta(1, "al"), done(2, 0, **message), call, delta(4, "and", 2))

    assert heard.so_far()["output"][0] == message
    assert texts(heard) == ["all", "and"]


def test_a_type_that_does_not_come_first_is_found():
    turned = [json.dumps(dict(reversed(json.loads(each).items()))).encode() for each in (CREATED, delta(1, "a"), delta(2, "b"))]

    assert texts(said(*turned)) == ["ab"]


@pytest.mark.parametrize(
    "odd", [b"{}", b'{"type":"response.output_text.delta", broken', b'{"type":"response.output_item.done"}']
)
def test_an_odd_event_does_no_harm(odd):
    assert texts(said(odd, CREATED, odd, delta(1, "a"), odd, delta(2, "b"), odd)) == ["ab"]


def test_nothing_was_said_before_the_response_began():
    assert said().so_far() is None
    assert said(b"{}").so_far() is None


def test_the_last_number_is_that_of_the_last_event():
    assert said(CREATED, delta(7, "a")).last_number == 7
    assert said().last_number == 0


def test_a_long_answer_is_kept_whole_in_little_memory():
    heard, words = said(CREATED), 20_000
    for number in range(words):
        heard.add(delta(number, f"word{number} "))

    assert len(heard._unread) < 2_000
    assert texts(heard) == ["".join(f"word{number} " for number in range(words))]
    assert not heard.is_too_long


def test_of_an_answer_without_end_nothing_is_kept():
    heard = said(CREATED)
    for number in range(1_200):
        heard.add(delta(number, "x" * 1_000))

    assert heard.is_too_long
    assert heard.so_far()["output"] == []
    assert heard.response_id == "resp_1"
    assert heard.last_number == 1_199
