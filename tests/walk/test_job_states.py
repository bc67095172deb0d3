"""Every state of a job on every route is a whole object, list or event: OpenAI's SDK reads it with strict validation."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import openai
import pytest
from openai import AsyncOpenAI
from openai.types.responses import Response

from tests.tools.background import SPEECH, begin, poll, speak_in_steps
from tests.tools.running import Running, one_dialect
from tests.tools.speech import Speech, speak
from tests.tools.upstream import Script, answer_json
from tests.tools.waiting import later

ONE_AT_A_TIME = "jobs: {most_for_a_caller: 1}\n"
SHARED = "shared: {postgres: {url: env:TANDEM_POSTGRES_URL, timeout_ms: 5000}}\n"
GIVEN = [{"role": "developer", "content": "be brief"}, {"role": "user", "content": "plan the migration"}]
STATUSES = {
    "queued": "queued",
    "running": "in_progress",
    "completed": "completed",
    "incomplete": "incomplete",
    "failed": "failed",
    "refused": "failed",
    "cancelled": "cancelled",
    "never begun": "cancelled",
}
UNFINISHED = ("queued", "running")
CONTINUED = ("completed", "incomplete")
LAST = {"failed": "response.failed", "cancelled": "response.incomplete", "incomplete": "response.incomplete"}
MANY = 1_000
UNKNOWN = {"error": {"message": "?", "code": "previous_response_not_found", "param": "previous_response_id"}}


class Case:
    """A job in a state, and the strict SDK at a router that may be another than the job's."""

    def __init__(self, tandem: Running, client: AsyncOpenAI, state: str, steps: asyncio.Semaphore) -> None:
        self.tandem, self.client, self.state, self._steps = tandem, client, state, steps
        self.id = ""

    @property
    def status(self) -> str:
        return STATUSES[self.state]

    def go_on(self) -> None:
        """Let targets that wait say all they have to say."""
        for _ in range(MANY):
            self._steps.release()

    async def read(self) -> Response:
        return await self.client.responses.retrieve(self.id)

    async def stream(self, **after: int) -> list:
        return [event async for event in await self.client.responses.retrieve(self.id, stream=True, **after)]

    async def reach(self, scripts: list[Script], dialect: str) -> None:
        """Bring a job into the state."""
        self.scripts = scripts
        held, cut = speak_in_steps(dialect, SPEECH, self._steps), Speech(SPEECH.text, is_cut=True)
        refusal = {"error": {"message": "no such knob", "type": "invalid_request_error", "code": "bad_knob"}}
        scripts[:] = {
            "completed": [speak(dialect, SPEECH)],
            "incomplete": [speak(dialect, cut)],
            "failed": [speak(dialect, SPEECH, ends=False)],
            "refused": [answer_json(refusal, 400)],
        }.get(self.state, [held])
        if self.state in ("queued", "never begun"):
            await begin(self.tandem, input="the one before")
        self.id = await begin(self.tandem, input=GIVEN)
        if self.state in ("running", "cancelled"):
            for _ in range(4):
                self._steps.release()
            await self._await_first_event()
        if self.status == "cancelled":
            await self.client.responses.cancel(self.id)
        if self.state not in UNFINISHED:
            await poll(self.tandem, self.id)

    async def _await_first_event(self) -> None:
        stream = await self.client.responses.retrieve(self.id, stream=True)
        await anext(aiter(stream))
        await stream.close()


@pytest.fixture(params=["chat", "responses"])
def dialect(request):
    return request.param


@pytest.fixture
async def reach(start, upstream, dialect):
    """Brings a job into a state, at one router."""
    async with contextlib.AsyncExitStack() as stack:

        async def bring(state: str) -> Case:
            tandem = await start(one_dialect(dialect, upstream.base_url, extra=ONE_AT_A_TIME))
            case = Case(tandem, await stack.enter_async_context(strict(tandem)), state, asyncio.Semaphore(0))
            stack.callback(case.go_on)
            await case.reach(upstream.scripts, dialect)
            return case

        yield bring


@contextlib.asynccontextmanager
async def strict(tandem: Running) -> AsyncIterator[AsyncOpenAI]:
    url = f"{tandem.url}/v1"
    async with AsyncOpenAI(base_url=url, api_key="-", max_retries=0, _strict_response_validation=True) as client:
        yield client


