"""Requests with an `Idempotency-Key`: a served one is replayed without a second call.

A key belongs to its caller and to one request: body, route and overrides. Only answers served whole are kept; otherwise the key
is free again.
"""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Iterator
from hashlib import sha256

from msgspec import Struct

from router.contract.credential import read_callers_key
from router.contract.errors import BadRequest, IdempotencyMismatch, InBackground, InProgress, StoreUnavailable
from router.contract.exchange import IDEMPOTENCY_KEY, Arrival, Exchange
from router.contract.facts import Ending, Read, Replayed
from router.contract.request import RequestView
from router.contract.sinks import AnswerSink, Copy, watch
from router.contract.stores import HeldKey, KeptRepeat, RepeatStore, StoreUnusable
from router.contract.words import Operation, Outcome
from router.dialects.headers import BECAUSE, OVERHEAD, REQUEST_ID, header_text
from router.dialects.overrides import PREFIX
from router.dialects.requests import read_request
from router.dialects.responses.background import AskedBackground
from router.dialects.table import SPECS
from router.responses.kept_answers import MAX_ANSWER_BYTES, KeptAnswer, KeptAnswers, read_answer, write_answer

REPLAYED = ("x-tandem-replayed", "true")
_MAX_KEY = 255
_COME_BACK_SECONDS = 5.0
_BLIND_SECONDS = 1.0
_OWN_HEADERS = frozenset({REQUEST_ID, BECAUSE, OVERHEAD})
"""Headers about the request, not its answer."""
_PASSING_HEADERS = (*(spec.limits.prefix for spec in SPECS.values()), "retry-after")
"""Headers true only at the time."""

_CHANGES_REQUEST = re.compile(rf"{PREFIX}|.*(?:session|thread|agent)[-_]id").match
"""Headers that make it another request: ours, and those that name a client's session."""

Answer = Callable[[Exchange, AnswerSink], Awaitable[Ending]]


class _InFlight(Struct, eq=False):
    """A request that holds its key; others with that key wait."""

    asked: bytes
    ended: "asyncio.Future[None]"


class Repeats:
    """Keys in use, and kept answers. With a shared store, keys count across all routers."""

    def __init__(
        self,
        kept: KeptAnswers | None = None,
        clock: Callable[[], float] = time.perf_counter,
        shared: RepeatStore | None = None,
        *,
        goes_on_blind: bool = False,
    ) -> None:
        """`goes_on_blind`: while the store is unavailable, each router uses its own keys alone."""
        self.kept, self._clock = kept or KeptAnswers(), clock
        self._shared, self._goes_on_blind = shared, goes_on_blind
        self._running: dict[bytes, _InFlight] = {}
        if shared is not None:
            shared.restore_from(self._list_answers)

    async def serve(self, answer: Answer, exchange: Exchange, caller: AnswerSink) -> Ending:
        """Replay the kept answer for the key, else call `answer`, the rest of the road.

        Raises `BadRequest` for an invalid key, `IdempotencyMismatch` for another request's key, `InProgress` if the deadline
        comes before the end of a request with this key, and `StoreUnavailable` if other routers may have it but cannot be
        asked.
        """
        arrival = exchange.arrival
        if arrival.operation is not Operation.CREATE or arrival.responses is not None:  # a socket's key is its handshake's
            return await answer(exchange, caller)
        slot = _slot_of(arrival)
        asked = await exchange.off_loop(_digest, arrival)
        while (running := self._running.get(slot)) is not None:
            _check(running.asked, asked)
            await self._wait_for(running, exchange)
        if (kept := self.kept.find(slot)) is not None:
            _check(kept.asked, asked)
            return _say_again(kept, exchange, await exchange.off_loop(_read, arrival), caller)
        return await self._serve_first(slot, asked, exchange, caller, answer)

    async def _serve_first(self, slot: bytes, asked: bytes, exchange: Exchange, caller: AnswerSink, answer: Answer) -> Ending:
        running = self._running[slot] = _InFlight(asked, asyncio.get_running_loop().create_future())
        try:
            if self._shared is None:
                return await self._answer_first(slot, asked, exchange, caller, answer)
            return await self._serve_shared(self._shared, slot, asked, exchange, caller, answer)
        finally:
            del self._running[slot]
            running.ended.set_result(None)

    async def _answer_first(self, slot: bytes, asked: bytes, exchange: Exchange, caller: AnswerSink, answer: Answer) -> Ending:
        sink = watch(caller, copy := Copy(MAX_ANSWER_BYTES))
        ending = await answer(exchange, sink)
        if ending.outcome is Outcome.SERVED and not copy.is_too_long:
            self.kept.keep(slot, KeptAnswer(exchange.id, asked, sink.headers, copy.body), exchange.caller)
        return ending

    async def _serve_shared(
        self, shared: RepeatStore, slot: bytes, asked: bytes, exchange: Exchange, caller: AnswerSink, answer: Answer
    ) -> Ending:
        """Answer once no other router has the key. This router's requests with the key wait meanwhile."""
        while (held := await self._claim(shared, slot, asked)) is not None:
            _check(held.asked, asked)
            if held.answer is not None:
                kept = read_answer(held.answer, asked)
                if kept is None:
                    raise _blind()
                return _say_again(kept, exchange, await exchange.off_loop(_read, exchange.arrival), caller)
            if not (left := exchange.deadline.left(self._clock())):
                raise _in_progress()
            await shared.wait(slot, left)
        try:
            return await self._answer_first(slot, asked, exchange, caller, answer)
        finally:
            kept = self.kept.find(slot)
            shared.finish(slot, write_answer(kept) if kept is not None else None)

    def _list_answers(self) -> Iterator[KeptRepeat]:
        for slot, kept, seconds in self.kept.list_kept():
            yield slot, HeldKey(kept.asked, write_answer(kept)), seconds

    async def _claim(self, shared: RepeatStore, slot: bytes, asked: bytes) -> HeldKey | None:
        try:
            return await shared.claim(slot, asked)
        except StoreUnusable as error:
            if self._goes_on_blind:
                return None
            raise _blind() from error

    async def _wait_for(self, running: _InFlight, exchange: Exchange) -> None:
        """Wait for a request with this key. If it fails or its caller leaves, this one takes over."""
        await asyncio.wait([running.ended], timeout=exchange.deadline.left(self._clock()))
        if not running.ended.done():
            raise _in_progress()

    def close(self) -> None:
        self.kept.close()
        if self._shared is not None:
            self._shared.close()


