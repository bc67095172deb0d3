"""Holds the first events of a stream until they prove to be an answer: until then another target may be tried.

Hosts report failures inside a 200, send comments while a request waits, and confirm it (`message_start`, `response.created`)
before they know whether they can serve it.
"""

import asyncio
import re
from collections.abc import Callable

from router.contract.errors import TandemError
from router.contract.request import JsonObject
from router.contract.words import Dialect
from router.dialects.answers import read_failed_frame
from router.dialects.sse import FRAME_ENDS, split_frames
from router.dialects.transports import LIMITS_EVENT

MAX_HELD_BYTES = 65_536
MAX_HELD_EVENTS = 16
MAX_HELD_SECONDS = 2.0
"""A caller must see that a slow host is alive, and a long first event is no error."""
_STARTS = (b"data:", b"event:")
_PROMISES = frozenset(
    {"ping", "keepalive", "message_start", "response.created", "response.queued", "response.in_progress", LIMITS_EVENT}
)
_PROMISED = re.compile(rb"message_start|response\.(?:created|queued|in_progress)|" + re.escape(LIMITS_EVENT.encode()))
_NAME_BYTES = 64
"""A name is at the event's beginning, on its own line or as the first field of its data."""


def begins_well(piece: bytes) -> bool:
    """Whether a stream plainly begins with an answer. False proves nothing."""
    return (
        piece.endswith(FRAME_ENDS)
        and piece.startswith(_STARTS)
        and piece.rfind(b"error") < 0
        and piece.rfind(b"ping") < 0
        and piece.rfind(b".failed") < 0
        and _PROMISED.search(piece, 0, _NAME_BYTES) is None
    )


class Opening:
    """Takes pieces until their first event is complete or time is up, then passes on or refuses, once."""

    __slots__ = ("_dialect", "_held", "_held_bytes", "_is_over", "_pass_on", "_refuse", "_timer")

    def __init__(
        self,
        dialect: Dialect,
        finished: "asyncio.Future[TandemError | None]",
        pass_on: Callable[[bytes], None],
        refuse: Callable[[int, JsonObject, bytes], None],
    ) -> None:
        self._dialect, self._pass_on, self._refuse = dialect, pass_on, refuse
        self._held: list[bytes] = []
        self._held_bytes = 0
        self._is_over = False
        self._timer = finished.get_loop().call_later(MAX_HELD_SECONDS, self._let_go)
        finished.add_done_callback(lambda _: self._close())  # the answer is no longer awaited

    def add(self, piece: bytes) -> None:
        """A piece that ends no line ends no event."""
        self._held.append(piece)
        self._held_bytes += len(piece)
        if b"\n" in piece or b"\r" in piece:
            self._judge(whole_frames(b"".join(self._held)))
        if self._held_bytes > MAX_HELD_BYTES:
            self._let_go()

    def end(self) -> None:
        """An unterminated last event counts too."""
        self._judge(b"".join(self._held))

    def _judge(self, data: bytes) -> None:
        frames = split_frames(data)
        frame = next((frame for frame in frames if frame.data and frame.kind not in _PROMISES), None)
        if frame is None and len(frames) > MAX_HELD_EVENTS:
            self._let_go()
        if frame is None or self._is_over:
            return
        failed = read_failed_frame(self._dialect, frame)
        if failed is None:
            self._let_go()
        else:
            held = b"".join(self._held)
            self._close()
            self._refuse(*failed, held)

    def _let_go(self) -> None:
        if not self._is_over:
            held = b"".join(self._held)
            self._close()
            self._pass_on(held)

    def _close(self) -> None:
        self._is_over = True
        self._held.clear()
        self._timer.cancel()


def whole_frames(data: bytes) -> bytes:
    ends = [index + len(end) for end in FRAME_ENDS if (index := data.rfind(end)) >= 0]
    return data[: max(ends, default=0)]