async def check_read(case: Case) -> None:
    response = await case.read()

    assert (response.id, response.status, response.background) == (case.id, case.status, True)
    assert (response.error is not None) is (case.status == "failed")
    assert (response.output != []) is (case.state in ("completed", "incomplete", "failed")) or case.state == "cancelled"
    if case.state == "refused":
        assert (response.error.code, response.error.reason) == ("invalid_prompt", "bad_knob")
    if case.state == "failed":
        assert (response.error.code, response.error.reason) == ("server_error", "upstream_cut")


async def check_stream(case: Case) -> None:
    reading = later(case.stream())
    case.go_on()
    events = await reading

    last, now = events[-1], await case.read()
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert last.type == LAST.get(case.status, "response.completed")
    assert (events[0].type, events[0].response.id, last.response) == ("response.created", case.id, now)


async def check_resumed(case: Case) -> None:
    reading = later(case.stream(starting_after=0))
    case.go_on()

    assert await reading == (await case.stream())[1:]


async def check_input(case: Case) -> None:
    page = await case.client.responses.input_items.list(case.id, order="asc")

    assert [(item.role, item.content[0].type, item.content[0].text) for item in page.data] == [
        (given["role"], "input_text", given["content"]) for given in GIVEN
    ]
    case.go_on()
    await poll(case.tandem, case.id)
    assert (await case.client.responses.input_items.list(case.id, order="asc")).data == page.data


async def check_continued(case: Case) -> None:
    ask = case.client.responses.create(model="auto", input="and then?", previous_response_id=case.id)
    if case.state in CONTINUED:
        assert (await ask).previous_response_id == case.id
        return
    case.scripts[:] = [answer_json(UNKNOWN, 400)]  # a target that may know it is asked

    with pytest.raises(openai.BadRequestError) as refused:
        await ask

    assert (refused.value.code, refused.value.param) == ("previous_response_not_found", "previous_response_id")


async def check_cancelled(case: Case) -> None:
    before = await case.read()

    cancelled = await case.client.responses.cancel(case.id)

    assert cancelled.status == ("cancelled" if case.state in UNFINISHED else case.status)
    assert case.state in UNFINISHED or cancelled == before
    assert await case.read() == cancelled
    assert (await case.stream())[-1].response == cancelled


async def check_deleted(case: Case) -> None:
    await case.client.responses.delete(case.id)

    for route in (case.read, case.stream, lambda: case.client.responses.input_items.list(case.id)):
        with pytest.raises(openai.NotFoundError):
            await route()


ROUTES = {
    "read": check_read,
    "stream": check_stream,
    "resume": check_resumed,
    "input_items": check_input,
    "continue": check_continued,
    "cancel": check_cancelled,
    "delete": check_deleted,
}


@pytest.mark.parametrize("state", UNFINISHED)
@pytest.mark.parametrize("route", ROUTES)
async def test_an_unfinished_job_is_whole_on_any_route(reach, state, route):
    await ROUTES[route](await reach(state))


@pytest.mark.parametrize("state", [state for state in STATUSES if state not in UNFINISHED])
async def test_a_finished_job_is_whole_on_every_route(reach, state):
    case = await reach(state)

    for check in ROUTES.values():
        await check(case)


@pytest.mark.parametrize("state", STATUSES)
@pytest.mark.parametrize("dialect", ["responses"], indirect=True)
async def test_a_job_in_any_state_is_whole_at_another_router(start, upstream, postgres, tmp_path, monkeypatch, dialect, state):
    monkeypatch.setenv("TANDEM_POSTGRES_URL", await postgres.create())
    config, routers = one_dialect(dialect, upstream.base_url, extra=ONE_AT_A_TIME + SHARED), []
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        routers.append(await start(config, tmp_path / name))
    async with strict(routers[1]) as client:
        case = Case(routers[0], client, state, asyncio.Semaphore(0))
        await case.reach(upstream.scripts, dialect)
        routes = ("cancel", "delete") if state in UNFINISHED else ROUTES

        for route in ("read", *routes):
            await ROUTES[route](case)
        case.go_on()
