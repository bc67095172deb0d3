"""The pages of background work, as far as whole requests do not show them."""

import json
import threading
from types import SimpleNamespace

import pytest

from router.contract.caller import LOCAL, Caller
from router.contract.errors import RateLimited
from router.contract.job import JobState
from router.contract.rights import EVERYTHING, Rights
from router.contract.stores import StoreUnusable
from router.edge.control.panel import Asked
from router.jobs.jobs import Jobs, read_figures
from router.jobs.panel import Polls, Responses
from router.sessions.ended_jobs import EndedJobs
from router.stores.sqlite.jobs import MemoryJobs
from tests.tools.background import begin, poll
from tests.tools.http import call
from tests.tools.jobs import LEASE_SECONDS, MANY, Observing, make_ending, make_job
from tests.tools.kept import ANN


def test_a_client_that_polls_without_a_pause_is_told_to_wait():
    polls = Polls()

    for number in range(20):
        polls.count("resp_1", number / 100)
    with pytest.raises(RateLimited) as caught:
        polls.count("resp_1", 0.3)

    assert caught.value.retry_after_seconds == 1.0
    polls.count("resp_2", 0.3)
    polls.count("resp_1", 1.3)


def test_jobs_that_nobody_polls_any_more_are_forgotten():
    polls = Polls()

    for number in range(3_000):
        polls.count(f"resp_{number}", number / 10)

    assert len(polls._asked) <= 1_000


async def test_jobs_are_listed_newest_first_a_page_at_a_time(simulated):
    made = [await begin(simulated) for _ in range(3)]
    for job_id in made:
        await poll(simulated, job_id)

    first = (await call(simulated.port, "/tandem/jobs?limit=2")).json
    rest = (await call(simulated.port, f"/tandem/jobs?limit=2&before={first['before']}")).json
    failed = (await call(simulated.port, "/tandem/jobs?state=failed")).json

    assert [job["id"] for job in (*first["data"], *rest["data"])] == made[::-1]
    assert (rest["before"], failed["data"]) == (None, [])
    assert first["data"][0]["title"] == "plan the migration"
    assert (await call(simulated.port, f"/tandem/jobs/{made[0]}")).json["state"] == "completed"


@pytest.mark.parametrize(
    ("caller", "key", "rights", "titles"),
    [
        (LOCAL, None, EVERYTHING, ["plan"]),
        (ANN, None, EVERYTHING, ["plan"]),
        (Caller("key-b"), None, EVERYTHING, ["plan"]),
        (LOCAL, "k_1", EVERYTHING, [""]),
        (ANN, "k_1", Rights(), ["plan"]),
        (Caller("bob"), "k_1", Rights(), []),
    ],
)
async def test_jobs_are_listed_to_everybody_without_keys_and_else_to_their_caller_and_without_titles_to_an_admin(
    caller, key, rights, titles
):
    store = MemoryJobs(keep_seconds=3_600.0)
    await store.add(make_job("resp_1", ANN, title="plan"), MANY)
    (jobs := Jobs(lambda: store)).open_now()
    pages = Responses(SimpleNamespace(state=SimpleNamespace(responses=None)), jobs).pages
    page = next(page for page in pages if page.path == "/tandem/jobs")

    answer = await page.answer(Asked("req_1", caller, {}, {}, {}, None, rights, key))

    assert [job["title"] for job in json.loads(answer.body)["data"]] == titles
    await store.close()


async def test_a_store_that_cannot_be_read_is_said_to_be_so(simulated, monkeypatch):
    job_id = await begin(simulated)
    await poll(simulated, job_id)

    async def fail(*_):
        raise StoreUnusable("the disk is gone")

    monkeypatch.setattr(simulated.built.jobs.store, "find", fail)
    kept, reply = [await call(simulated.port, f"/v1/responses/{name}") for name in (job_id, "resp_unknown")]

    assert kept.status == 200  # a finished response is also where all others are
    assert (reply.status, reply.json["error"]["code"]) == (503, "jobs_unavailable")


async def test_jobs_are_counted_by_state_where_their_store_can_be_read():
    store = MemoryJobs(keep_seconds=3_600.0)
    ended = EndedJobs()
    for number in range(4):
        await store.add(make_job(f"resp_{number}"), MANY)
    job = await store.claim("owner", LEASE_SECONDS, MANY)
    store.observe(Observing("https://hooks.example/"))
    await store.finish(job, make_ending())
    ended.note_end(job, make_ending())
    await store.claim("owner", LEASE_SECONDS, MANY)
    (event,) = await store.take_due(2e9, 1.0)
    await store.note_undelivered(event.id, None)

    jobs = SimpleNamespace(store=store, ended=ended)
    found = await read_figures(jobs)

    assert found["tandem_jobs"] == {("queued",): 2, ("running",): 1}
    assert found["tandem_jobs_ended_total"] == {
        (str(state),): int(state is JobState.COMPLETED)
        for state in (JobState.CANCELLED, JobState.COMPLETED, JobState.FAILED, JobState.INCOMPLETE)
    }
    assert found["tandem_webhooks_dead"] == {(): 1}
    await store.close()
    assert set(await read_figures(jobs)) == {"tandem_jobs_ended_total"}


async def test_a_job_that_is_deleted_is_dropped_by_its_runner_at_once(simulated, monkeypatch):
    job_id, dropped = await begin(simulated), []
    monkeypatch.setattr(simulated.built.jobs.runner, "drop", dropped.append)

    reply = await call(simulated.port, f"/v1/responses/{job_id}", method="DELETE")

    assert (reply.status, dropped) == (200, [job_id])


async def test_a_response_of_megabytes_is_sent_whole_in_parts_that_are_read_off_the_loop(simulated, monkeypatch):
    job_id, text, off_loop = await begin(simulated), "word " * 400_000, set()
    await poll(simulated, job_id)
    store = simulated.built.jobs.store
    whole = json.dumps({"id": job_id, "status": "completed", "output": [{"text": text}]}).encode()
    await store._write(lambda database: database.execute("UPDATE jobs SET response = ?", (whole,)))
    read = store._read_large
    monkeypatch.setattr(store, "_read_large", lambda work: (off_loop.add(threading.get_ident() != loop_thread), read(work))[1])
    loop_thread = threading.get_ident()

    reply = await call(simulated.port, f"/v1/responses/{job_id}")

    assert (reply.status, reply.body, off_loop) == (200, whole, {True})
    assert dict(reply.headers)["content-length"] == str(len(whole))
