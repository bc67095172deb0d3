"""Server-sent events as far as a relay needs them: frame ends, and frames that tell how a stream ended."""

import re
from collections.abc import Callable

import orjson
from msgspec import Struct

from router.contract.digits import parse_exactly
from router.contract.request import JsonObject
from router.contract.usage import Timings, Usage

_KEPT_GROUPS = 8
_ROOM_BYTES, _GROUP_BYTES = 1 << 20, 1 << 15
"""Groups are dropped after a megabyte or 32 groups: each counts 32 KB more than its bytes."""
_KEPT_BYTES = 1 << 20
FRAME_ENDS = (b"\n\n", b"\r\n\r\n", b"\r\r")
_usual_head = re.compile(rb"(?:event: ?([!-~]+)\n)?data: ?").match
"""How nearly every frame begins. If one line of data follows, it is not split further."""
_NAMED, _LAST_NAME = b"event: response.", b"event: response.completed"


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


def _has_content(group: bytes) -> bool:
    return not group.startswith(b":") or b"data:" in group if group else False


class Tail:
    """Remembers the parts of a stream that tell how it ended, and parses nothing until the end.

    Reads nearly always end with a frame, so pieces are grouped up to such an end. The newest groups are kept. Older ones are
    dropped in batches, except the first telling one and `lasting` ones: searching many at once takes a hundredth of the time.
    """

    __slots__ = (
        "_first",
        "_forgotten_bytes",
        "_forgotten_frames",
        "_groups",
        "_kept",
        "_lasting",
        "_open",
        "_open_bytes",
        "_room",
        "_telling",
    )

    def __init__(self, telling: re.Pattern[bytes], lasting: Lasting = _FAILURES) -> None:
        self._telling, self._lasting = telling, lasting
        self._first: bytes | None = None
        self._kept: list[bytes] = []
        self._groups: list[bytes] = []
        self._room = _ROOM_BYTES
        self._open: list[bytes] = []
        self._open_bytes = 0
        self._forgotten_bytes = self._forgotten_frames = 0

    def add(self, piece: bytes) -> bool:
        """Note a relayed piece. Returns whether it begins or ends inside a frame, as few do."""
        if self._open or not piece.endswith(FRAME_ENDS):
            if piece := self._join_open(piece):
                self._add_group(piece)
            return True
        self._groups.append(piece)
        self._room = room = self._room - len(piece) - _GROUP_BYTES
        if room < 0:
            self._forget()
        return False

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
        groups, find_last = self._groups, b"".join(self._groups).rfind  # searching from the end takes half the time
        if min(groups) < b";":  # comments: a colon sorts before any field name
            groups = [group for group in groups if _has_content(group)]
        old, self._groups = groups[:-_KEPT_GROUPS], groups[-_KEPT_GROUPS:]
        self._room = _ROOM_BYTES
        self._forgotten_frames += b"".join(old).count(b"\n\n")
        self._forgotten_bytes += sum(map(len, old))
        if self._first is None and old:
            self._first = next(filter(self._telling.search, old), b"")
        self._keep(old, find_last)

    def _keep(self, old: list[bytes], find_last: Callable[[bytes], int]) -> None:
        if any(find_last(mark) >= 0 for mark in self._lasting.marks):
            self._kept += filter(self._lasting.pattern.search, old)
            self._kept = self._kept[:_KEPT_GROUPS] + self._kept[_KEPT_GROUPS:][-_KEPT_GROUPS:]

    def _trim(self) -> None:
        """Shorten an endless frame to its head, which names it, and its tail, which has usage."""
        whole = b"".join(self._open)
        self._open = [whole[:4096], whole[-_KEPT_BYTES // 2 :]]
        self._open_bytes = len(self._open[0]) + len(self._open[1])

    @property
    def frames_seen(self) -> int:
        return self._forgotten_frames + b"".join([*self._groups, *self._open]).count(b"\n\n")

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

    def __init__(self, telling: re.Pattern[bytes]) -> None:
        super().__init__(re.compile(rb'"index"\s*:|' + telling.pattern))
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
