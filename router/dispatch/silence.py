"""Silence in a stream that has begun: heartbeats for the caller who waits, and an end to a target that says nothing more."""

import asyncio
from typing import Protocol

from router.contract.errors import TandemError, UpstreamTimeout
from router.contract.target import Target

HEARTBEAT = b": heartbeat\n\n"
"""A comment, which every reader of events skips. It tells proxies and impatient clients that the line is alive."""
HEARTBEAT_SECONDS = 10.0


class Stream(Protocol):
    """A stream under way, as whoever watches it must know it."""

    silent_checks: int
    """Looks in a row at which nothing had come. Whoever writes a piece sets it to none: a piece costs no look at the clock."""

    @property
    def is_paused(self) -> bool:
        """Whether its caller reads too slowly just now."""
        ...

    @property
    def at_frame_end(self) -> bool:
        """Whether a comment may be written here."""
        ...

    @property
    def content_bytes(self) -> int:
        """How much has come that is not a comment."""
        ...

    @property
    def first_token_at(self) -> float | None:
        """When the model's first token came."""
        ...

    def beat(self) -> None:
        """Tell the caller that the line is alive."""
        ...

    def fail(self, error: TandemError) -> None:
        """Give the stream up."""
        ...


class SilenceWatch:
    """Looks at a stream twice in the time of a heartbeat, until it is stopped or has given the stream up."""

    __slots__ = ("_beat_seconds", "_content_at", "_content_bytes", "_look_seconds", "_loop", "_stream", "_target", "_timer")

    def __init__(self, stream: Stream, target: Target, loop: asyncio.AbstractEventLoop, beat_seconds: float) -> None:
        self._stream, self._target, self._loop, self._beat_seconds = stream, target, loop, beat_seconds
        self._look_seconds = seconds = min(beat_seconds / 2, target.timeouts.stall_seconds / 4)
        self._content_bytes, self._content_at = 0, loop.time()
        self._timer = loop.call_later(seconds, self._look)

    def stop(self) -> None:
        """Look no more."""
        self._timer.cancel()

    def _look(self) -> None:
        stream = self._stream
        stream.silent_checks += 1
        if self._has_stalled(stream, self._loop.time()):
            return
        is_silent = stream.silent_checks * self._look_seconds >= self._beat_seconds
        if is_silent and stream.at_frame_end and not stream.is_paused:
            stream.silent_checks = 0
            stream.beat()
        self._timer = self._loop.call_later(self._look_seconds, self._look)

    def _has_stalled(self, stream: Stream, now: float) -> bool:
        """End a stream in which nothing but comments came for too long. They show that a host lives, not that it answers.

        Before the first token a host may take the time that it has for its first byte: comments are how it says to wait.
        """
        seen = stream.content_bytes
        if seen != self._content_bytes or stream.is_paused:
            self._content_bytes, self._content_at = seen, now
            return False
        name, timeouts = self._target.name, self._target.timeouts
        limit = timeouts.stall_seconds
        if stream.first_token_at is None:
            limit = max(limit, timeouts.first_byte_seconds)
        if now - self._content_at < limit - 0.001:
            return False
        stream.fail(UpstreamTimeout(name, f'target "{name}" sent no event for {limit:g} s'))
        return True