def _in_progress() -> InProgress:
    words = f"a request with the same {IDEMPOTENCY_KEY} is still being answered. Send this one again later"
    return InProgress(words, retry_after_seconds=_COME_BACK_SECONDS)


def _blind() -> StoreUnavailable:
    words = f"it cannot be checked now whether another router has this {IDEMPOTENCY_KEY}. Send the request again"
    return StoreUnavailable(words, retry_after_seconds=_BLIND_SECONDS)


def _read(arrival: Arrival) -> RequestView:
    """The request, read as its job would be if in the background."""
    try:
        return read_request(arrival)
    except InBackground:
        return read_request(AskedBackground(arrival).arrival)


def _slot_of(arrival: Arrival) -> bytes:
    """Digest of caller, credential and key, none of which can be read back."""
    key = arrival.headers[IDEMPOTENCY_KEY]
    if not (0 < len(key) <= _MAX_KEY and key.isascii() and key.isprintable()):
        raise BadRequest(
            f"{IDEMPOTENCY_KEY}: send it once, with 1 to {_MAX_KEY} printable ASCII characters", param=IDEMPOTENCY_KEY
        )
    whose = f"{arrival.caller.name}\0{read_callers_key(arrival.headers, arrival.dialect)}\0{key}"
    return sha256(whose.encode("utf-8", "replace")).digest()


def _digest(arrival: Arrival) -> bytes:
    """Digest of route, overrides, session and body. SHA-256 is accelerated by processors."""
    overrides = sorted(f"{name}: {value}" for name, value in arrival.headers.items() if _CHANGES_REQUEST(name))
    digest = sha256("\n".join([arrival.dialect, *overrides, ""]).encode("utf-8", "replace"))
    digest.update(arrival.raw)
    return digest.digest()


def _check(held: bytes, asked: bytes) -> None:
    if held != asked:
        raise IdempotencyMismatch(
            f"this {IDEMPOTENCY_KEY} was already used for a different request (body, route, session or x-tandem-* headers "
            "differ). Use a new key, or repeat the original request",
            param=IDEMPOTENCY_KEY,
        )


def _lasts(header: tuple[str, str]) -> bool:
    return header[0] not in _OWN_HEADERS and not header[0].startswith(_PASSING_HEADERS)


def _say_again(kept: KeptAnswer, exchange: Exchange, view: RequestView, caller: AnswerSink) -> Ending:
    because = f"replayed from {kept.request_id} (same {IDEMPOTENCY_KEY})"
    exchange.note(Read(view))
    exchange.note(Replayed(because))
    caller.start(200, ((REQUEST_ID, exchange.id), (BECAUSE, header_text(because)), REPLAYED, *filter(_lasts, kept.headers)))
    caller.write(kept.body)
    caller.end()
    return Ending(Outcome.SERVED, 200)
