"""What a response had said when it was interrupted."""

import json

from router.edge.websocket.interrupted import last_number, said_so_far


def event(kind: str, number: int, **fields) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, 'sequence_number': number, **fields})}\n\n".encode()


CREATED = event("response.created", 0, response={"id": "resp_1", "status": "in_progress", "output": []})


def delta(number: int, text: str, index: int = 0) -> bytes:
    return event("response.output_text.delta", number, output_index=index, item_id=f"msg_{index}", delta=text)


def done(number: int, index: int, **item) -> bytes:
    return event("response.output_item.done", number, output_index=index, item=item)


def test_words_are_kept_as_far_as_they_came():
    response = said_so_far(CREATED + delta(1, "first ") + delta(2, "words"))

    assert response["id"] == "resp_1"
    assert [(item["status"], item["content"][0]["text"]) for item in response["output"]] == [("incomplete", "first words")]


def test_a_finished_message_stays_as_it_is_and_a_call_is_left_out():
    message = {"type": "message", "id": "msg_0", "role": "assistant", "content": [{"type": "output_text", "text": "all"}]}
    stream = CREATED + delta(1, "al") + done(2, 0, **message) + done(3, 1, type="function_call", call_id="c", name="f")

    assert said_so_far(stream + delta(4, "and", 2))["output"] == [message, *said_so_far(CREATED + delta(4, "and", 2))["output"]]


def test_half_an_event_at_the_end_does_no_harm():
    assert said_so_far(CREATED + delta(1, "a") + delta(2, "b")[:-10])["output"][0]["content"][0]["text"] == "a"


def test_nothing_was_said_before_the_response_began():
    assert said_so_far(b"") is None
    assert said_so_far(b": comment\n\n") is None


def test_the_last_number_is_the_greatest():
    assert last_number(CREATED + delta(7, "a")) == 7
    assert last_number(b"") == 0
