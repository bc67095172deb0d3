"""What the tools of `tandem mcp` do, without the protocol."""

import time
from collections.abc import Callable
from typing import NamedTuple

from router.cli.asking import Refused, Unreachable
from router.cli.background import Jobs, TaskRefused, find_agent_session, is_over, text_of, why_it_ended, write_request
from router.cli.figures import duration
from router.cli.mcp_tools import MOST_WAIT_SECONDS, USUAL_WAIT_SECONDS, Tool
from router.contract.job import JobState
from router.contract.request import JsonObject

_POLL_SECONDS, _PROGRESS_SECONDS = 1.0, 3.0
_TITLE_LETTERS = 100

Report = Callable[[float, str], None]
"""Takes a number that grows and the state of the task, while the client waits for an answer."""
Pause = Callable[[float], None]


class Answer(NamedTuple):
    text: str
    is_error: bool = False


class Delegation:
    def __init__(self, jobs: Jobs, clock: Callable[[], float] = time.monotonic) -> None:
        self._jobs, self._clock = jobs, clock

    def call(
        self,
        tool: Tool,
        given: JsonObject,
        sent: JsonObject | None = None,
        report: Report = lambda *_: None,
        pause: Pause = time.sleep,
    ) -> Answer:
        """Errors are answers, since the model can react to them. `sent` is the `_meta` of the call."""
        if problem := _find_problem(tool, given):
            return Answer(problem, is_error=True)
        try:
            return Answer(self._run(tool.name, given, sent, report, pause))
        except TaskRefused as error:
            return Answer(f"{error}. Send less: only what the task needs to see.", is_error=True)
        except Unreachable as error:
            return Answer(f"no router answers at {self._jobs.url}: {error}. Is `tandem serve` running?", is_error=True)
        except Refused as error:
            owner = self._jobs.find_owner(str(given["id"])) if _is_missing(error, given) else ""
            return Answer(_explain(error, given, owner), is_error=True)

    def _run(self, name: str, given: JsonObject, sent: JsonObject | None, report: Report, pause: Pause) -> str:
        job_id, jobs = str(given.get("id", "")), self._jobs
        if name == "delegate":
            return self._delegate(str(given["task"]), str(given.get("context") or ""), find_agent_session(sent))
        if name == "check":
            return _describe(jobs.find(job_id))
        if name == "collect":
            wait = given.get("wait_seconds", USUAL_WAIT_SECONDS)
            return self._collect(job_id, float(wait) if isinstance(wait, int | float) else 0.0, report, pause)
        if name == "cancel":
            return f"{job_id} is {jobs.cancel(job_id).get('status')}."
        return "\n".join(map(_describe, jobs.list_jobs().jobs)) or "There are no delegated tasks."

    def _delegate(self, task: str, context: str, session: str) -> str:
        quoted = [("Context", context)] if context.strip() else []
        job_id = self._jobs.start(write_request(task, quoted), session)["id"]
        then = f'go on, and call collect with id "{job_id}" when you need the result.'
        return f"Started {job_id}. It works in the background: {then}"

    def _collect(self, job_id: str, wait_seconds: float, report: Report, pause: Pause) -> str:
        began = reported = self._clock()
        until = began + min(max(wait_seconds, 0.0), MOST_WAIT_SECONDS)
        while not is_over(job := self._jobs.find(job_id)):
            now = self._clock()
            if (left := until - now) <= 0:
                return f"{_describe(job)}\nIt is not finished. Go on with something else, or call collect again to wait longer."
            if now - reported >= _PROGRESS_SECONDS:
                reported = now
                report(round(now - began, 1), _describe(job))
            pause(min(_POLL_SECONDS, left))
        return _write_result(self._jobs.read(job_id))


def _write_result(response: JsonObject) -> str:
    state, text, why = str(response.get("status")), text_of(response), why_it_ended(response)
    if state == JobState.COMPLETED:
        return text or "The task completed with an empty answer."
    head = f"The task ended as {state}{f': {why}' if why else ''}."
    return f"{head} What it had written until then:\n\n{text}" if text else f"{head} It had written nothing."


def _describe(job: JsonObject) -> str:
    began, ended = job.get("created_at"), job.get("ended_at")
    known = [str(job.get("state"))]
    if tier := job.get("tier"):
        known.append(f"on {tier}")
    if isinstance(began, int | float):
        known.append(
            f"took {duration(ended - began)}" if isinstance(ended, int | float) else f"for {duration(time.time() - began)}"
        )
    title = " ".join(str(job.get("title") or "").split())[:_TITLE_LETTERS]
    about = f"Task: {title}" if title else f"Caller: {job.get('caller')}"
    return f"{job.get('id')}: {', '.join(known)}. {about}"


def _find_problem(tool: Tool, given: JsonObject) -> str:
    for name in tool.required:
        if not isinstance(given.get(name), str) or not str(given[name]).strip():
            return f"{tool.name} needs {name}, a text that is not empty"
    if strange := sorted(set(given) - set(tool.arguments)):
        known = ", ".join(tool.arguments) or "no arguments"
        return f"{tool.name} has no argument {strange[0]}. It takes: {known}"
    return ""


def _is_missing(error: Refused, given: JsonObject) -> bool:
    return error.status == 404 and bool(given.get("id"))


def _explain(error: Refused, given: JsonObject, owner: str) -> str:
    if owner:
        return f"{given['id']} is a task of another caller, {owner}, who alone can collect and cancel it"
    if _is_missing(error, given):
        return f"there is no delegated task {given['id']}: list shows those that are kept"
    if error.status == 401:
        return "the router needs a key, or does not accept the one that `tandem mcp --key-env` names"
    return str(error)
