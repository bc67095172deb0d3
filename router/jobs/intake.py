"""Accepts background work: a request is read and decided as any other, stored, and answered with the id of its response."""

import asyncio
import secrets
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import partial

from router.contract.errors import (
    BadRequest,
    InBackground,
    JobsUnavailable,
    NotPermitted,
    TandemError,
    TooManyJobs,
    Unauthorized,
)
from router.contract.exchange import IDEMPOTENCY_KEY, Arrival, Exchange
from router.contract.facts import Decided, Ending
from router.contract.job import COME_BACK_SECONDS, MAX_TITLE, Job, JobEnding, JobState, JobStore, Segment
from router.contract.keys import rights_of
from router.contract.relay import Headers
from router.contract.request import JsonObject
from router.contract.rights import Rights, rights_in
from router.contract.secret import mask_keys
from router.contract.sinks import AnswerSink, send_whole
from router.contract.stores import StoreUnusable
from router.contract.words import Operation, Outcome, Tier
from router.dialects.composer import Answer, Finish
from router.dialects.headers import BECAUSE, QUEUED, header_text, id_headers
from router.dialects.overrides import JOB_SESSION, PREFIX, read_name
from router.dialects.responses.background import AskedBackground, job_id_of
from router.dialects.responses.compose import ResponsesComposer
from router.dialects.responses.logged import LogFrames, write_response
from router.dispatch.passed_headers import STREAM_HEADERS
from router.dispatch.streaming import HEARTBEAT
from router.house import House
from router.jobs.endings import LEASE_SECONDS
from router.jobs.runner import Runner
from router.jobs.tail import follow, tail_into
from router.loop.tasks import spawn
from router.plan import Plan
from router.sessions.clients import TURN_STATE_HEADERS
from router.sessions.turns import TELLING_HEADERS
from router.settle.refuse import refuse
from router.telemetry import events

_JSON = (("content-type", "application/json"),)
_KEPT = TELLING_HEADERS | TURN_STATE_HEADERS | {"user-agent", "anthropic-beta", "traceparent", "tracestate"}
"""Headers that are kept with a job, by name: a proxy may have put credentials into any other."""

_NO_ROOM = (
    "there is no room for another background job: {0.most_queued} may wait in all, and take {0.max_disk_mb} MB with their"
    " answers, of which you have a share (limits.share). Wait, or delete some"
)


class Intake:
    """Takes requests with `background: true`."""

    def __init__(self, house: House, store: JobStore, runner: Runner) -> None:
        self._house, self._store, self._runner = house, store, runner

    async def accept(self, exchange: Exchange, caller: AnswerSink) -> Ending:
        """Make a job of a request and answer its id, or refuse it in the caller's dialect."""
        arrival = exchange.arrival
        try:
            if arrival.operation is not Operation.CREATE:
                raise InBackground
            asked = AskedBackground(arrival)
            answer = partial(self._answer, asked)
            if IDEMPOTENCY_KEY in arrival.headers:
                return await self._house.state.repeats.serve(answer, exchange, caller)
            return await answer(exchange, caller)
        except TandemError as error:
            return refuse(error, arrival, caller)

    async def keep(self, exchange: Exchange, session: str, title: str, text: str) -> None:
        """Keep a text of deep's as a job that has ended. Raises `StoreUnusable`, or `TooManyJobs`."""
        plan, caller = self._house.plan, exchange.caller
        job, log, ending = _write_kept(exchange, session, title, text)
        most = rights_in(plan.rules.rights, caller.name).jobs_in_flight
        if not await self._store.add(job, plan.jobs, most, LEASE_SECONDS):
            raise TooManyJobs(_NO_ROOM.format(plan.jobs), retry_after_seconds=COME_BACK_SECONDS)
        await self._store.append(job, [log])
        if await self._store.finish(job, ending):
            events.job_ended(job=job.id, state=ending.state)

    async def _answer(self, asked: AskedBackground, exchange: Exchange, caller: AnswerSink) -> Ending:
        plan: Plan = exchange.plan
        decided = await self._house.decide(asked.arrival, plan.for_background())
        rights = self._check_rights(plan, asked.arrival, decided)
        job = _write_job(asked, decided, time.time())
        await self._add(job, plan, rights)
        exchange.leave_unrecorded()
        events.job_accepted(job=job.id, tier=job.tier, session=job.session)
        self._runner.wake()
        headers = _headers(exchange.id, decided)
        if not asked.is_streaming:
            send_whole(caller, (*_JSON, *headers), job.queued)
        else:
            caller.start(200, (*STREAM_HEADERS, *headers))
            caller.write(HEARTBEAT)  # a head leaves with the first bytes, and a target may take its time
            await tail_into(caller, follow(self._store, job.id, job.caller, -1, partial(self._is_cut_off, job)))
        return Ending(Outcome.SERVED, 200)

    def _is_cut_off(self, job: Job) -> bool:
        """Whether a stream must end: the router is shutting down, or the key no longer works."""
        return self._runner.is_stopping() or self._runner.is_revoked(job)

    def _check_rights(self, plan: Plan, arrival: Arrival, decided: Decided) -> Rights:
        """Refuse a caller that may not have background work now, or one whose own key would be needed for it."""
        rights = rights_of(self._house.plan.keys, arrival.caller, arrival.key, time.time())
        if not rights.tiers:
            raise Unauthorized
        if not rights.may_delegate:
            raise NotPermitted("background: this key does not have the right to delegate work (may_delegate)")
        target = plan.targets[decided.decision.targets[0]]
        if target.takes_callers_key:
            raise BadRequest(
                f'background: target "{target.name}" is called with your own key, which is never stored. Send the request '
                "without background",
                param="background",
            )
        return rights

    async def _add(self, job: Job, plan: Plan, rights: Rights) -> None:
        """Store a job. When this returns it is durable; a caller that left before has none."""
        own = rights.jobs_in_flight
        adding = spawn(self._store.add(job, plan.jobs, own), name=f"{job.id} add")
        try:
            is_added = await asyncio.shield(adding)
        except asyncio.CancelledError:
            spawn(self._undo(adding, job), name=f"{job.id} undo")
            raise
        except StoreUnusable as error:
            raise JobsUnavailable(
                f"background jobs cannot be stored now: {error.for_callers}", retry_after_seconds=COME_BACK_SECONDS
            ) from error
        if not is_added:
            words = _NO_ROOM.format(plan.jobs)
            if own is not None:
                words = f"this key may have {own} background jobs at once, or {words}"
            raise TooManyJobs(words, retry_after_seconds=COME_BACK_SECONDS)

    async def _undo(self, adding: "asyncio.Task[bool]", job: Job) -> None:
        """Nobody knows the id: nobody could collect what it would cost."""
        with suppress(StoreUnusable):
            if await adding:
                await self._store.forget(job.id, job.caller)
                self._runner.drop(job.id)


