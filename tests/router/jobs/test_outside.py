"""Jobs that are done outside of the router, and the pages by which a command keeps them."""

import pytest

from router.contract.caller import LOCAL
from router.contract.errors import JobGone, TooManyJobs
from router.contract.job import JobState
from router.dialects.responses.logged import parse_response
from router.jobs import outside
from router.stores.sqlite.jobs import MemoryJobs
from tests.conftest import SIMULATED
from tests.tools.background import begin as begin_job
from tests.tools.background import events_in, poll
from tests.tools.background import read_log as read_stream
from tests.tools.http import call
from tests.tools.jobs import MANY, Clock
from tests.tools.kept import ANN
from tests.tools.keyed import KEYS, Callers, swap

RUNNER = '\ndelegation: {runner: "agent exec"}\n'


@pytest.fixture
async def store():
    made = MemoryJobs(keep_seconds=86_400.0, clock=Clock(0.0))
    yield made
    await made.close()


async def begin(store, *log: str):
    job = outside.write_job("req_1", LOCAL, None, "fix it")
    number = await outside.begin(store, job, MANY, None)
    for text in log:
        number = await outside.write_log(store, job, number, text)
    return job, number


async def read_end(store) -> dict:
    return parse_response((await store.read_response("resp_1", LOCAL))[0])


def text_of(item: dict) -> str:
    return (item.get("summary") or item.get("content"))[0]["text"]


async def test_a_piece_of_the_log_that_comes_twice_is_kept_once(store):
    job, number = await begin(store, "one\n")
    for _ in range(2):
        after = await outside.write_log(store, job, number, "two\n")

    await outside.end(store, job, JobState.CANCELLED, after)

    response = await read_end(store)
    assert response["status"] == "cancelled"
    assert [text_of(item) for item in response["output"]] == ["one\ntwo\n"]


async def test_an_end_that_comes_twice_changes_nothing(store):
    job, number = await begin(store, "one\n")
    await outside.end(store, job, JobState.FAILED, number, error="exit status 1")
    before = await read_end(store)

    again = await outside.find_owned(store, job.id, LOCAL, job.owner)
    assert await outside.end(store, again, JobState.COMPLETED, number, change="diff")
    assert await outside.end(store, job, JobState.COMPLETED, number, change="diff") is False

    assert await read_end(store) == before
    assert before["error"] == {"code": "server_error", "message": "exit status 1", "reason": "agent_failed"}


async def test_nobody_else_can_write_to_it(store):
    job, number = await begin(store)

    for caller, owner in ((ANN, job.owner), (LOCAL, "outside-2"), (LOCAL, "")):
        with pytest.raises(JobGone):
            await outside.find_owned(store, job.id, caller, owner)
    await outside.end(store, job, JobState.COMPLETED, number)
    with pytest.raises(JobGone):
        await outside.write_log(store, job, number, "more\n")


async def test_a_caller_that_has_as_many_as_it_may_is_refused(store):
    await begin(store)

    with pytest.raises(TooManyJobs):
        await outside.begin(store, outside.write_job("req_2", LOCAL, None, "fix it"), MANY, 1)


@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_a_job_whose_command_is_gone_ends_with_the_log_that_it_had(store, is_cancelled):
    job, _ = await begin(store, "one\n")
    if is_cancelled:
        await store.cancel(job.id, LOCAL, outside.JobEnding(JobState.CANCELLED, 1.0, b"{}"))
    store._clock.now += outside.LEASE_SECONDS + 1
    lost = await store.claim("here:1:1", 15.0, MANY)

    await outside.end_lost(store, lost)

    response = await read_end(store)
    assert response["status"] == ("cancelled" if is_cancelled else "failed")
    assert is_cancelled or response["error"]["reason"] == "interrupted"
    assert [text_of(item) for item in response["output"]] == ["one\n"]


@pytest.fixture
async def tandem(start):
    return await start(SIMULATED + RUNNER)


async def begin_agent(tandem, headers=None, **more) -> dict:
    reply = await call(tandem.port, "/tandem/jobs", {"task": "fix the\n race", **more}, headers)
    assert reply.status == 200, reply
    return reply.json


async def test_a_job_is_kept_logged_and_ended_over_http(tandem):
    begun = await begin_agent(tandem)
    path, owned = f"/tandem/jobs/{begun['id']}", {"owner": begun["owner"]}

    logged = (await call(tandem.port, f"{path}/log", {**owned, "number": begun["number"], "text": "one\n"})).json
    listed = (await call(tandem.port, "/tandem/jobs")).json["data"]
    polled = (await call(tandem.port, f"/v1/responses/{begun['id']}")).json
    body = {**owned, "number": logged["number"], "state": "completed", "change": "diff"}
    ended = await call(tandem.port, f"{path}/end", body)

    assert (logged["is_cancelled"], listed[0]["state"], listed[0]["title"]) == (False, "running", "fix the race")
    assert polled["status"] == "in_progress"
    assert ended.json == {"id": begun["id"], "state": "completed"}
    events = events_in((await read_stream(tandem, begun["id"])).body)
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    response = events[-1]["response"]
    assert response["completed_at"] >= response["created_at"]
    assert [(item["type"], text_of(item)) for item in response["output"]] == [("reasoning", "one\n"), ("message", "diff")]
    assert {event["item_id"] for event in events if "summary_index" in event} == {response["output"][0]["id"]}
    assert response["output"][0]["id"].startswith("log_")
    assert response == (await call(tandem.port, f"/v1/responses/{begun['id']}")).json


