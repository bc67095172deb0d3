"""Sent answers, kept in memory for a while, bounded by age and bytes."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from itertools import chain

from msgspec import MsgspecError, Struct, msgpack

from router.contract.caller import Caller
from router.contract.relay import Headers
from router.contract.share import Holdings

MAX_ANSWER_BYTES = 1 << 20
KEEP_SECONDS = 600.0
_MAX_BYTES = 64 << 20
_decode = msgpack.Decoder(tuple[str, tuple[tuple[str, str], ...], bytes]).decode
_NOTHING = (0.0, None, None)
_SMALL_BYTES = 2_048
"""Measured overhead of an answer: thirty short strings, its slot and its digest."""


class KeptAnswer(Struct, frozen=True):
    """A sent answer: status 200, headers and body."""

    request_id: str
    asked: bytes
    headers: Headers
    body: bytes

    @property
    def size(self) -> int:
        """Approximate memory in bytes."""
        return len(self.body) + sum(map(len, chain.from_iterable(self.headers))) + _SMALL_BYTES

    __repr__ = object.__repr__  # answers are never shown


def write_answer(answer: KeptAnswer) -> bytes:
    """An answer for a shared store, without the request's digest."""
    return msgpack.encode((answer.request_id, answer.headers, answer.body))


def read_answer(written: bytes, asked: bytes) -> KeptAnswer | None:
    """Another router's answer; None if unreadable here."""
    try:
        request_id, headers, body = _decode(written)
    except MsgspecError:
        return None
    return KeptAnswer(request_id, asked, headers, body)


class KeptAnswers:
    """Answers of the last ten minutes, dropped by a timer."""

    def __init__(
        self,
        *,
        max_bytes: int = _MAX_BYTES,
        keep_seconds: float = KEEP_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._max_bytes, self._keep_seconds, self._clock = max_bytes, keep_seconds, clock
        self._kept: OrderedDict[bytes, tuple[float, Caller, KeptAnswer]] = OrderedDict()
        self._timer: asyncio.TimerHandle | None = None
        self._bytes = Holdings()

    @property
    def kept_bytes(self) -> int:
        return self._bytes.total

    def keep(self, slot: bytes, answer: KeptAnswer, caller: Caller) -> None:
        """Keep an answer. When full, the oldest of the caller that has most is evicted."""
        self._drop(slot)
        self._kept[slot] = self._clock() + self._keep_seconds, caller, answer
        self._bytes.add(caller, answer.size)
        while self._bytes.total > self._max_bytes:
            most = self._bytes.find_most()
            self._drop(next(slot for slot, (_, caller, _) in self._kept.items() if caller == most))
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._keep_seconds, self._forget_old)

    def find(self, slot: bytes) -> KeptAnswer | None:
        until, _, answer = self._kept.get(slot, _NOTHING)
        return answer if until > self._clock() else None

    def list_kept(self) -> Iterator[tuple[bytes, KeptAnswer, float]]:
        """Slot, answer and remaining seconds of each. Others may come and go meanwhile."""
        for slot in list(self._kept):
            until, _, answer = self._kept.get(slot, _NOTHING)
            if answer is not None and (left := until - self._clock()) > 0:
                yield slot, answer, left

    def close(self) -> None:
        self._kept.clear()
        self._bytes = Holdings()
        self._stop_timer()

    def _forget_old(self) -> None:
        """Drop expired answers, which come first, and schedule the next look."""
        self._stop_timer()
        now = self._clock()
        while self._kept:
            slot, (until, *_) = next(iter(self._kept.items()))
            if until > now:
                self._timer = asyncio.get_running_loop().call_later(until - now, self._forget_old)
                return
            self._drop(slot)

    def _drop(self, slot: bytes) -> None:
        found = self._kept.pop(slot, None)
        if found is not None:
            _, caller, answer = found
            self._bytes.add(caller, -answer.size)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
