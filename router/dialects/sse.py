"""Server-sent events as far as a relay needs them: frame ends, and frames that tell how a stream ended."""

import re
from collections.abc import Callable

import orjson
from msgspec import Struct

from router.contract.digits import as_written, parse_exactly
from router.contract.request import JsonObject
from router.contract.usage import Timings, Usage

_KEPT_GROUPS, _ENOUGH_BYTES = 8, 1 << 15
"""The newest groups, and no more than make up these bytes: a group of a host that sends much at once has many frames."""
_ROOM_BYTES, _GROUP_BYTES = 1 << 17, 1 << 11
"""Groups are dropped after 128 KB or 64 groups: each counts 2 KB more than its bytes."""
_KEPT_BYTES, _HEAD_BYTES = 1 << 20, 4_096
FRAME_ENDS = (b"\n\n", b"\r\n\r\n", b"\r\r")
_usual_head = re.compile(rb"(?:event: ?([!-~]+)\n)?data: ?").match
"""How nearly every frame begins. If one line of data follows, it is not split further."""
_NAMED, _LAST_NAME = b"event: response.", b"event: response.completed"
_REPEATING, _REPEATED = b"response.", b".done"
"""Responses repeat each text whole when it is done."""
JSON_TEXT = rb'\s*"([^"\\]*(?:\\.[^"\\]*)*)"'
_find_deltas = re.compile(rb'"delta":' + JSON_TEXT).findall
_find_texts = re.compile(
    rb'"(?:text|content|reasoning|reasoning_content|refusal|thinking|partial_json|arguments)":' + JSON_TEXT
).findall
_is_of_responses = re.compile(rb'"type":\s*"response\.').search
_THOUGHT_TWICE = b'"reasoning":', b'"reasoning_content":'
_THOUGHT_IN_DETAIL = b'"reasoning_details":'
"""Hosts write a thought for the clients of several others, in up to three fields of one frame."""
_ESCAPE, _SHORT_ESCAPE = b"\\u", b"\\u00"
"""Hosts that escape a character write three bytes more than those that send it as it is, four if it is Latin."""
_DELTA = b'delta"'
_SAMPLES, _SAMPLE_BYTES = 4, 1 << 13
_LIKE_BYTES = 4
"""Framing that differs by less is alike: numbers grow, text has escapes."""
_value_begins = re.compile(rb'.*":\s*"', re.DOTALL).match


class Lasting(Struct, frozen=True):
    """What must be kept of a stream. Groups that match contain one of `marks`."""

    pattern: re.Pattern[bytes]
    marks: tuple[bytes, ...]


_FAILURES = Lasting(
    re.compile(rb'"error"\s*(?::\s*[^n\s]|[,}])|"response\.failed"|event:\s*(?:error|response\.failed)'), (b"error", b".failed")
)
"""How dialects report a failure. Quotes in a JSON string are escaped, so a model's words do not match."""


class Frame(Struct):
    event: str
    data: bytes
    parsed: JsonObject | None = None

    def json(self) -> JsonObject:
        """The data; empty if it is not an object."""
        if self.parsed is None:
            try:
                body = parse_exactly(self.data)
            except orjson.JSONDecodeError:
                body = None
            self.parsed = body if isinstance(body, dict) else {}
        return self.parsed

    @property
    def kind(self) -> str:
        """The event's name, from its line or the `type` in its data."""
        if self.event:
            return self.event
        kind = self.json().get("type")
        return kind if isinstance(kind, str) else ""


class StreamEnd(Struct):
    """How a stream ended: complete, failed at the upstream, or neither (cut)."""

    is_complete: bool = False
    has_failed: bool = False
    usage: Usage | None = None
    timings: Timings | None = None


def split_frames(data: bytes, telling: re.Pattern[bytes] | None = None) -> list[Frame]:
    """The frames in some bytes, or only the telling ones. A frame may lack its beginning."""
    frames, blocks = [], data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n\n")
    if telling is not None:
        blocks = _find_telling(blocks, telling.search)
    for block in blocks:
        head = _usual_head(block)
        if head is not None and block.find(b"\n", begin := head.end()) < 0:
            frames.append(Frame((head[1] or b"").decode(), block[begin:]))
            continue
        event, lines = "", []
        for line in block.split(b"\n"):
            if line.startswith(b"data:"):
                lines.append(line[5:].removeprefix(b" "))
            elif line.startswith(b"event:"):
                event = line[6:].strip().decode("utf-8", "replace")
        if lines or event:
            frames.append(Frame(event, b"\n".join(lines)))
    return frames


def _find_telling(blocks: list[bytes], is_telling: Callable[[bytes], object]) -> list[bytes]:
    """If event names tell, named frames are not searched further."""
    if is_telling(_LAST_NAME):
        return [block for block in blocks if is_telling(_name_of(block))]
    return [block for block in blocks if is_telling(block)]


