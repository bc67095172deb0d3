"""Responses by HTTP: read, delete or cancel one by its id, also while its job runs; and the list of jobs."""

import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import partial

from router.contract.caller import Caller
from router.contract.digits import parse_exactly
from router.contract.errors import BadRequest, JobGone, JobsUnavailable, NotFound, RateLimited
from router.contract.exchange import work_here
from router.contract.job import FINAL, Job, JobEnding, JobState, JobStore
from router.contract.keys import rights_of
from router.contract.request import Json, JsonObject
from router.contract.rights import NOTHING
from router.contract.stores import StoredResponse, StoreUnusable
from router.dialects.fields import as_object
from router.dialects.responses.background import with_status
from router.dispatch.passed_headers import STREAM_HEADERS
from router.edge.control.panel import Answer, Asked, Page, as_json
from router.house import House
from router.jobs.jobs import Jobs
from router.jobs.tail import follow
from router.responses.items import list_items
from router.responses.resume import find_given

_JOBS = "/tandem/jobs"
_ONE = f"{_JOBS}/{{response_id}}"
_RESPONSE = "/v1/responses/{response_id}"
_MAX_ITEMS, _DEFAULT_ITEMS = 100, 20
_POLL_MS = 1_000, 5_000
_POLL_PART = 100
"""A client is told to come back after a tenth of the time for which the job has been there, within these bounds."""
_MAX_POLLS, _POLLS_SECONDS, _MAX_POLLED = 20, 1.0, 1_000
_CANCEL_SECONDS = 1.5


class Polls:
    """Refuses clients that ask for the same job again and again without a pause."""

    def __init__(self) -> None:
        self._asked: dict[str, deque[float]] = {}

    def count(self, job_id: str, now: float) -> None:
        """Raises `RateLimited` for one poll too many within a second."""
        if len(self._asked) >= _MAX_POLLED:
            self._asked = {name: asked for name, asked in self._asked.items() if asked[-1] > now - _POLLS_SECONDS}
        asked = self._asked.setdefault(job_id, deque(maxlen=_MAX_POLLS))
        if len(asked) == _MAX_POLLS and asked[0] > now - _POLLS_SECONDS:
            words = f"{_MAX_POLLS} polls of this response in a second. Wait as long as openai-poll-after-ms says, or stream it"
            raise RateLimited(words, retry_after_seconds=_POLLS_SECONDS)
        asked.append(now)


