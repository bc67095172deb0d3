"""Background work of one router: opened with the first job, and gone on with where an earlier process left some."""

import json
import subprocess
import sys
import time

import pytest

from router.contract.secret import Secret
from router.contract.stores import StoreUnusable
from router.contract.webhooks import JobWebhook
from router.contract.words import Dialect
from router.house import House
from router.jobs import webhooks
from router.jobs.jobs import Jobs
from router.sessions.ended_jobs import EndedJobs
from router.stores.sqlite.jobs import MemoryJobs
from tests.tools.houses import Walk, make_house
from tests.tools.jobs import LEASE_SECONDS, MANY, make_ending, make_job
from tests.tools.scripted import hangs, reach
from tests.tools.values import make_target
from tests.tools.waiting import some_turns, until


def house_of(jobs: Jobs) -> House:
    """A house that takes jobs, whose only target never answers."""
    return make_house(reach(make_target(speaks=frozenset({Dialect.RESPONSES})), hangs), accept_job=jobs.accept)


def ask(house: House) -> Walk:
    return Walk(house, dialect=Dialect.RESPONSES, background=True)


async def test_nothing_is_opened_before_the_first_job():
    house = house_of(jobs := Jobs())
    jobs.resume(house)
    before = (jobs.store, jobs.runner)

    await ask(house).task

    assert before == (None, None)
    assert len((await jobs.store.list_jobs(None, None, 1_000, None)).jobs) == 1
    await jobs.stop()
    await jobs.close()


async def test_what_an_earlier_process_left_is_run():
    (jobs := Jobs()).open_now()
    await jobs.store.add(make_job(body=b'{"model":"auto","input":"hi","stream":true}'), MANY)

    jobs.resume(house_of(jobs))

    await until(lambda: jobs.runner._running)
    (job,) = (await jobs.store.list_jobs(None, None, 1_000, None)).jobs
    assert (job.state, job.attempt) == ("running", 1)
    await jobs.stop()
    await jobs.close()


async def test_a_store_that_cannot_be_opened_refuses_jobs_and_is_tried_again():
    tries = []

    def open_late():
        tries.append(1)
        if len(tries) == 1:
            raise StoreUnusable("the disk is full")
        return MemoryJobs(keep_seconds=60)

    house = house_of(jobs := Jobs(open_late))

    first, second = ask(house), ask(house)
    await first.task
    await second.task

    assert (first.sink.status, json.loads(first.sink.body)["error"]["code"]) == (503, "jobs_unavailable")
    assert second.sink.status == 200
    await jobs.stop()
    await jobs.close()


class Elsewhere(MemoryJobs):
    """Jobs that other routers have, too."""

    async def find(self, *given):
        pytest.fail("a whole response is read where its name would do")


async def add_ended(store: MemoryJobs, *names: str) -> None:
    """Jobs that have ended at another router."""
    for name in names:
        await store.add(make_job(name), MANY)
        await store.finish(await store.claim("owner", LEASE_SECONDS, MANY), make_ending(at=time.time()))


async def test_a_job_that_ended_elsewhere_is_known_here_until_its_end_is_read():
    jobs = Jobs(lambda: Elsewhere(keep_seconds=3_600.0), EndedJobs(keep_seconds=1e12))
    jobs.open_now()
    await add_ended(jobs.store, "resp_1", "resp_2")

    for name in ("resp_1", "resp_2", "resp_gone"):
        jobs.job_ended_elsewhere(name)
    jobs.job_read("resp_2")  # before anybody could look for it
    await some_turns()

    assert [job.id for job in jobs.ended.list_all()] == ["resp_1"]
    jobs.job_read("resp_1")
    assert jobs.ended.list_all() == ()
    await jobs.close()


async def test_jobs_that_ended_while_updates_were_missed_are_looked_up_and_those_read_are_dropped():
    jobs = Jobs(lambda: Elsewhere(keep_seconds=3_600.0), EndedJobs(keep_seconds=1e12))
    jobs.open_now()
    await add_ended(jobs.store, "resp_1", "resp_2")
    for name in ("resp_1", "resp_2"):
        jobs.job_ended(make_job(name), make_ending(at=time.time()))
    await jobs.store.collected("resp_1")
    await add_ended(jobs.store, "resp_3")

    jobs.updates_missed()
    await some_turns()

    assert [job.id for job in jobs.ended.list_all()] == ["resp_2", "resp_3"]
    await jobs.close()


async def test_the_end_of_a_job_is_sent_to_its_webhooks_at_once(monkeypatch):
    sent = []
    monkeypatch.setattr(webhooks, "_post_json", lambda address, *_: sent.append(address) or 200)
    house = house_of(jobs := Jobs())
    jobs.follow([JobWebhook("https://hooks.example/", (Secret("x" * 16),))])
    store = await jobs.open(house)
    await some_turns()  # what sends has looked once, and would not again for half a minute

    await add_ended(store, "resp_1")

    await until(lambda: sent == ["https://hooks.example/"])
    assert [job.id for job in jobs.ended.list_all()] == ["resp_1"]
    await jobs.stop()
    await jobs.close()


def test_a_router_without_jobs_loads_nothing_that_runs_them():
    code = "import router.wiring.build, sys; print(*[name for name in sys.modules if name.startswith('router.jobs.')])"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()

    assert loaded == ["router.jobs.jobs"]