def _name_of(block: bytes) -> bytes:
    """The line that names the event; the whole block if none or several do."""
    is_named = block.startswith(_NAMED) and block.rfind(b"\nevent:") < 0
    return block.partition(b"\n")[0] if is_named else block


def count_frames(data: bytes) -> int:
    return data.count(b"\ndata:") + data.startswith(b"data:")


def count_written(data: bytes) -> int:
    """Bytes of text that the model wrote in whole frames of any dialect: words, reasoning, arguments of calls."""
    if _is_of_responses(data):
        texts = _find_deltas(data)
    elif _repeats_thoughts(data):
        texts = [text for frame in data.split(b"\n\n") for text in set(_find_texts(frame))]
    else:
        texts = _find_texts(data)
    joined = b"".join(texts)
    return len(joined) - 3 * joined.count(_ESCAPE) - joined.count(_SHORT_ESCAPE)


def _repeats_thoughts(data: bytes) -> bool:
    return _THOUGHT_IN_DETAIL in data or all(spelling in data for spelling in _THOUGHT_TWICE)


def _has_content(group: bytes) -> bool:
    return not group.startswith(b":") or b"data:" in group if group else False


def _estimate_written(groups: list[bytes], data: bytes, frames: int) -> int:
    """Text in some groups, joined in `data`, by the framing of a few: reading each doubles the work.

    Where those differ, as when a thought ends or a call begins, or a host pads its frames, all are read.
    """
    sampled = [*groups[:: max(1, len(groups) // _SAMPLES)], last := groups[-1]]
    framings = [_framing_of(part) for group in sampled for part in _sample(group)]
    if max(framings) - min(framings) > _LIKE_BYTES or (_REPEATING in last and data.rfind(_REPEATED) >= 0):
        return count_written(data)
    return round(len(data) - frames * sum(framings) / len(framings))


def _sample(group: bytes) -> tuple[bytes, ...]:
    """The first and last frames of a large group."""
    if len(group) > 2 * _SAMPLE_BYTES:
        head, tail = group.rfind(b"\n\n", 0, _SAMPLE_BYTES) + 2, group.find(b"\n\n", -_SAMPLE_BYTES) + 2
        if head > 1 and 1 < tail < len(group):
            return group[:head], group[tail:]
    return (group,)


def _framing_of(group: bytes) -> float:
    """Bytes around the text of one frame."""
    return (len(group) - count_written(group)) / max(1, count_frames(group))


class Tail:
    """Remembers the parts of a stream that tell how it ended, and parses nothing until the end.

    Reads nearly always end with a frame, so pieces are grouped up to such an end. The newest groups are kept. Older ones are
    dropped in batches, except the first telling one and `lasting` ones: searching many at once takes a hundredth of the time.
    What the model wrote in a batch is its bytes without the framing of its frames, measured at a few of them.
    """

    __slots__ = (
        "_first",
        "_forgotten_bytes",
        "_forgotten_frames",
        "_forgotten_written",
        "_groups",
        "_kept",
        "_lasting",
        "_measures",
        "_open",
        "_open_bytes",
        "_room",
        "_telling",
    )

    def __init__(self, telling: re.Pattern[bytes], lasting: Lasting = _FAILURES, *, measures: bool = True) -> None:
        """Without `measures`, nobody asks for `written_bytes`."""
        self._telling, self._lasting, self._measures = telling, lasting, measures
        self._first: bytes | None = None
        self._kept: list[bytes] = []
        self._groups: list[bytes] = []
        self._room = _ROOM_BYTES
        self._open: list[bytes] = []
        self._open_bytes = 0
        self._forgotten_bytes = self._forgotten_frames = self._forgotten_written = 0

    def add(self, piece: bytes) -> bool:
        """Note a relayed piece. Returns whether it begins or ends inside a frame, as few do."""
        if self._open or not piece.endswith(FRAME_ENDS):
            if len(piece) > _GROUP_BYTES:
                piece = self._add_whole_frames(piece)
            if piece and (piece := self._join_open(piece)):
                self._add_group(piece)
            return True
        self._groups.append(piece)
        self._room = room = self._room - len(piece) - _GROUP_BYTES
        if room < 0:
            self._forget()
        return False

    def _add_whole_frames(self, piece: bytes) -> bytes:
        """Add the frames that end in a large piece. Returns what is left of it."""
        start = 0
        while (end := piece.rfind(b"\n\n", start, start + _ENOUGH_BYTES) + 2) > 1:
            group, start = piece[start:end], end
            self._add_group(self._join_open(group) if self._open else group)
        return piece[start:]

    def _add_group(self, group: bytes) -> None:
        self._groups.append(group)
        self._room -= len(group) + _GROUP_BYTES
        if self._room < 0:
            self._forget()

    def _join_open(self, piece: bytes) -> bytes:
        """The whole group if this piece ends it."""
        self._open.append(piece)
        self._open_bytes += len(piece)
        ends = piece.endswith(FRAME_ENDS) or (len(piece) < 4 and b"".join(self._open[-4:]).endswith(FRAME_ENDS))
        if not ends:
            if self._open_bytes > _KEPT_BYTES:
                self._trim()
            return b""
        group = b"".join(self._open)
        self._open.clear()
        self._open_bytes = 0
        return group

    def _forget(self) -> None:
        groups = self._groups
        if min(groups) < b";":  # comments: a colon sorts before any field name
            groups = [group for group in groups if _has_content(group)]
        kept, size = 0, 0
        while kept < min(_KEPT_GROUPS, len(groups)) and size < _ENOUGH_BYTES:
            kept += 1
            size += len(groups[-kept])
        split = len(groups) - kept
        old, self._groups = groups[:split], groups[split:]
        self._room = _ROOM_BYTES
        if not old:
            return
        forgotten = b"".join(old)
        self._forgotten_bytes += len(forgotten)
        self._forgotten_frames += (frames := count_frames(forgotten))
        if self._measures:
            self._forgotten_written += _estimate_written(old, forgotten, frames)
        if self._first is None:
            self._first = next(filter(self._telling.search, old), b"")
        self._keep(old, forgotten.rfind)  # searching from the end takes half the time

    def _keep(self, old: list[bytes], find_last: Callable[[bytes], int]) -> None:
        if any(find_last(mark) >= 0 for mark in self._lasting.marks):
            self._kept += filter(self._lasting.pattern.search, old)
            self._kept = self._kept[:_KEPT_GROUPS] + self._kept[_KEPT_GROUPS:][-_KEPT_GROUPS:]

    def _trim(self) -> None:
        """Shorten an endless frame to its head, which names it, and its tail, which has usage."""
        whole = b"".join(self._open)
        self._open = [whole[:_HEAD_BYTES], whole[-_KEPT_BYTES // 2 :]]
        self._open_bytes = len(self._open[0]) + len(self._open[1])
        if _DELTA in self._open[0]:
            self._forgotten_written += len(whole) - self._open_bytes

    @property
    def frames_seen(self) -> int:
        return self._forgotten_frames + count_frames(b"".join(self._groups))

    @property
    def written_bytes(self) -> int:
        """Bytes of text that the model wrote, as far as relayed. Reads all kept groups, so call it rarely."""
        written = self._forgotten_written + count_written(b"".join(self._groups))
        return written + (self._written_in_open() if self._open else 0)

    def _written_in_open(self) -> int:
        """Text of an unfinished frame: what follows the beginning of its last value."""
        whole = b"".join(self._open)
        begins = _value_begins(whole, 0, _HEAD_BYTES) if _DELTA in whole[:_HEAD_BYTES] else None
        return len(whole) - begins.end() if begins is not None else 0

    @property
    def content_bytes(self) -> int:
        """Bytes relayed without comments. Walks all kept groups, so call it rarely."""
        return self._forgotten_bytes + sum(map(len, filter(_has_content, [*self._groups, b"".join(self._open)])))

    @property
    def at_frame_end(self) -> bool:
        """Whether another frame may follow."""
        return not self._open

    def newest(self) -> bytes:
        """The newest whole frames."""
        return b"".join(self._groups)

    def frames(self) -> list[Frame]:
        return split_frames(b"".join([self._first or b"", *self._kept, *self._groups, *self._open]), self._telling)


class ChoicesTail(Tail):
    """A tail for interleaved choices: keeps the first frame and the finish of each."""

    __slots__ = ("_choices", "_seen")

    def __init__(self, telling: re.Pattern[bytes], *, measures: bool = True) -> None:
        super().__init__(re.compile(rb'"index"\s*:|' + telling.pattern), measures=measures)
        self._choices: list[bytes] = []
        self._seen: set[tuple[object, bool]] = set()

    def _keep(self, old: list[bytes], find_last: Callable[[bytes], int]) -> None:
        super()._keep(old, find_last)
        self._choices += filter(self._tells_of_choice, old)

    def _tells_of_choice(self, group: bytes) -> bool:
        """Whether a choice begins or ends here."""
        found = set()
        for frame in split_frames(group):
            choices = frame.json().get("choices")
            for choice in choices if isinstance(choices, list) else ():
                if isinstance(choice, dict):
                    found.add((str(choice.get("index")), bool(choice.get("finish_reason"))))
        is_new = not found <= self._seen
        self._seen |= found
        return is_new

    def newest(self) -> bytes:
        """With a frame of every choice."""
        return b"".join(self._choices) + super().newest()

    def frames(self) -> list[Frame]:
        return split_frames(b"".join(self._choices), self._telling) + super().frames()


def data_frame(body: JsonObject) -> bytes:
    return b"data: " + orjson.dumps(body, default=as_written) + b"\n\n"


def named_frame(kind: str, body: JsonObject) -> bytes:
    return b"event: " + kind.encode() + b"\ndata: " + orjson.dumps(body, default=as_written) + b"\n\n"