class Responses:
    """Shows each caller the responses that are stored for it, and those that a job is still making."""

    def __init__(self, house: House, jobs: Jobs) -> None:
        self._house, self._responses, self._jobs, self._polls = house, house.state.responses, jobs, Polls()
        pages = (
            Page(_RESPONSE, self._retrieve),
            Page(_RESPONSE, self._delete, ("DELETE",)),
            Page(f"{_RESPONSE}/cancel", self._cancel, ("POST",)),
            Page(f"{_RESPONSE}/input_items", self._list_input),
            Page(_JOBS, self._list),
            Page(_ONE, self._show),
            Page(f"{_ONE}/cancel", self._cancel_listed, ("POST",)),
        )
        self.pages = tuple(page._replace(answer=partial(answer_or_refuse, page.answer)) for page in pages)

    async def _find_stored(self, asked: Asked) -> StoredResponse:
        response_id = asked.path["response_id"]
        response = await self._responses.find(response_id, asked.caller)
        if response is None:
            raise _unknown(response_id)
        return response

    async def _find_job(self, asked: Asked, *, to_read: bool = False) -> tuple[JobStore, Job] | None:
        """A job that the caller may read. None: whatever has this id is not one, or can be read without the store of jobs."""
        response_id = asked.path["response_id"]
        try:
            store = await self._jobs.find(self._house)
            job = await store.find(response_id, asked.whose_jobs) if store is not None else None
        except StoreUnusable:
            is_enough = to_read or self._jobs.store is None  # a file of another router has nothing of ours
            if not is_enough or await self._responses.find(response_id, asked.caller) is None:
                raise
            return None
        return (store, job) if store is not None and job is not None else None

    async def _retrieve(self, asked: Asked) -> Answer:
        found = await self._find_job(asked, to_read=True)
        is_streamed = asked.query.get("stream", "false").lower() not in ("false", "0")
        if found is None:
            stored = await self._find_stored(asked)
            if is_streamed:
                raise BadRequest("stream: not supported for a response without background: true. Leave it out", param="stream")
            return as_json((await self._house.state.speedups.off_loop(StoredResponse.read, stored))[1])
        store, job = found
        if is_streamed:
            after = _read_after(asked.query.get("starting_after"))
            frames = follow(store, job.id, job.caller, after, partial(self._is_cut_off, asked))
            return Answer(frames, dict(STREAM_HEADERS)["content-type"], headers=_NO_CACHE)
        self._polls.count(job.id, time.monotonic())
        if job.state in FINAL and not job.is_collected:
            await store.collected(job.id)
        return await _show_response(store, job)

    async def _cancel(self, asked: Asked) -> Answer:
        found = await self._find_job(asked)
        if found is None:
            await self._find_stored(asked)
            # Not a job: what is stored is finished. In OpenAI's words, since clients look for them.
            raise BadRequest("Cannot cancel a synchronous response")
        store, job = found
        if job.state not in FINAL:
            job = await self._cancel_job(store, job)
        return await _show_response(store, job)

    def _is_cut_off(self, asked: Asked) -> bool:
        """Whether a stream must end: the router is shutting down, or the reader's key no longer works."""
        rights = rights_of(self._house.plan.keys, asked.caller, asked.key, time.time())
        return rights is NOTHING or self._jobs.is_stopping()

    async def _cancel_listed(self, asked: Asked) -> Answer:
        """Cancel a job that the caller sees in the list: an admin another caller's, which `?caller=` names."""
        (store, job), name = await self._find_listed(asked), asked.query.get("caller")
        if job.caller.name != name if name else not asked.may_read(job.caller):
            raise _no_job(job.id)
        if job.state not in FINAL:
            job = await self._cancel_job(store, job)
        return as_json(_describe(job, {}, asked))

    async def _cancel_job(self, store: JobStore, job: Job) -> Job:
        """Cancel a job wherever it runs, and wait a moment for its owner. One that runs here hangs up before anything else."""
        watch, until = store.watch(job.id), time.monotonic() + _CANCEL_SECONDS
        ending = JobEnding(JobState.CANCELLED, time.time(), with_status(job.queued, "cancelled"))
        try:
            if self._jobs.runner is None or not await self._jobs.runner.cancel(job.id, _CANCEL_SECONDS):
                job = await store.cancel(job.id, job.caller, ending) or job
            while (found := await store.find(job.id, job.caller)) is not None and found.state not in FINAL:
                if (left := until - time.monotonic()) <= 0:
                    break
                await watch.wait(left)
            return found or job
        finally:
            watch.close()

    async def _delete(self, asked: Asked) -> Answer:
        found = await self._find_job(asked)
        response_id, caller = asked.path["response_id"], asked.caller
        if found is not None:
            store, job = found
            caller = job.caller
            await store.forget(response_id, caller)
            if self._jobs.runner is not None:
                self._jobs.runner.drop(response_id)
        if not await self._responses.forget(response_id, caller) and found is None:
            raise _unknown(response_id)
        return as_json({"id": response_id, "object": "response", "deleted": True})

    async def _list_input(self, asked: Asked) -> Answer:
        order = asked.query.get("order", "desc")
        if order not in ("asc", "desc"):
            raise BadRequest(f'order: must be asc or desc, not "{order[:20]}"', param="order")
        limit, items = read_limit(asked.query.get("limit")), await self._find_input(asked)
        after, response_id = asked.query.get("after"), asked.path["response_id"]
        return as_json(list_items(response_id, items, after, limit, newest_first=order == "desc"))

    async def _find_input(self, asked: Asked) -> list[Json]:
        """What a response was given. A finished one is stored with it; of other jobs, the request has it."""
        found = await self._find_job(asked, to_read=True)
        response_id, caller = asked.path["response_id"], found[1].caller if found is not None else asked.caller
        if (stored := await self._responses.find(response_id, caller)) is not None:
            return (await self._house.state.speedups.off_loop(StoredResponse.read, stored))[0].items
        if found is None:
            raise _unknown(response_id)
        if not (body := await found[0].find_body(response_id, caller)):
            raise NotFound(f"What response '{response_id[:80]}' was given is not kept", param="response_id")
        return await find_given(as_object(parse_exactly(body)), caller, self._responses, work_here)

    async def _list(self, asked: Asked) -> Answer:
        state, limit = _read_state(asked.query.get("state")), read_limit(asked.query.get("limit"))
        store = await self._jobs.find(self._house)
        if store is None:
            return as_json({"object": "list", "data": [], "before": None})
        page = await store.list_jobs(_whose(asked), state, limit, asked.query.get("before"))
        dead = await _find_dead(store)
        return as_json({"object": "list", "data": [_describe(job, dead, asked) for job in page.jobs], "before": page.before})

    async def _show(self, asked: Asked) -> Answer:
        store, job = await self._find_listed(asked)
        return as_json(_describe(job, await _find_dead(store), asked))

    async def _find_listed(self, asked: Asked) -> tuple[JobStore, Job]:
        """A job that the caller sees in the list. Raises `JobGone`."""
        store, job_id = await self._jobs.find(self._house), asked.path["response_id"]
        job = await store.find(job_id, _whose(asked)) if store is not None else None
        if store is None or job is None:
            raise _no_job(job_id)
        return store, job


