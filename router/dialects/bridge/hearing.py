"""What every reader of a target's answer shares: frames out of bytes, and how an answer stands."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import orjson

from router.contract.entry import Usage
from router.contract.request import Json, JsonObject
from router.dialects.compose.parts import Composer, Finish
from router.dialects.fields import as_object, as_text


class FrameSplitter:
    """Server-sent events from bytes that may be cut anywhere. Gives each frame's data; its name stands in the data too."""

    __slots__ = ("_rest",)

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The data of every frame that is now whole."""
        data = self._rest + data if self._rest else data
        if b"\r" in data:
            held = b"\r" if data.endswith(b"\r") else b""  # half of a line end, perhaps
            data = data[: len(data) - len(held)].replace(b"\r\n", b"\n").replace(b"\r", b"\n") + held
        *frames, self._rest = data.split(b"\n\n")
        for frame in frames:
            found = self._data_of(frame)
            if found:
                yield found

    def flush(self) -> Iterator[bytes]:
        """A last frame that nobody ended: some hosts leave out the empty line."""
        rest, self._rest = self._rest.strip(b"\r\n"), b""
        found = self._data_of(rest)
        if found:
            yield found

    @staticmethod
    def _data_of(frame: bytes) -> bytes:
        if frame.startswith(b"data: ") and b"\n" not in frame:
            return frame[6:]
        lines = [line[5:].removeprefix(b" ") for line in frame.split(b"\n") if line.startswith(b"data:")]
        return b"\n".join(lines)


@dataclass(frozen=True, slots=True)
class Failure:
    """An error that a target reports inside its answer."""

    code: str
    message: str


class Hearing(Protocol):
    """Reads one answer of a target and tells it to a composer. Fed once with a whole body, or frame by frame."""

    is_complete: bool
    failure: Failure | None

    def hear(self, event: JsonObject) -> bytes:
        """One event of a stream."""
        ...

    def finish(self) -> bytes:
        """The stream is over: what was held back until then."""
        ...

    def hear_whole(self, body: JsonObject) -> None:
        """An answer in one piece. Raises ValueError when it is none of this dialect."""
        ...


def read_failure(value: Json) -> Failure:
    """An error as hosts write it: an object, a text, or something else."""
    error = as_object(value)
    code = error.get("code") or error.get("type") or "upstream_error"
    return Failure(str(code)[:80], as_text(error.get("message")) or as_text(value) or "the target reported an error")


class CallBook:
    """Calls that a target writes in parallel, told one after another.

    A composer has one call open at a time. The first one is told as it comes; what belongs to a later one waits until the
    arguments before it are whole.
    """

    def __init__(self, composer: Composer) -> None:
        self._composer = composer
        self._open: Json = None
        self._written: list[str] = []
        self._waiting: dict[Json, tuple[str, str, list[str]]] = {}
        self.has_calls = False

    def begin(self, key: Json, call_id: str, name: str) -> bytes:
        """A call appears."""
        self.has_calls = True
        if self._open is None:
            return self._start(key, call_id, name)
        if not self._waiting and self.is_whole(self._open):
            return self._end() + self._start(key, call_id, name)
        self._waiting[key] = (call_id, name, [])
        return b""

    def knows(self, key: Json) -> bool:
        """Whether this call has begun."""
        return key == self._open or key in self._waiting

    def is_whole(self, key: Json) -> bool:
        """Whether a call's arguments are all there. None at all may mean that they are still to come."""
        pieces = self._written if key == self._open else self._waiting[key][2]
        try:
            orjson.loads("".join(pieces))
        except orjson.JSONDecodeError:
            return False
        return True

    def arguments(self, key: Json, delta: str) -> bytes:
        """More of its arguments."""
        if not delta:
            return b""
        if key == self._open:
            self._written.append(delta)
            return self._composer.arguments(delta)
        if key in self._waiting:
            self._waiting[key][2].append(delta)
        return b""

    def end(self) -> bytes:
        """Whatever is open or waiting is whole now."""
        frames = self._end()
        for key, (call_id, name, pieces) in self._waiting.items():
            frames += self._start(key, call_id, name)
            frames += self._composer.arguments("".join(pieces)) if pieces else b""
            frames += self._end()
        self._waiting = {}
        return frames

    def _start(self, key: Json, call_id: str, name: str) -> bytes:
        self._open, self._written = key, []
        return self._composer.begin_call(call_id, name)

    def _end(self) -> bytes:
        if self._open is None:
            return b""
        self._open = None
        return self._composer.end_call()


@dataclass(slots=True)
class End:
    """How an answer ended, as far as is known yet."""

    finish: Finish | None = None
    usage: Usage | None = None
