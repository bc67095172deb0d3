"""Requests with an `Idempotency-Key`: one that was served gets the same answer again, and no target is called twice for it.

A key belongs to its caller, and holds for one request: the same body, at the same route, with the same overrides. Only an
answer that was served whole is kept. Whatever else became of the first request, its key is free again.
"""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from hashlib import sha256

from msgspec import Struct

from router.contract.errors import BadRequest, IdempotencyMismatch, InProgress
from router.contract.exchange import IDEMPOTENCY_KEY, Arrival, Exchange
from router.contract.facts import Ending, Read, Replayed
from router.contract.request import RequestView
from router.contract.secret import read_callers_key
from router.contract.sinks import AnswerSink, Copy, watch
from router.contract.words import Operation, Outcome
from router.dialects.headers import BECAUSE, OVERHEAD, REQUEST_ID, header_text
from router.dialects.overrides import PREFIX
from router.dialects.requests import read_request
from router.responses.kept_answers import MAX_ANSWER_BYTES, KeptAnswer, KeptAnswers

REPLAYED = ("x-tandem-replayed", "true")
_MAX_KEY = 255
_COME_BACK_SECONDS = 5.0
_OWN_HEADERS = frozenset({REQUEST_ID, BECAUSE, OVERHEAD})
"""Headers that speak of the request, and not of its answer."""
_PASSING_HEADERS = ("x-ratelimit-", "anthropic-ratelimit-", "retry-after")
"""Those that were true for a moment only."""

_CHANGES_REQUEST = re.compile(rf"{PREFIX}|.*(?:session|thread|agent)[-_]id").match
"""The headers that make it another request: our own, and those by which clients name their session."""

Answer = Callable[[Exchange, AnswerSink], Awaitable[Ending]]
"""The rest of the road: takes an exchange, and where its answer goes."""


class _InFlight(Struct, eq=False):
    """A request that holds its key. Others with the same key wait for its end."""

    asked: bytes
    ended: "asyncio.Future[None]"


class Repeats:
    """Knows which keys are in use, and what was answered to those that were."""

    def __init__(self, kept: KeptAnswers | None = None, clock: Callable[[], float] = time.perf_counter) -> None:
        self.kept, self._clock = kept or KeptAnswers(), clock
        self._running: dict[bytes, _InFlight] = {}

    async def serve(self, answer: Answer, exchange: Exchange, caller: AnswerSink) -> Ending:
        """Answer by what is kept for the key, else by `answer`, the rest of the road.

        Raises a `BadRequest` for a key that is none, an `IdempotencyMismatch` for one that another request has, and
        `InProgress` where the deadline comes before the end of a request with the same key.
        """
        arrival = exchange.arrival
        if arrival.operation is not Operation.CREATE or arrival.responses is not None:  # on a socket it is the handshake's
            return await answer(exchange, caller)
        slot = _slot_of(arrival)
        asked = await exchange.off_loop(_digest, arrival)
        while (running := self._running.get(slot)) is not None:
            _check(running.asked, asked)
            await self._wait_for(running, exchange)
        if (kept := self.kept.find(slot)) is not None:
            _check(kept.asked, asked)
            return _say_again(kept, exchange, await exchange.off_loop(read_request, arrival), caller)
        return await self._serve_first(slot, asked, exchange, caller, answer)

    async def _serve_first(self, slot: bytes, asked: bytes, exchange: Exchange, caller: AnswerSink, answer: Answer) -> Ending:
        sink = watch(caller, copy := Copy(MAX_ANSWER_BYTES))
        running = self._running[slot] = _InFlight(asked, asyncio.get_running_loop().create_future())
        try:
            ending = await answer(exchange, sink)
            if ending.outcome is Outcome.SERVED and not copy.is_too_long:
                self.kept.keep(slot, KeptAnswer(exchange.id, asked, sink.headers, copy.body))
            return ending
        finally:
            del self._running[slot]
            running.ended.set_result(None)

    async def _wait_for(self, running: _InFlight, exchange: Exchange) -> None:
        """Wait until a request with the same key is over. It may fail, or its caller may leave: then this one is the first."""
        await asyncio.wait([running.ended], timeout=exchange.deadline.left(self._clock()))
        if not running.ended.done():
            words = f"a request with the same {IDEMPOTENCY_KEY} is still being answered. Send this one again later"
            raise InProgress(words, retry_after_seconds=_COME_BACK_SECONDS)

    def close(self) -> None:
        self.kept.close()


def _slot_of(arrival: Arrival) -> bytes:
    """Where an answer is kept: by the caller, the credential that came with the request, and the key. None can be read back."""
    key = arrival.headers[IDEMPOTENCY_KEY]
    if not (0 < len(key) <= _MAX_KEY and key.isascii() and key.isprintable()):
        raise BadRequest(
            f"{IDEMPOTENCY_KEY}: send it once, with 1 to {_MAX_KEY} printable ASCII characters", param=IDEMPOTENCY_KEY
        )
    whose = f"{arrival.caller.name}\0{read_callers_key(arrival.headers, arrival.dialect)}\0{key}"
    return sha256(whose.encode("utf-8", "replace")).digest()


def _digest(arrival: Arrival) -> bytes:
    """What a request asks for: its route, overrides, session and body. SHA-256, for which processors have instructions."""
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
