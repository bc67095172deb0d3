"""What a response had said when it was interrupted: the conversation goes on from there."""

from router.contract.request import Json, JsonObject
from router.dialects.fields import as_object, as_text
from router.dialects.sse import Frame, split_frames


def said_so_far(stream: bytes) -> JsonObject | None:
    """The response as far as it came: its finished messages, and the words of the one that was being written.

    A call is left out, since nobody will answer it: no target takes a conversation that goes on after an open call. None where
    the response had not begun.
    """
    frames = split_frames(stream)
    response = next((begun for frame in frames if as_text((begun := as_object(frame.json().get("response"))).get("id"))), None)
    if response is None:
        return None
    items: dict[int, JsonObject] = {}
    for frame in frames:
        index = frame.json().get("output_index")
        if isinstance(index, int):
            items[index] = _grow(items.get(index, {}), frame)
    output: list[Json] = [item for _, item in sorted(items.items()) if item.get("type") == "message"]
    return {**response, "output": output}


def _grow(item: JsonObject, frame: Frame) -> JsonObject:
    """An item with what one more event says of it."""
    event = frame.json()
    if frame.kind == "response.output_item.done":
        return as_object(event.get("item"))
    if frame.kind != "response.output_text.delta":
        return item
    content = item.get("content")
    before = as_text(as_object(content[0]).get("text")) if isinstance(content, list) and content else ""
    part: JsonObject = {
        "type": "output_text",
        "text": before + as_text(event.get("delta")),
        "annotations": [],
        "logprobs": [],
    }
    return {
        "type": "message",
        "id": as_text(event.get("item_id")),
        "role": "assistant",
        "status": "incomplete",
        "content": [part],
    }


def last_number(stream: bytes) -> int:
    """The number of the last event in a stream."""
    numbers = [frame.json().get("sequence_number") for frame in split_frames(stream)]
    return max((number for number in numbers if isinstance(number, int)), default=0)