def _write_job(asked: AskedBackground, decided: Decided, now: float) -> Job:
    turn, arrival = decided.decision.turn, asked.arrival
    job_id = job_id_of(arrival.id)
    text = turn.ask_text or turn.person_text or ""
    return Job(
        id=job_id,
        caller=arrival.caller,
        created_at=now,
        body=arrival.raw,
        headers=keep_headers(arrival.headers),
        queued=write_response(asked.write_queued(job_id, int(now))),
        key=arrival.key,
        session=read_name(JOB_SESSION, arrival.headers) or turn.session or None,
        title=" ".join(text.split())[:MAX_TITLE],
        tier=decided.decision.tier,
    )


def _write_kept(exchange: Exchange, session: str, title: str, text: str) -> tuple[Job, Segment, JobEnding]:
    """A job that nobody serves, with its log and its end. It has no body, since nothing may be sent again."""
    job_id, now = job_id_of(exchange.id), time.time()
    composer, frames = ResponsesComposer(Answer(job_id.removeprefix("resp_"), "auto", int(now))), LogFrames(job_id)
    log = frames.take(composer.open() + composer.text(text) + composer.close(Finish.STOP, None))
    assert log is not None
    queued: JsonObject = {**frames.response, "status": "queued", "output": [], "completed_at": None}
    job = Job(
        id=job_id,
        caller=exchange.caller,
        created_at=now,
        body=b"",
        headers={},
        queued=write_response(queued),
        key=exchange.arrival.key,
        session=session,
        title=" ".join(title.split())[:MAX_TITLE],
        tier=Tier.DEEP,
        state=JobState.RUNNING,
        attempt=1,
        owner=f"kept-{secrets.token_hex(16)}",
    )
    return job, log, JobEnding(JobState.COMPLETED, now, write_response(frames.response))


def keep_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers that say something of the client, its session and the trace, and those that ask something of the router."""
    return {name: mask_keys(value) for name, value in headers.items() if name in _KEPT or _is_asked_of_us(name)}


def _is_asked_of_us(name: str) -> bool:
    return name.startswith(PREFIX) and "key" not in name


def _headers(request_id: str, decided: Decided) -> Headers:
    """What is known of a request that waits: the tier that was chosen for it, and why."""
    decision = decided.decision
    return (
        *id_headers(request_id),
        ("x-tandem-tier", decision.tier),
        QUEUED,
        (BECAUSE, header_text(decision.because)),
        ("x-tandem-score", f"{decision.score:.3f}"),
    )
