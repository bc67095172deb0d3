"""A race: one prompt to both tiers, as two ordinary requests of the caller, forced by the override header."""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress

import orjson

from router.contract.caller import Caller
from router.contract.errors import BadRequest, NotPermitted, TandemError
from router.contract.exchange import Arrival, CancelReason, Exchange
from router.contract.facts import Ending, Recorded, Settled
from router.contract.keys import CREDENTIALS
from router.contract.limits import Limits
from router.contract.request import JsonObject
from router.contract.rights import BOTH_TIERS, Rights, check_tier
from router.contract.secret import UPSTREAM_KEY
from router.contract.sinks import Collected, watch
from router.contract.words import DEFAULT_DIALECT, Operation, Outcome, Tier
from router.dialects.error_bodies import find_told
from router.dialects.failures import read_failure
from router.dialects.fields import shown
from router.dialects.heard import ODD_SHAPES, hear_along
from router.dialects.json_body import parse_body, refuse_crowded
from router.dialects.table import SPECS
from router.edge.admission import Admission
from router.edge.control.panel import Answer, Asked, Page
from router.edge.http.bodies import collect_body
from router.edge.routes import check_body_headers, new_request_id
from router.settle.entry import write_entry

RACE = "/tandem/race"
_MAX_REFUSAL_BYTES = 8_192
_FIELDS = ("input", "max_output_tokens")
_HEADERS = {"cache-control": "no-store", "x-accel-buffering": "no"}


class Race:
    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        self.pages = (Page(RACE, self._run, ("POST",)),)

    async def _run(self, asked: Asked) -> Answer:
        check_body_headers(asked.headers, "content-length" in asked.headers)
        _check_rights(asked.rights)
        admission = self._admission
        held = _Slots(admission, asked.caller, len(Tier))
        try:
            body = _read_body(await collect_body(asked.body, admission.limits))
            track = _Track()
            sides = [_Side(tier, track) for tier in Tier]
            for side in sides:
                exchange, task = admission.start(_write_arrival(asked, side.tier, body), side.sink)
                side.follow(exchange, task, held)
        finally:
            held.release_unused()
        pieces = _tell(track, sides)
        await anext(pieces)  # from here on its end is noticed, even if the caller leaves before the first piece
        return Answer(pieces, "text/event-stream", headers=_HEADERS)


class _Slots:
    """In-flight slots, one per side until it ends. Raises `Unavailable` or `RateLimited` if too few."""

    def __init__(self, admission: Admission, caller: Caller, count: int) -> None:
        self._admission, self._caller, self._unused = admission, caller, 0
        limits: Limits = admission.limits
        try:
            for _ in range(count):
                admission.take_slot(limits, caller)
                self._unused += 1
        except TandemError:
            self.release_unused()
            raise

    def use(self) -> None:
        """Hand one to a side, which releases it."""
        self._unused -= 1

    def release(self) -> None:
        self._admission.release(self._caller)

    def release_unused(self) -> None:
        while self._unused:
            self._unused -= 1
            self.release()


class _Track:
    """Both sides' output until the caller takes it. Nothing is paused: answers are limited, and a stalled caller is cut off."""

    def __init__(self) -> None:
        self._events: list[bytes] = []
        self._ready = asyncio.Event()

    def put(self, name: str, data: JsonObject) -> None:
        self._events.append(b"event: %b\ndata: %b\n\n" % (name.encode(), orjson.dumps(data)))
        self._ready.set()

    async def take(self) -> bytes:
        """Everything so far, once there is something."""
        await self._ready.wait()
        self._ready.clear()
        taken, self._events = b"".join(self._events), []
        return taken