async def test_the_task_is_the_one_input_item_whether_the_agent_works_or_has_ended(tandem):
    begun = await begin_agent(tandem)
    path = f"/v1/responses/{begun['id']}/input_items"

    working = await call(tandem.port, path)
    body = {"owner": begun["owner"], "number": begun["number"], "state": "completed"}
    await call(tandem.port, f"/tandem/jobs/{begun['id']}/end", body)
    ended = await call(tandem.port, path)

    assert working.status == 200, working
    (item,) = working.json["data"]
    assert (item["type"], item["role"], text_of(item)) == ("message", "user", "fix the\n race")
    assert ended.json == working.json


async def test_a_command_that_is_gone_is_found_by_the_runner_and_its_task_is_not_served(store, start):
    tandem = await start(SIMULATED + RUNNER)
    begun = await begin_agent(tandem)
    jobs = tandem.built.jobs.store
    job = await jobs.find(begun["id"], None)
    await jobs.renew(job, begun["owner"], -1.0)
    tandem.built.jobs.runner.wake()

    response = await poll(tandem, begun["id"])

    assert (response["status"], response["error"]["reason"]) == ("failed", "interrupted")
    assert "the command that ran the agent has stopped" in response["error"]["message"]


async def test_without_a_runner_in_the_config_nothing_is_kept(start):
    tandem = await start(SIMULATED)

    reply = await call(tandem.port, "/tandem/jobs", {"task": "fix it"})

    assert (reply.status, reply.json["error"]["code"]) == (403, "not_permitted")
    assert "delegation.runner is not set" in reply.json["error"]["message"]
    assert tandem.built.jobs.store is None


async def test_a_reload_allows_it(start):
    tandem = await start(SIMULATED)
    swap(tandem, SIMULATED + RUNNER)

    assert await begin_agent(tandem)


async def test_only_an_admin_may_keep_the_work_of_an_agent(start, tmp_path):
    callers = Callers(tmp_path, ada={"admin": True}, bob={})
    tandem = await start(SIMULATED + KEYS + RUNNER)
    begun = await begin_agent(tandem, callers["ada"])

    statuses = [
        (await call(tandem.port, path, {"task": "fix it", "owner": begun["owner"], "state": "completed"}, headers)).status
        for path in ("/tandem/jobs", f"/tandem/jobs/{begun['id']}/log", f"/tandem/jobs/{begun['id']}/end")
        for headers in (callers["bob"], {})
    ]

    assert statuses == [403, 401] * 3


async def test_a_key_without_the_right_to_delegate_is_refused(start, tmp_path):
    callers = Callers(tmp_path, ada={"admin": True, "may_delegate": False})
    tandem = await start(SIMULATED + KEYS + RUNNER)

    assert (await call(tandem.port, "/tandem/jobs", {"task": "fix it"}, callers["ada"])).status == 403


async def test_other_web_pages_are_refused(tandem):
    reply = await call(tandem.port, "/tandem/jobs", {"task": "fix it"}, {"origin": "https://evil.example"})

    assert reply.status == 403


async def test_a_request_with_background_is_never_an_agents(tandem):
    job_id = await begin_job(tandem, text="fix it", runner="rm", owner="outside-1")

    reply = await call(tandem.port, f"/tandem/jobs/{job_id}/log", {"owner": "", "text": "x"})

    assert reply.status == 404


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("", {}, "task"),
        ("", {"task": ""}, "task"),
        ("", {"task": 7}, "task"),
        ("/ID/log", {"owner": 1}, "owner"),
        ("/ID/log", {"number": -1}, "number"),
        ("/ID/log", {"number": True}, "number"),
        ("/ID/log", {"number": 1 << 60}, "number"),
        ("/ID/log", {"text": ["x"]}, "text"),
        ("/ID/end", {}, "state"),
        ("/ID/end", {"state": "running"}, "state"),
        ("/ID/end", {"state": ["completed"]}, "state"),
        ("/ID/end", {"state": "failed", "change": None}, "change"),
    ],
)
async def test_what_is_not_of_its_kind_is_named(tandem, path, body, param):
    begun = await begin_agent(tandem)
    sent = {"owner": begun["owner"], **body} if path else body

    reply = await call(tandem.port, f"/tandem/jobs{path.replace('ID', begun['id'])}", sent)

    assert (reply.status, reply.json["error"]["param"]) == (400, param)


async def test_half_a_character_breaks_nothing(tandem):
    begun = await begin_agent(tandem)
    body = b'{"owner": "%b", "number": 5, "text": "\\ud800"}' % begun["owner"].encode()

    reply = await call(tandem.port, f"/tandem/jobs/{begun['id']}/log", body, {"content-type": "application/json"})

    assert reply.status in (200, 400)
