"""The pages of background work, as far as whole requests do not show them."""

import pytest

from router.contract.errors import RateLimited
from router.contract.stores import StoreUnusable
from router.jobs.panel import Polls
from tests.tools.background import begin, poll
from tests.tools.http import call


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


async def test_a_finished_job_counts_as_collected_once_it_was_read(simulated):
    job_id = await begin(simulated)
    response = await poll(simulated, job_id)
    again = (await call(simulated.port, f"/v1/responses/{job_id}/cancel", {})).json

    assert (await simulated.built.jobs.store.find(job_id, None)).is_collected
    assert again == response


async def test_a_store_that_cannot_be_read_is_said_to_be_so(simulated, monkeypatch):
    job_id = await begin(simulated)
    await poll(simulated, job_id)

    async def fail(*_):
        raise StoreUnusable("the disk is gone")

    monkeypatch.setattr(simulated.built.jobs.store, "find", fail)
    kept, reply = [await call(simulated.port, f"/v1/responses/{name}") for name in (job_id, "resp_unknown")]

    assert kept.status == 200  # a finished response is also where all others are
    assert (reply.status, reply.json["error"]["code"]) == (503, "jobs_unavailable")
