"""The tools that `tandem mcp` offers to coding agents, without the protocol."""

import asyncio
import importlib.util
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple

from router.cli.asking import Refused, Unreachable
from router.cli.background import Jobs, TaskRefused, is_over, text_of, why_it_ended, write_request
from router.contract.job import JobState
from router.contract.request import JsonObject
from router.screen.figures import duration

INSTRUCTIONS = (
    "Tandem works on delegated tasks in the background, on its deep tier, while you go on. A delegated task has no hands: it"
    " cannot read files, run commands or search. It plans, reviews and analyses what you give it. Delegate what takes long"
    " thinking (a design, a review of a large change, the cause of a hard bug), quote in `context` everything that it must see,"
    " go on with other work, and collect the result before you need it."
)
MOST_WAIT_SECONDS = 50
"""Clients time tools out: Codex after 60 seconds."""
PACKAGE_HINT = "pip install 'tandem-router[mcp]', or pip install mcp into the environment that tandem is in"
_WAIT_SECONDS, _POLL_SECONDS, _PROGRESS_SECONDS = 30, 1.0, 3.0
_TITLE_LETTERS = 100
_ID: JsonObject = {"type": "string", "description": "The id that delegate returned."}


def has_package() -> bool:
    """Whether the protocol's package is installed. Importing it would take a second."""
    return importlib.util.find_spec("mcp") is not None


Report = Callable[[float, str], Awaitable[None]]
"""Takes a number that grows and the state of the task, while the client waits for an answer."""


async def _report_nothing(_: float, __: str) -> None: ...


class UnknownTool(Exception):
    """The client asked for a tool that is not listed."""


class Answer(NamedTuple):
    text: str
    is_error: bool = False


class Tool(NamedTuple):
    name: str
    title: str
    description: str
    arguments: Mapping[str, JsonObject]
    required: tuple[str, ...]
    only_reads: bool

    @property
    def schema(self) -> JsonObject:
        return {
            "type": "object",
            "properties": dict(self.arguments),
            "required": list(self.required),
            "additionalProperties": False,
        }


TOOLS = (
    Tool(
        "delegate",
        "Delegate a task",
        "Hand a task to a second model that works in the background, and go on at once. Returns an id for collect."
        " The task has no hands: it cannot open files, run commands or ask you. It plans, reviews and analyses what is in"
        " `task` and `context`, so put everything it must see there, such as the code, the diff or the error, in full.",
        {
            "task": {"type": "string", "description": "What to do and what to answer with, in full sentences."},
            "context": {
                "type": "string",
                "description": "What the task must see: contents of files with their names, diffs, output of commands.",
            },
        },
        ("task",),
        only_reads=False,
    ),
    Tool(
        "check",
        "Check a delegated task",
        "Report how far a delegated task is, without waiting: queued, running, completed, incomplete, failed or cancelled.",
        {"id": _ID},
        ("id",),
        only_reads=True,
    ),
    Tool(
        "collect",
        "Collect a result",
        "Return the result of a delegated task. While it is still running, wait for it for up to wait_seconds; if it takes"
        " longer, that is reported, and you can go on and collect it later. Nothing is lost by waiting or by asking again.",
        {
            "id": _ID,
            "wait_seconds": {
                "type": "integer",
                "minimum": 0,
                "maximum": MOST_WAIT_SECONDS,
                "default": _WAIT_SECONDS,
                "description": f"How long to wait for a task that is still running, 0 to {MOST_WAIT_SECONDS}.",
            },
        },
        ("id",),
        only_reads=True,
    ),
    Tool(
        "cancel",
        "Cancel a delegated task",
        "Stop a delegated task whose result is no longer wanted. One that is over stays as it is.",
        {"id": _ID},
        ("id",),
        only_reads=False,
    ),
    Tool(
        "list",
        "List delegated tasks",
        "List the newest delegated tasks with their ids and states, also those of earlier sessions.",
        {},
        (),
        only_reads=True,
    ),
)


class Delegation:
    """The router is asked in threads."""

    def __init__(
        self,
        jobs: Jobs,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._jobs, self._sleep, self._clock = jobs, sleep, clock

    async def call(self, name: str, given: JsonObject, session: str = "", report: Report = _report_nothing) -> Answer:
        """Errors are answers, since the model can react to them. Only a tool that is not listed raises `UnknownTool`."""
        tool = next((tool for tool in TOOLS if tool.name == name), None)
        if tool is None:
            raise UnknownTool(f"unknown tool: {name}")
        if problem := _find_problem(tool, given):
            return Answer(problem, is_error=True)
        try:
            return Answer(await self._run(name, given, session, report))
        except TaskRefused as error:
            return Answer(f"{error}. Send less: only what the task needs to see.", is_error=True)
        except Unreachable as error:
            return Answer(f"no router answers at {self._jobs.url}: {error}. Is `tandem serve` running?", is_error=True)
        except Refused as error:
            owner = await asyncio.to_thread(self._jobs.find_owner, str(given["id"])) if _is_missing(error, given) else ""
            return Answer(_explain(error, given, owner), is_error=True)

    async def _run(self, name: str, given: JsonObject, session: str, report: Report) -> str:
        job_id, jobs = str(given.get("id", "")), self._jobs
        if name == "delegate":
            return await self._delegate(str(given["task"]), str(given.get("context") or ""), session)
        if name == "check":
            return _describe(await asyncio.to_thread(jobs.find, job_id))
        if name == "collect":
            wait = given.get("wait_seconds", _WAIT_SECONDS)
            return await self._collect(job_id, float(wait) if isinstance(wait, int | float) else 0.0, report)
        if name == "cancel":
            return f"{job_id} is {(await asyncio.to_thread(jobs.cancel, job_id)).get('status')}."
        found = (await asyncio.to_thread(jobs.list_jobs)).jobs
        return "\n".join(_describe(job) for job in found) or "There are no delegated tasks."

    async def _delegate(self, task: str, context: str, session: str) -> str:
        quoted = [("Context", context)] if context.strip() else []
        job_id = (await asyncio.to_thread(self._jobs.start, write_request(task, quoted), session))["id"]
        then = f'go on, and call collect with id "{job_id}" when you need the result.'
        return f"Started {job_id}. It works in the background: {then}"

    async def _collect(self, job_id: str, wait_seconds: float, report: Report) -> str:
        began = reported = self._clock()
        until = began + min(max(wait_seconds, 0.0), MOST_WAIT_SECONDS)
        while not is_over(job := await asyncio.to_thread(self._jobs.find, job_id)):
            now = self._clock()
            if (left := until - now) <= 0:
                return f"{_describe(job)}\nIt is not finished. Go on with something else, or call collect again to wait longer."
            if now - reported >= _PROGRESS_SECONDS:
                reported = now
                await report(round(now - began, 1), _describe(job))
            await self._sleep(min(_POLL_SECONDS, left))
        return _write_result(await asyncio.to_thread(self._jobs.read, job_id))


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
