"""Server-sent events, as far as a relay must know them: where frames end, and what the last ones say."""

from collections import deque
from dataclasses import dataclass
from functools import cached_property

import orjson

from router.contract.request import JsonObject
from router.contract.usage import Usage

_KEPT_GROUPS = 6
_KEPT_BYTES = 1 << 20
_FRAME_ENDS = (b"\n\n", b"\r\n\r\n", b"\r\r")


@dataclass(frozen=True)
class Frame:
    """One event: its `event:` line, if any, and its `data:` lines joined."""

    event: str
    data: bytes

    @cached_property
    def _body(self) -> JsonObject:
        try:
            body = orjson.loads(self.data)
        except orjson.JSONDecodeError:
            return {}
        return body if isinstance(body, dict) else {}

    def json(self) -> JsonObject:
        """The data as an object; empty when it is none."""
        return self._body

    @property
    def kind(self) -> str:
        """The event's name, from its line or from the `type` in its data."""
        if self.event:
            return self.event
        kind = self._body.get("type")
        return kind if isinstance(kind, str) else ""


@dataclass(slots=True)
class StreamEnd:
    """How a stream ended: whole, with an error of the upstream's own, or neither (cut)."""

    is_complete: bool = False
    has_failed: bool = False
    usage: Usage | None = None


def split_frames(data: bytes) -> list[Frame]:
    """The frames in a run of bytes. A first frame whose beginning is missing gives what can still be read of it."""
    frames = []
    for block in data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n\n"):
        event, lines = "", []
        for line in block.split(b"\n"):
            if line.startswith(b"data:"):
                lines.append(line[5:].removeprefix(b" "))
            elif line.startswith(b"event:"):
                event = line[6:].strip().decode("utf-8", "replace")
        if lines or event:
            frames.append(Frame(event, b"\n".join(lines)))
    return frames


class Tail:
    """Remembers the first frames and the last few of a stream, at a cost of one look at each piece's last bytes.

    A read of the upstream nearly always ends where a frame ends, so pieces are grouped up to such an end; only the last
    groups are kept. Nothing is parsed until the stream is over.
    """

    __slots__ = ("_first", "_groups", "_open", "_open_bytes", "frames_seen")

    def __init__(self) -> None:
        self._first: bytes = b""
        self._groups: deque[bytes] = deque(maxlen=_KEPT_GROUPS)
        self._open: list[bytes] = []
        self._open_bytes = 0
        self.frames_seen = 0

    def add(self, piece: bytes) -> None:
        """Note one piece as it is relayed."""
        self.frames_seen += piece.count(b"\n\n")
        if not self._open and piece.endswith(_FRAME_ENDS):
            group = piece
        else:
            self._open.append(piece)
            self._open_bytes += len(piece)
            ends = piece.endswith(_FRAME_ENDS) or (len(piece) < 4 and b"".join(self._open[-4:]).endswith(_FRAME_ENDS))
            if not ends:
                if self._open_bytes > _KEPT_BYTES:
                    self._trim()
                return
            group = b"".join(self._open)
            self._open.clear()
            self._open_bytes = 0
        if not self._first:
            self._first = group[:_KEPT_BYTES]
        self._groups.append(group)

    def _trim(self) -> None:
        """A frame without end: keep its head, which names it, and its tail, where usage stands."""
        whole = b"".join(self._open)
        self._open = [whole[:4096], whole[-_KEPT_BYTES // 2 :]]
        self._open_bytes = len(self._open[0]) + len(self._open[1])

    @property
    def at_frame_end(self) -> bool:
        """Whether the last byte relayed ended a frame, so that another frame may follow."""
        return not self._open

    def frames(self) -> list[Frame]:
        """The first and the last frames, in order."""
        kept = list(self._groups)
        if kept and self._first and kept[0] != self._first:
            kept.insert(0, self._first)
        return split_frames(b"".join(kept + self._open))