class _Side:
    """Watches one tier's answer, and reports its text and end to the track."""

    def __init__(self, tier: Tier, track: _Track) -> None:
        self.tier, self._track = tier, track
        self._answer = Collected(_MAX_REFUSAL_BYTES)
        self.sink = watch(self._answer, self)
        self._reader, self._heard = hear_along(DEFAULT_DIALECT)
        self._exchange: Exchange
        self._slots: _Slots
        self.is_over = False

    def follow(self, exchange: Exchange, task: "asyncio.Task[None] | None", slots: _Slots) -> None:
        """Free the slot and report the end, however this side ends."""
        self._exchange, self._slots = exchange, slots
        slots.use()
        if task is None:
            self._finish()
        else:
            task.add_done_callback(self._finish)

    def leave(self) -> None:
        """The caller left."""
        if not self.is_over:
            self._exchange.cancel(CancelReason.CALLER_LEFT)

    def add(self, data: bytes) -> None:
        if self._answer.status != 200:
            return
        with suppress(*ODD_SHAPES):  # targets do not always follow their dialect
            self._reader.feed(data)
        if said := "".join(self._heard.texts):
            self._heard.texts.clear()
            self._track.put("piece", {"side": str(self.tier), "text": said})

    def finish(self) -> None: ...

    def _finish(self, _: object = None) -> None:
        self.is_over = True
        self._slots.release()
        self._track.put("done", {"side": str(self.tier), **_describe(self._exchange, self._answer)})
        if self._exchange.cancelled is not None:
            self._exchange.let_go()


async def _tell(track: _Track, sides: list[_Side]) -> AsyncIterator[bytes]:
    """Both sides' output and ends. Ends them if the caller leaves."""
    try:
        yield b""
        is_over = False
        while not is_over:
            events = await track.take()
            is_over = all(side.is_over for side in sides)
            yield events
    finally:
        for side in sides:
            side.leave()


def _check_rights(rights: Rights) -> None:
    """Raise `NotPermitted` for a caller without both tiers, before any call."""
    for tier in Tier:
        check_tier(tier, "a race sends the prompt to both tiers", rights, "Ask for the model auto instead")
    if rights.tiers != BOTH_TIERS:
        raise NotPermitted("a race sends the prompt to both tiers, and only one of them may serve this key (tiers)")


def _read_body(raw: bytes) -> JsonObject:
    """The create call for both sides. Raises `BadRequest`."""
    refuse_crowded(raw)
    given = parse_body(raw)
    if unknown := sorted(given.keys() - set(_FIELDS)):
        raise BadRequest(f'unknown field "{unknown[0][:60]}". Known: {", ".join(_FIELDS)}', param=unknown[0][:60])
    words, limit = given.get("input"), given.get("max_output_tokens")
    if not isinstance(words, str) or not words.strip():
        raise BadRequest(f"input: must be a text, not {shown(words)}", param="input")
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= 1_000_000):
        raise BadRequest(f"max_output_tokens: must be a whole number from 1 on, not {shown(limit)}", param="max_output_tokens")
    spec = SPECS[DEFAULT_DIALECT]
    body: JsonObject = {**spec.write_example(words), **spec.stream_fields, "model": "auto"}
    return body if limit is None else {**body, spec.limit_field: limit}


def _write_arrival(asked: Asked, tier: Tier, body: JsonObject) -> Arrival:
    """One side's request. In a shared session the second would look like a repeated ask; `past.turns` knows the prefix."""
    headers: Mapping[str, str] = {
        **{name: value for name in (*CREDENTIALS, UPSTREAM_KEY) if (value := asked.headers.get(name)) is not None},
        "x-tandem-tier": str(tier),
        "x-tandem-session": f"race-{asked.request_id}-{tier}",
    }
    raw = orjson.dumps(body)
    return Arrival(new_request_id(), DEFAULT_DIALECT, Operation.CREATE, headers, raw, asked.caller, asked.key)


def _describe(exchange: Exchange, answer: Collected) -> JsonObject:
    """A side's figures, as in its ledger entry, which is written milliseconds later."""
    recorded, settled = exchange.last(Recorded), exchange.last(Settled)
    if settled is None:  # a defect before its end was noted
        return {"id": exchange.id, "error": "Tandem had an internal error"}
    line = (recorded.entry if recorded is not None else write_entry(exchange, settled, time.time())).line
    return {
        "id": line.id,
        "target": line.target,
        "ttft_ms": line.ttft_ms,
        "duration_ms": line.duration_ms,
        "output_tokens": line.output_tokens,
        "cost_usd": line.cost_usd,
        "billing": line.billing,
        "error": None if settled.ending.outcome is Outcome.SERVED else _word_failure(settled.ending, answer),
    }


def _word_failure(ending: Ending, answer: Collected) -> str:
    """The error as any caller would see it: the target's own words if it refused."""
    if answer.status not in (0, 200) and (told := read_failure(find_told(bytes(answer.body))).message):
        return told
    return ending.error.message if ending.error is not None else str(ending.outcome).lower()