_NO_CACHE = {"cache-control": "no-cache"}


def _whose(asked: Asked) -> Caller | None:
    """Whose jobs are listed: an admin sees all."""
    return None if asked.rights.is_admin else asked.caller


async def _show_response(store: JobStore, job: Job) -> Answer:
    """The response as it is now. What a running job has said so far is in its stream alone.

    To hand out some of it here would mean that the job cannot be begun again after a crash (`docs/use/background-jobs.md`).
    """
    if job.state in FINAL:
        part, size = await store.read_response(job.id, None)
        if len(part) == size:
            return Answer(part)
        return Answer(_read_on(store, job.id, part, size), headers={"content-length": str(size)})
    status = "cancelled" if job.is_cancelled else "queued" if job.state is JobState.QUEUED else "in_progress"
    age_seconds = time.time() - job.created_at
    least, most = _POLL_MS
    headers = {"openai-poll-after-ms": str(round(min(max(age_seconds * _POLL_PART, least), most)))}
    return Answer(with_status(job.queued, status), headers=headers)


async def _read_on(store: JobStore, job_id: str, part: bytes, size: int) -> AsyncIterator[bytes]:
    """A large response, read as fast as its caller takes it."""
    start = 0
    while part:
        yield part
        start += len(part)
        if start == size:
            return
        part, _ = await store.read_response(job_id, None, start)
    raise JobGone(f"background job '{job_id}' was deleted while its response was read", param="response_id")


async def _find_dead(store: JobStore) -> Mapping[str, list[Json]]:
    """The events that no webhook took, by the job that they are about."""
    dead: dict[str, list[Json]] = {}
    for event in await store.list_dead():
        dead.setdefault(event.job_id, []).append(event.event)
    return dead


def _describe(job: Job, dead: Mapping[str, list[Json]], asked: Asked) -> JsonObject:
    """A job in a list. Its title is the beginning of what was asked, which an admin does not see of other callers' jobs."""
    return {
        "id": job.id,
        "state": job.state,
        "tier": job.tier,
        "title": job.title if asked.may_read(job.caller) else "",
        "session": job.session,
        "caller": job.caller.name,
        "attempts": job.attempt,
        "created_at": job.created_at,
        "ended_at": job.ended_at,
        "is_collected": job.is_collected,
        "undelivered": dead.get(job.id, []),
    }


def read_limit(text: str | None) -> int:
    if text is None:
        return _DEFAULT_ITEMS
    limit = int(text) if text.isascii() and text.isdigit() and len(text) < 5 else 0
    if not 1 <= limit <= _MAX_ITEMS:
        raise BadRequest(f'limit: must be 1 to {_MAX_ITEMS}, not "{text[:20]}"', param="limit")
    return limit


def _unknown(response_id: str) -> NotFound:
    return NotFound(
        f"Response with id '{response_id[:80]}' not found: never stored, deleted or expired",
        param="response_id",
    )


def _no_job(job_id: str) -> JobGone:
    return JobGone(f"no background job '{job_id[:80]}' is kept for this caller", param="response_id")


def _read_after(text: str | None) -> int:
    if text is None:
        return -1
    if not (text.isascii() and text.isdigit() and len(text) < 16):
        raise BadRequest(f'starting_after: must be a sequence number, not "{text[:20]}"', param="starting_after")
    return int(text)


def _read_state(text: str | None) -> JobState | None:
    if not text:
        return None
    try:
        return JobState(text)
    except ValueError:
        raise BadRequest(f'state: must be one of {", ".join(JobState)}, not "{text[:20]}"', param="state") from None


async def answer_or_refuse(page: Callable[[Asked], Awaitable[Answer]], asked: Asked) -> Answer:
    """What a page answers, or that its store cannot be used now."""
    try:
        return await page(asked)
    except StoreUnusable as error:
        raise JobsUnavailable(f"background jobs cannot be read now: {error.for_callers}", retry_after_seconds=1.0) from error
