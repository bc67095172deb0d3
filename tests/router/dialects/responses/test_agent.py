"""The stream of a job that an agent does."""

from router.dialects.responses.agent import AgentComposer, read_log_text
from router.dialects.responses.logged import parse_response, write_response
from tests.tools.background import events_in


def write_stream(*log: str, change: str) -> bytes:
    """A stream whose every part is written by another process."""
    frames = AgentComposer("resp_1", 1_000).begin()
    for number, text in enumerate(log, len(events_in(frames))):
        composer = AgentComposer("resp_1", 1_000)
        composer.resume("", number)
        frames += composer.reasoning(text)
    number = len(events_in(frames))
    composer = AgentComposer("resp_1", 1_000)
    composer.resume(read_log_text(frames, number), number)
    return frames + composer.end_items(change)


def test_parts_that_are_written_apart_join_to_one_stream():
    events = events_in(write_stream("one\n", "two\n", change="diff"))

    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    assert [item["type"] for item in done] == ["reasoning", "message"]
    assert done[0]["summary"] == [{"type": "summary_text", "text": "one\ntwo\n"}]
    assert done[1]["content"][0]["text"] == "diff"
    assert {event["item_id"] for event in events if "summary_index" in event} == {"log_1"}


def test_without_a_change_there_is_no_message():
    events = events_in(write_stream("one\n", change=""))

    assert "message" not in [event["item"]["type"] for event in events if "item" in event]


def test_the_log_is_read_up_to_a_number():
    assert read_log_text(write_stream("one\n", "two\n", change=""), 6) == "one\n"


def test_the_response_is_one_of_background_work():
    described = parse_response(write_response(AgentComposer("resp_1", 1_000).describe("queued")))

    assert (described["id"], described["status"], described["background"]) == ("resp_1", "queued", True)
