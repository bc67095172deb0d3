"""The pages by which the work of an agent is kept as a job."""

import pytest

from tests.conftest import SIMULATED
from tests.tools.background import begin, events_in, read_log
from tests.tools.http import call
from tests.tools.keyed import KEYS, Callers, swap

RUNNER = '\ndelegation: {runner: "agent exec"}\n'


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
    events = events_in((await read_log(tandem, begun["id"])).body)
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert events[-1]["response"] == (await call(tandem.port, f"/v1/responses/{begun['id']}")).json


async def test_a_cancelled_job_is_reported_to_its_command(tandem):
    begun = await begin_agent(tandem)
    cancelled = (await call(tandem.port, f"/v1/responses/{begun['id']}/cancel", {})).json

    logged = (await call(tandem.port, f"/tandem/jobs/{begun['id']}/log", {"owner": begun["owner"]})).json

    assert cancelled["status"] == "cancelled"
    assert logged["is_cancelled"]


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


async def test_another_admin_cannot_write_to_it(start, tmp_path):
    callers = Callers(tmp_path, ada={"admin": True}, eve={"admin": True})
    tandem = await start(SIMULATED + KEYS + RUNNER)
    begun = await begin_agent(tandem, callers["ada"])

    body = {"owner": begun["owner"], "text": "mine"}
    assert (await call(tandem.port, f"/tandem/jobs/{begun['id']}/log", body, callers["eve"])).status == 404


async def test_a_key_without_the_right_to_delegate_is_refused(start, tmp_path):
    callers = Callers(tmp_path, ada={"admin": True, "may_delegate": False})
    tandem = await start(SIMULATED + KEYS + RUNNER)

    assert (await call(tandem.port, "/tandem/jobs", {"task": "fix it"}, callers["ada"])).status == 403


async def test_other_web_pages_are_refused(tandem):
    reply = await call(tandem.port, "/tandem/jobs", {"task": "fix it"}, {"origin": "https://evil.example"})

    assert reply.status == 403


async def test_a_request_with_background_is_never_an_agents(tandem):
    job_id = await begin(tandem, text="fix it", runner="rm", owner="outside-1")

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
