"""The pages by which `tandem delegate --with-hands` keeps the work of an agent as a job. For admins, where a runner is set."""

from collections.abc import Awaitable, Callable
from functools import partial

from router.contract.caller import LOCAL
from router.contract.errors import BadRequest, JobGone, NotPermitted
from router.contract.job import FINAL, Job, JobState
from router.contract.limits import Limits
from router.contract.request import JsonObject
from router.edge.control.bodies import read_small_body
from router.edge.control.panel import Answer, Asked, Page, as_json
from router.house import House
from router.jobs import outside
from router.jobs.desk import MAX_TITLE
from router.jobs.jobs import Jobs
from router.jobs.panel import answer_or_refuse

MAX_BODY_BYTES = 16 << 20
_MAX_NUMBER = 1 << 40
_JOBS = "/tandem/jobs"
_ONE = f"{_JOBS}/{{response_id}}"
_ENDS = (JobState.COMPLETED, JobState.FAILED, JobState.CANCELLED)


class OutsideJobs:
    """Takes a job, its log and its end."""

    def __init__(self, house: House, jobs: Jobs, limits: Callable[[], Limits]) -> None:
        self._house, self._jobs, self._limits = house, jobs, limits
        given: tuple[tuple[str, Callable[[Asked, JsonObject], Awaitable[Answer]]], ...] = (
            (_JOBS, self._begin),
            (f"{_ONE}/log", self._write_log),
            (f"{_ONE}/end", self._end),
        )
        self.pages = tuple(
            Page(path, partial(answer_or_refuse, partial(self._read, answer)), ("POST",), needs_admin=True)
            for path, answer in given
        )

    async def _read(self, answer: Callable[[Asked, JsonObject], Awaitable[Answer]], asked: Asked) -> Answer:
        """Check who asks, and read what is sent."""
        if not self._house.plan.jobs.takes_agents:
            raise NotPermitted("no agent may be run: delegation.runner is not set in the config of this router")
        if asked.key is None and asked.caller != LOCAL:
            raise NotPermitted("only an admin may keep the work of an agent as a job")
        return await answer(asked, await read_small_body(asked, self._limits(), MAX_BODY_BYTES))

    async def _begin(self, asked: Asked, body: JsonObject) -> Answer:
        title = " ".join(_text(body, "task").split())
        if not title:
            raise BadRequest("task: must not be empty", param="task")
        if not asked.rights.may_delegate:
            raise NotPermitted("this key does not have the right to delegate work (may_delegate)")
        store = await self._jobs.open()
        job = outside.write_job(asked.request_id, asked.caller, asked.key, title[:MAX_TITLE])
        number = await outside.begin(store, job, asked.rights.jobs_in_flight)
        if self._jobs.runner is not None:
            self._jobs.runner.wake()
        return as_json({"id": job.id, "owner": job.owner, "number": number})

    async def _write_log(self, asked: Asked, body: JsonObject) -> Answer:
        job = await self._find(asked, body)
        if job.state in FINAL:
            raise JobGone(f"background job '{job.id}' is over", param="response_id")
        number = await outside.write_log(await self._jobs.open(), job, _number(body), _text(body, "text"))
        return as_json({"number": number, "is_cancelled": job.is_cancelled})

    async def _end(self, asked: Asked, body: JsonObject) -> Answer:
        state = body.get("state")
        if state not in _ENDS:
            raise BadRequest(f"state: must be one of {', '.join(_ENDS)}", param="state")
        job = await self._find(asked, body)
        change, error = _text(body, "change"), _text(body, "error")
        store = await self._jobs.open()
        if not await outside.end(store, job, JobState(state), _number(body), change=change, error=error):
            raise JobGone(f"background job '{job.id}' is no longer leased to this command", param="response_id")
        return as_json({"id": job.id, "state": state})

    async def _find(self, asked: Asked, body: JsonObject) -> Job:
        return await outside.find_owned(await self._jobs.open(), asked.path["response_id"], asked.caller, _text(body, "owner"))


def _text(body: JsonObject, name: str) -> str:
    value = body.get(name, "")
    if not isinstance(value, str):
        raise BadRequest(f"{name}: must be a string", param=name)
    return value


def _number(body: JsonObject) -> int:
    value = body.get("number", 0)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < _MAX_NUMBER:
        raise BadRequest("number: must be a sequence number", param="number")
    return value
