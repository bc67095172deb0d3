"""Serialises what a target writes in parallel: a composer has one thing open at a time."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import orjson

from router.contract.request import Json
from router.dialects.composer import Composer, is_blank

_NOTHING = "null"


def written_bytes(words: str) -> int:
    """The size of some words within a frame, as `count_written` has it for streams that pass as they are."""
    return len(orjson.dumps(words)) - 2


@dataclass(slots=True)
class _Call:
    call_id: str
    name: str
    pieces: list[str] = field(default_factory=list)
    is_over: bool = False
    is_ended: bool = False
    """Whether the target ended it, which it also does for a truncated call."""
    is_cut: bool = False
    has_grown: bool = False
    beginning: str | None = ""
    """Arguments held back so far, stripped; None once they are passed on directly."""

    def add(self, delta: str) -> None:
        self.pieces.append(delta)
        self.is_over, self.has_grown = False, True

    def is_whole(self) -> bool:
        """Whether nothing can follow. Empty arguments do not count: some hosts announce all calls first."""
        if self.is_over or not self.has_grown or not self.pieces[-1].rstrip().endswith("}"):
            return self.is_over
        self.pieces, self.has_grown = ["".join(self.pieces)], False
        try:
            self.is_over = isinstance(orjson.loads(self.pieces[0]), dict)
        except orjson.JSONDecodeError:
            return False
        return self.is_over


class CallSequencer:
    """Passes the first call on as it comes; later calls and text wait until its arguments are whole."""

    def __init__(self, composer: Composer) -> None:
        self._composer = composer
        self._open: _Call | None = None
        self._waiting: deque[_Call | tuple[Callable[[str], bytes], str]] = deque()
        self._calls: dict[Json, _Call] = {}
        self.written_bytes = 0
        """Text that the target wrote, even where the caller does not get it."""

    @property
    def has_calls(self) -> bool:
        return bool(self._calls)

    def text(self, words: str) -> bytes:
        self.written_bytes += written_bytes(words)
        return self._say(self._composer.text, words)

    def refusal(self, words: str) -> bytes:
        self.written_bytes += written_bytes(words)
        return self._say(self._composer.refusal, words)

    def reasoning(self, words: str) -> bytes:
        self.written_bytes += written_bytes(words)
        return self._say(self._composer.reasoning, words)

    def envelope(self, envelope: str) -> bytes:
        return self._say(self._composer.envelope, envelope)

    def _say(self, write: Callable[[str], bytes], words: str) -> bytes:
        if self._open is None:
            return write(words)
        self._end_those_said_to_be()
        self._waiting.append((write, words))
        return self._go_on()

    def begin(self, key: Json, call_id: str, name: str) -> bytes:
        """`key` identifies the call within the answer."""
        self._end_those_said_to_be()
        call = self._calls[key] = _Call(call_id, name)
        self._waiting.append(call)
        return self._go_on()

    def knows(self, key: Json) -> bool:
        return key in self._calls

    def is_whole(self, key: Json) -> bool:
        return key in self._calls and self._calls[key].is_whole()

    def arguments(self, key: Json, delta: str) -> bytes:
        """Raises ValueError if the call is not open."""
        if not delta:
            return b""
        call = self._calls.get(key)
        if call is None or (call.is_over and call is not self._open):
            if delta.isspace():
                return b""
            raise ValueError("arguments without an open call")
        self.written_bytes += written_bytes(delta)
        call.add(delta)
        return self._tell(call, delta) if call is self._open else b""

    def _tell(self, call: _Call, delta: str) -> bytes:
        """Blanks and a leading `null` wait: if nothing follows, the call has no arguments."""
        if call.beginning is None:
            return self._composer.arguments(delta)
        call.beginning = (call.beginning + delta).strip()
        if _NOTHING.startswith(call.beginning):
            return b""
        call.beginning = None
        return self._composer.arguments("".join(call.pieces))

    def end(self, key: Json, *, may_be_cut: bool = False) -> bytes:
        """With `may_be_cut`, what follows decides whether the call was truncated."""
        call = self._calls.get(key)
        if call is not None:
            call.is_ended = True
            call.is_over = call.is_whole() or not may_be_cut
        return self._go_on()

    def cut(self, key: Json) -> None:
        if key in self._calls:
            self._calls[key].is_cut = True

    def _end_those_said_to_be(self) -> None:
        """Something follows, so ended calls were not truncated."""
        for call in self._calls.values():
            call.is_over = call.is_over or (call.is_ended and not call.is_cut)

    def end_all(self, *, is_cut: bool = False) -> bytes:
        calls = list(self._calls.values())
        if is_cut and calls:
            # A last call without arguments may have been about to get some.
            last = calls[-1] if not self._waiting or self._waiting[-1] is calls[-1] else None
            for call in calls:
                call.is_cut = call.is_cut or (not call.is_whole() and (call is last or not is_blank("".join(call.pieces))))
        for call in calls:
            call.is_over = True
        return self._go_on()

    def _go_on(self) -> bytes:
        """End the open call if whole, then pass on what waited, up to the next unfinished call."""
        frames: list[bytes] = []
        while True:
            if self._open is not None:
                if not self._open.is_whole():
                    break
                frames.append(self._composer.end_call(is_cut=self._open.is_cut))
                self._open = None
            if not self._waiting:
                break
            thing = self._waiting.popleft()
            if isinstance(thing, _Call):
                frames.append(self._composer.begin_call(thing.call_id, thing.name))
                self._open = thing
                if thing.pieces:
                    frames.append(self._tell(thing, "".join(thing.pieces)))
            else:
                frames.append(thing[0](thing[1]))
        return b"".join(frames)
