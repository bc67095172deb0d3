"""The history that a request left out: what is kept of an answer, and what each target is given of it."""

import json

import pytest

from router.contract.errors import BadRequest
from router.contract.transcript import StoredResponse
from router.contract.words import Dialect, Feature, Operation, Tier
from router.dialects.sse import split_frames
from router.dialects.transcripts import (
    is_kept,
    list_items,
    read_previous_id,
    read_response,
    read_whole_response,
    record_response,
    resume,
    view_for,
    without_stored,
)
from tests.tools.values import make_target, make_view

SPEAKS = frozenset({Dialect.RESPONSES})
REASONING = {"type": "reasoning", "id": "rs_1", "summary": []}
CALL = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "ls", "arguments": "{}"}
SAID = {"type": "message", "id": "msg_1", "role": "assistant", "content": [{"type": "output_text", "text": "done"}]}


def ask(given: object = "hello", **more: object):
    return make_view({"input": given, **more}, Dialect.RESPONSES)


def kept(*output: dict, given: object = "hello", target: str = "spark", **more: object) -> StoredResponse:
    return record_response(ask(given), target, 1.0, {"id": "resp_1", "output": list(output), **more})


def goes_on(transcript: StoredResponse, given: object = "go on", **more: object):
    return resume(ask(given, previous_response_id="resp_1", **more), transcript)


def frames(*events: dict):
    return split_frames(b"".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events))


def test_a_resumed_request_is_read_with_its_whole_conversation():
    image = {"role": "user", "content": [{"type": "input_image", "image_url": "data:x"}]}

    view = goes_on(kept(SAID, given=[image]), instructions="Be brief.")

    assert [message.role for message in view.conversation] == ["user", "assistant", "user"]
    assert Feature.IMAGES in view.needs
    assert (view.system, "previous_response_id" in view.body) == ("Be brief.", False)
    assert json.loads(view.raw) == view.body


def test_instructions_are_not_inherited():
    transcript = record_response(ask(instructions="Be rude."), "spark", 1.0, {"id": "resp_1", "output": [SAID]})

    assert goes_on(transcript).system == ""


def test_another_target_gets_no_hidden_items_and_no_ids_that_lead_to_them():
    view = view_for(goes_on(kept(REASONING, CALL, SAID)), make_target("sage", Tier.DEEP, speaks=SPEAKS))

    _, call, said, _ = view.body["input"]
    assert call == {name: value for name, value in CALL.items() if name != "id"}
    assert said["content"] == SAID["content"]
    assert said["id"].startswith("msg_")
    assert said["id"] != SAID["id"]


def test_what_another_target_gets_is_the_same_each_time_so_that_its_cache_fits():
    transcript = kept(REASONING, SAID)

    assert goes_on(transcript).raw == goes_on(transcript).raw


def test_the_maker_gets_its_own_items_unchanged():
    view = view_for(goes_on(kept(REASONING, CALL, SAID)), make_target("spark", speaks=SPEAKS))

    assert view.body["input"][1:4] == [REASONING, CALL, SAID]
    assert json.loads(view.raw) == view.body


def test_a_maker_that_says_it_stores_gets_the_request_as_it_came_until_it_has_lost_it():
    spark = make_target("spark", speaks=SPEAKS)
    view = goes_on(kept(SAID, store=True))

    assert view_for(view, spark).body["previous_response_id"] == "resp_1"
    assert view_for(without_stored(view), spark).body["input"][1] == SAID


def test_a_target_that_does_not_speak_responses_never_gets_the_id():
    view = view_for(goes_on(kept(SAID, store=True)), make_target("spark"))

    assert "previous_response_id" not in view.body


def test_a_request_that_goes_on_from_nothing_is_the_same_for_every_target():
    view = ask()

    assert view_for(view, make_target()) is view


def test_a_chain_keeps_everything_that_was_said_and_by_whom():
    view = goes_on(kept(REASONING, SAID))

    history, response = record_response(view, "sage", 2.0, {"id": "resp_2", "output": []}).read()

    assert history.origins == ["", "spark", "spark", ""]
    assert history.items[1:3] == [REASONING, SAID]
    assert response["previous_response_id"] == "resp_1"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({}, True),
        ({"store": None}, True),
        ({"store": True}, True),
        ({"store": False}, False),
        ({"previous_response_id": "resp_unknown"}, False),
        ({"conversation": "conv_1"}, False),
    ],
)
def test_a_response_is_kept_unless_it_must_not_be_or_its_beginning_is_unknown(body, expected):
    assert is_kept(ask(**body)) is expected


def test_nothing_of_other_dialects_and_operations_is_kept():
    assert not is_kept(make_view({"messages": [{"role": "user", "content": "x"}], "store": True}))
    assert not is_kept(ask()._replace(operation=Operation.COUNT_TOKENS))


@pytest.mark.parametrize("kind", ["response.completed", "response.incomplete"])
def test_a_stream_tells_its_response_in_its_last_event(kind):
    last = {"type": kind, "response": {"id": "resp_1", "output": [SAID]}}

    assert read_response(frames(last)) == last["response"]


@pytest.mark.parametrize(
    "events",
    [
        [],
        [{"type": "response.failed", "response": {"id": "resp_1", "output": [SAID]}}],
        [{"type": "response.completed", "response": {"output": [SAID]}}],
        [{"type": "response.completed", "response": {"id": "resp_1", "output": []}}],
        [
            {"type": "response.output_item.done", "output_index": 1, "item": SAID},
            {"type": "response.completed", "response": {"id": "resp_1"}},
        ],
    ],
)
def test_a_stream_whose_output_is_not_known_whole_tells_nothing(events):
    assert read_response(frames(*events)) is None


def test_items_from_their_own_events_stand_in_for_an_output_that_was_left_empty():
    items = [
        {"type": "response.output_item.done", "output_index": place, "item": item} for place, item in ((0, CALL), (1, SAID))
    ]

    found = read_response(frames(*items, {"type": "response.completed", "response": {"id": "resp_1", "output": []}}))

    assert found["output"] == [CALL, SAID]


@pytest.mark.parametrize("raw", [b"no", b"[]", b'{"output": []}', b'{"id": "resp_1"}'])
def test_a_whole_answer_that_is_no_response_is_none(raw):
    assert read_whole_response(raw) is None


def test_listed_items_without_an_id_get_the_same_one_each_time():
    transcript = kept(given=[{"role": "user", "content": "a"}, {**CALL, "id": None}])

    first, second = (list_items(transcript, None, 20, newest_first=False) for _ in range(2))

    assert first == second
    assert [item["id"].split("_")[0] for item in first["data"]] == ["msg", "fc"]
    assert first["has_more"] is False


def test_an_empty_page_has_no_ends():
    page = list_items(kept(given=[{"id": "msg_1", "role": "user", "content": "a"}]), "msg_1", 20, newest_first=True)

    assert (page["data"], page["first_id"], page["last_id"], page["has_more"]) == ([], None, None, False)


@pytest.mark.parametrize(("given", "expected"), [(None, None), ("", None), ("resp_1", "resp_1")])
def test_an_empty_previous_id_is_none(given, expected):
    assert read_previous_id({"previous_response_id": given}) == expected


def test_a_previous_id_that_is_no_text_is_named():
    with pytest.raises(BadRequest, match="previous_response_id"):
        read_previous_id({"previous_response_id": 5})
