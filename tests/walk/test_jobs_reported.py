"""A job's result is reported to webhooks, to its session's answers and in figures."""

import asyncio

import pytest

from router.cli.background import Jobs
from router.cli.watching import follow_to_the_end
from router.jobs.webhooks import sign
from tests.conftest import SIMULATED
from tests.tools.http import call
from tests.tools.upstream import answer_json
from tests.tools.waiting import until

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
QUICK = "fix the typo in README.md"
SESSION = {"x-tandem-session": "mine"}


async def create(tandem, headers=SESSION, **more):
    reply = await call(tandem.port, "/v1/responses", {"model": "auto", "input": QUICK, **more}, headers)
    assert reply.status == 200
    return reply


async def run_job(tandem, headers=SESSION):
    """Run a job without collecting it."""
    reply = await create(tandem, headers, background=True)
    name = reply.json["id"]
    while name not in [job["id"] for job in (await call(tandem.port, "/tandem/stats")).json["jobs"]]:
        pass
    return name


async def test_a_job_whose_end_was_waited_for_is_collected(start):
    tandem = await start(SIMULATED)
    reply = await create(tandem, background=True)
    jobs = Jobs(f"http://127.0.0.1:{tandem.port}")

    await asyncio.to_thread(follow_to_the_end, jobs, reply.json["id"], lambda name, event: None)

    assert (await call(tandem.port, f"/tandem/jobs/{reply.json['id']}")).json["is_collected"]
    assert "x-tandem-jobs" not in (await create(tandem)).headers


@pytest.mark.parametrize(
    ("more", "headers", "tier"),
    [
        ({"background": True}, {}, "deep"),
        ({}, {}, "fast"),
        ({"background": True}, {"x-tandem-tier": "fast"}, "fast"),
        ({"background": True, "model": "fast"}, {}, "fast"),
        ({"background": True, "input": f"tier: fast\n{QUICK}"}, {}, "fast"),
    ],
)
async def test_background_work_goes_to_deep_unless_somebody_insists(start, more, headers, tier):
    tandem = await start(SIMULATED)

    assert (await create(tandem, headers, **more)).headers["x-tandem-tier"] == tier


async def test_a_sessions_answers_name_its_job_until_somebody_reads_its_end(start):
    tandem = await start(SIMULATED)
    assert "x-tandem-jobs" not in (await create(tandem)).headers
    name = await run_job(tandem)

    assert (await create(tandem)).headers["x-tandem-jobs"] == f"{name}=completed"
    assert "x-tandem-jobs" not in (await create(tandem, {"x-tandem-session": "another"})).headers
    stats = (await call(tandem.port, "/tandem/stats")).json
    assert [(job["id"], job["state"], job["session"]) for job in stats["jobs"]] == [(name, "completed", "x:mine")]
    await call(tandem.port, f"/v1/responses/{name}")

    assert "x-tandem-jobs" not in (await create(tandem)).headers
    assert (await call(tandem.port, "/tandem/stats")).json["jobs"] == []


async def test_an_agents_session_is_told_of_a_job_that_its_tool_or_command_began(start):
    tandem = await start(SIMULATED)
    codex = {"user-agent": "codex_cli_rs/0.145.0", "thread-id": "t1", "session-id": "t1"}
    before = (await create(tandem, codex)).headers

    name = await run_job(tandem, {"x-tandem-job-session": "codex:t1"})

    assert "x-tandem-jobs" not in before
    assert (await create(tandem, codex)).headers["x-tandem-jobs"] == f"{name}=completed"
    job_decision = (await call(tandem.port, f"/tandem/decisions/{name.replace('resp', 'req')}")).json
    assert job_decision["session"] != "codex:t1"


@pytest.mark.parametrize("session", ["", "x" * 201])
async def test_a_session_that_cannot_be_one_is_refused(start, session):
    tandem = await start(SIMULATED)

    body = {"model": "auto", "input": QUICK, "background": True}
    reply = await call(tandem.port, "/v1/responses", body, {"x-tandem-job-session": session})

    assert (reply.status, reply.json["error"]["param"]) == (400, "x-tandem-job-session")


@pytest.mark.parametrize(
    ("written", "secrets"), [("'env:HOOK'", [SECRET]), ("['env:HOOK', 'env:OLD_HOOK']", [SECRET, "o" * 16])]
)
async def test_a_webhook_is_sent_one_event_that_is_signed_with_each_secret(start, upstream, monkeypatch, written, secrets):
    monkeypatch.setenv("HOOK", SECRET)
    monkeypatch.setenv("OLD_HOOK", "o" * 16)
    upstream.scripts = [answer_json({})]
    hook = f"{{url: '{upstream.base_url}/hook', secret: {written}, allow_private: true}}"
    tandem = await start(f"{SIMULATED}webhooks: [{hook}]\n")

    name = await run_job(tandem)
    await until(lambda: upstream.seen)

    (seen,) = upstream.seen
    assert (seen.json["type"], seen.json["data"]) == ("response.completed", {"id": name})
    signed = sign(seen.json["id"], seen.body, secrets, int(seen.headers["webhook-timestamp"]))
    assert signed.items() <= seen.headers.items()


async def test_an_event_that_its_receiver_refuses_for_good_is_shown_as_undelivered(start, upstream, monkeypatch):
    monkeypatch.setenv("HOOK", SECRET)
    upstream.scripts = [answer_json({}, 410)]
    hook = f"{{url: '{upstream.base_url}/hook', secret: 'env:HOOK', allow_private: true}}"
    tandem = await start(f"{SIMULATED}webhooks: [{hook}]\n")
    name = await run_job(tandem)

    while not (job := (await call(tandem.port, f"/tandem/jobs/{name}")).json)["undelivered"]:
        pass

    assert job["undelivered"] == ["response.completed"]
    assert (await call(tandem.port, "/tandem/jobs")).json["data"] == [job]
    assert b"tandem_webhooks_dead 1.0" in (await call(tandem.port, "/metrics")).body


async def test_a_reload_brings_webhooks_for_jobs_that_end_from_then_on(start, upstream, monkeypatch, tmp_path):
    monkeypatch.setenv("HOOK", SECRET)
    upstream.scripts = [answer_json({})]
    tandem = await start(SIMULATED)
    await run_job(tandem)
    hook = f"{{url: '{upstream.base_url}/hook', secret: 'env:HOOK', allow_private: true}}"
    (tmp_path / "config.yaml").write_text(f"{SIMULATED}webhooks: [{hook}]\n")

    await tandem.built.reloader.reload()
    name = await run_job(tandem)
    await until(lambda: upstream.seen)

    assert [seen.json["data"]["id"] for seen in upstream.seen] == [name]


async def test_metrics_count_jobs_once_there_is_one(start):
    tandem = await start(SIMULATED)
    assert b"tandem_jobs" not in (await call(tandem.port, "/metrics")).body
    await run_job(tandem)

    lines = (await call(tandem.port, "/metrics")).body.decode().splitlines()

    assert 'tandem_jobs{state="queued"} 0.0' in lines
    assert 'tandem_jobs{state="running"} 0.0' in lines
    assert 'tandem_jobs_ended_total{state="completed"} 1.0' in lines
    assert 'tandem_jobs_ended_total{state="failed"} 0.0' in lines
    assert "tandem_webhooks_dead 0.0" in lines
