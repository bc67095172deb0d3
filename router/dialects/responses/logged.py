"""Frames of a Responses stream as a job's log keeps them: numbered, and under the job's id.

Nearly all are kept as they came. Frames with the whole response are rewritten for its id, and so are frames whose number is
missing or goes back.
"""

import json
import re

import orjson

from router.contract.digits import as_written, parse_exactly
from router.contract.job import JobState, Segment
from router.contract.request import Json, JsonObject
from router.contract.usage import Usage
from router.dialects.fields import as_count, as_list, as_object, as_text
from router.dialects.responses.answer import write_usage
from router.dialects.responses.failures import read_error
from router.dialects.sse import FRAME_ENDS, Frame, named_frame, split_frames

_TERMINAL = (b"response.completed", b"response.failed", b"response.incomplete")
_WITH_RESPONSE = (*_TERMINAL, b"response.created", b"response.queued", b"response.in_progress")
RESPONSE_KEY = b'"response"'
"""In every frame with a whole response and in few others: cheap to check first."""
_IS_NAME = re.compile(rb'(?:"|event:\s*)(?:' + b"|".join(map(re.escape, _WITH_RESPONSE)) + rb')(?:"|\r|\n)').search
"""Whether an event's name is real. In a model's words the quotes are escaped."""
_NUMBER = re.compile(rb'"sequence_number"\s*:\s*(\d{1,15})\s*[,}]')
_BEGINS = frozenset({"response.created", "response.queued", "response.in_progress"})
_ENDS = {
    "response.completed": JobState.COMPLETED,
    "response.failed": JobState.FAILED,
    "response.incomplete": JobState.INCOMPLETE,
}
_LAST = {
    **{state: kind for kind, state in _ENDS.items()},
    JobState.CANCELLED: "response.incomplete",  # no event for it is known to the SDKs: the status in it says so
}
_DONE = b"[DONE]"
_WHOLE = (JobState.COMPLETED, JobState.INCOMPLETE)
_OF_THE_END = frozenset({"status", "error", "output", "usage", "completed_at", "incomplete_details"})
"""Fields of a response that its end changes."""
_UNREADABLE: JsonObject = {"error": {"code": "server_error", "message": "the end of the answer could not be read"}}


def _read(frame: Frame) -> JsonObject:
    """A frame's body. Lone surrogates, which models emit and strict parsers refuse, become question marks."""
    body = frame.json()
    if body or not frame.data:
        return body
    try:
        return as_object(parse_exactly(json.dumps(json.loads(frame.data), ensure_ascii=False).encode("utf-8", "replace")))
    except (ValueError, RecursionError):
        return body


def end_frame(data: bytes) -> bytes:
    """The last frame without its empty line, completed; nothing if it was truncated."""
    frames = split_frames(data + b"\n\n")
    return data + b"\n\n" if frames and _read(frames[-1]) else b""


def is_terminal(piece: bytes) -> bool:
    return any(name in piece for name in _TERMINAL) and _IS_NAME(piece) is not None


def split_at_frame_end(data: bytes) -> tuple[bytes, bytes]:
    if data.endswith(FRAME_ENDS):
        return data, b""
    end = max((found + len(mark) for mark in FRAME_ENDS if (found := data.rfind(mark)) >= 0), default=0)
    return data[:end], data[end:]


def ends_frame(before: bytes, piece: bytes) -> bool:
    """Whether a frame ends in a piece. `before` are the three bytes before it."""
    return piece.endswith(b"\n\n") or any(mark in before + piece for mark in FRAME_ENDS)


