"""Background work of one router: opened with the first job, and gone on with where an earlier process left some."""

import json
import subprocess
import sys

from router.contract.stores import StoreUnusable
from router.contract.words import Dialect
from router.jobs.jobs import Jobs, JobsOpener
from router.stores.sqlite.jobs import MemoryJobs
from tests.tools.houses import Walk, make_house
from tests.tools.jobs import MANY, make_job
from tests.tools.scripted import hangs, reach
from tests.tools.values import make_target
from tests.tools.waiting import until


def make_jobs(opener: JobsOpener) -> Jobs:
    house = make_house(reach(make_target(speaks=frozenset({Dialect.RESPONSES})), hangs))
    jobs = Jobs(house, opener)
    house.accept_job = jobs.accept
    return jobs


def ask(jobs: Jobs) -> Walk:
    return Walk(jobs._house, dialect=Dialect.RESPONSES, background=True)


async def test_nothing_is_opened_before_the_first_job():
    jobs = make_jobs(JobsOpener(lambda: MemoryJobs(keep_seconds=60)))
    jobs.resume()
    before = (jobs.store, jobs.runner)

    await ask(jobs).task

    assert before == (None, None)
    assert len((await jobs.store.list_jobs(None, None, MANY, None)).jobs) == 1
    await jobs.stop()
    await jobs.store.close()


async def test_what_an_earlier_process_left_is_run():
    opener = JobsOpener(lambda: MemoryJobs(keep_seconds=60))
    opener.open_now()
    await opener.store.add(make_job(body=b'{"model":"auto","input":"hi","stream":true}'), MANY)
    jobs = make_jobs(opener)

    jobs.resume()

    await until(lambda: jobs.runner._running)
    (job,) = (await opener.store.list_jobs(None, None, MANY, None)).jobs
    assert (job.state, job.attempt) == ("running", 1)
    await jobs.stop()
    await opener.close()


async def test_a_store_that_cannot_be_opened_refuses_jobs_and_is_tried_again():
    tries = []

    def open_late():
        tries.append(1)
        if len(tries) == 1:
            raise StoreUnusable("the disk is full")
        return MemoryJobs(keep_seconds=60)

    jobs = make_jobs(JobsOpener(open_late))

    first, second = ask(jobs), ask(jobs)
    await first.task
    await second.task

    assert (first.sink.status, json.loads(first.sink.body)["error"]["code"]) == (503, "jobs_unavailable")
    assert second.sink.status == 200
    await jobs.stop()
    await jobs.store.close()


def test_a_router_without_jobs_loads_nothing_that_runs_them():
    code = "import router.wiring.build, sys; print(*[name for name in sys.modules if name.startswith('router.jobs.')])"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()

    assert loaded == ["router.jobs.jobs"]