class LogFrames:
    """The frames of one attempt. If it failed or was cancelled, its last frame is written by `close`, with what was said."""

    __slots__ = ("_job_id", "ended", "next_number", "response")

    def __init__(self, job_id: str, next_number: int = 0) -> None:
        self._job_id, self.next_number = job_id, next_number
        self.ended: JobState | None = None
        self.response: JsonObject = {}

    def take(self, frames: bytes) -> Segment | None:
        """The next segment; None if the frames hold nothing to log."""
        if self.ended is not None:
            return None
        has_comment = frames.startswith(b":") or b"\n:" in frames
        if RESPONSE_KEY not in frames and b"\r" not in frames and not has_comment:
            numbers = list(map(int, _NUMBER.findall(frames)))
            low = numbers[0] if numbers else -1
            # A frame without a number makes the range too long.
            if low >= self.next_number and numbers == list(range(low, low + frames.count(b"\n\n"))):
                self.next_number = numbers[-1] + 1
                return Segment(low, numbers[-1], frames)
        return self._take_apart(frames)

    def _take_apart(self, frames: bytes) -> Segment | None:
        written: list[bytes] = []
        first, has_content = -1, False
        for frame in split_frames(frames):
            if frame.data == _DONE or not frame.data:
                continue
            kind, number = frame.kind, self._number_of(frame)
            if kind in _BEGINS or kind in _ENDS:
                body = self._read_response(frame, kind)
                if not self.is_whole:
                    break
                written.append(named_frame(kind, {**body, "type": kind, "sequence_number": number}))
            else:
                written.append(_number(frame, kind, number))
            has_content = has_content or kind not in _BEGINS
            first = number if first < 0 else first
            self.next_number = number + 1
            if self.ended is not None:
                break
        if not written:
            return None
        return Segment(first, self.next_number - 1, b"".join(written), has_content)

    @property
    def is_whole(self) -> bool:
        """Whether nothing is left to be written: the stream goes on, or its own last frame is in the log."""
        return self.ended is None or self.ended in _WHOLE

    def _number_of(self, frame: Frame) -> int:
        found = _NUMBER.search(frame.data)
        number = int(found[1]) if found is not None else -1
        return max(number, self.next_number)

    def _read_response(self, frame: Frame, kind: str) -> JsonObject:
        """The frame's body with the job's response in it, which is remembered."""
        body, known = _read(frame), self.response
        response = as_object(body.get("response"))
        state = _ENDS.get(kind)
        if state is not None and "response" not in body:
            state, response = JobState.FAILED, _UNREADABLE
        if state is not None and response.get("status") == JobState.CANCELLED:
            state = JobState.CANCELLED
        if state is JobState.FAILED:
            begun = {name: value for name, value in known.items() if name not in _OF_THE_END}
            response = {**response, **begun, "status": "failed", "error": read_error(response.get("error"))}
        self.ended, self.response = state, {**response, "id": self._job_id, "background": True}
        return {**body, "response": self.response}

    def end(self, state: JobState, response: JsonObject) -> None:
        """End a stream that did not."""
        self.ended, self.response = state, {**self.response, **response}

    def close(self, state: JobState, response: JsonObject, written: bytes) -> Segment:
        """The last frame of a stream that has none, after a beginning if that is missing, too. `written` is the response."""
        first = last = self.next_number
        self.ended = state
        frames: list[bytes] = []
        if not first:
            begun: JsonObject = {**response, "status": "in_progress", "output": [], "error": None}
            frames, last = _frame_parts("response.created", first, write_response(begun)), 1
        frames += _frame_parts(_LAST[state], last, written)
        return Segment(first, last, b"".join(frames), has_content=False)


def _frame_parts(kind: str, number: int, response: bytes) -> list[bytes]:
    head = b'event: %b\ndata: {"type":"%b","sequence_number":%d,"response":' % (kind.encode(), kind.encode(), number)
    return [head, response, b"}\n\n"]


def _number(frame: Frame, kind: str, number: int) -> bytes:
    found = _NUMBER.search(frame.data)
    if found is not None and int(found[1]) == number and b"\n" not in frame.data:
        return b"event: %b\ndata: %b\n\n" % (kind.encode(), frame.data)
    return named_frame(kind, {**_read(frame), "type": kind, "sequence_number": number})


def cut_after(segment: Segment, number: int) -> bytes:
    if segment.first > number:
        return segment.frames
    frames = [frame + b"\n\n" for frame in segment.frames.split(b"\n\n") if frame]
    return b"".join(frame for frame in frames if (found := _NUMBER.search(frame)) is not None and int(found[1]) > number)


class LoggedOutput:
    """The output of a partial stream: finished items, and the text of an unfinished message.

    Unfinished calls are left out: clients run what they see.
    """

    def __init__(self) -> None:
        self._items: dict[int, JsonObject] = {}
        self._open_texts: dict[int, list[str]] = {}

    def add(self, frames: bytes) -> None:
        items, open_texts = self._items, self._open_texts
        for frame in split_frames(frames):
            body = _read(frame)
            index = body.get("output_index")
            if not isinstance(index, int):
                continue
            match frame.kind:
                case "response.output_item.added" if as_object(body.get("item")).get("type") == "message":
                    items[index], open_texts[index] = as_object(body.get("item")), []
                case "response.output_text.delta" if index in open_texts:
                    open_texts[index].append(as_text(body.get("delta")))
                case "response.output_item.done":
                    items[index] = as_object(body.get("item"))
                    open_texts.pop(index, None)

    def assemble(self) -> list[Json]:
        """Called once: texts that are joined are not kept, since they may be large."""
        items, open_texts = self._items, self._open_texts
        while open_texts:
            index, texts = open_texts.popitem()
            part: JsonObject = {"type": "output_text", "text": "".join(texts), "annotations": [], "logprobs": []}
            items[index] = {**items[index], "status": "incomplete", "content": [part]}
        return [items[index] for index in sorted(items)]


def write_cut(sent: bytes, usage: Usage) -> bytes:
    """The response as far as it was written, incomplete."""
    (said := LoggedOutput()).add(sent)
    response: JsonObject = {}
    number = -1
    for frame in split_frames(sent):
        body = _read(frame)
        number = max(number, as_count(body.get("sequence_number")))
        response = as_object(body.get("response")) or response
    whole: JsonObject = {
        **response,
        "status": "incomplete",
        "incomplete_details": {"reason": "max_output_tokens"},
        "output": said.assemble(),
        "usage": write_usage(usage),
    }
    kind = "response.incomplete"
    return named_frame(kind, {"type": kind, "sequence_number": number + 1, "response": whole})


def parse_response(raw: bytes) -> JsonObject:
    return as_object(parse_exactly(raw)) if raw else {}


def write_response(response: JsonObject) -> bytes:
    return orjson.dumps(response, default=as_written)


def has_output(response: JsonObject) -> bool:
    return bool(as_list(response.get("output")))
