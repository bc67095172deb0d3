"""Accepting background work: when a job is made, and when none is."""

import asyncio
import json

import pytest

from router.contract.errors import JobsUnavailable
from router.contract.facts import Settled
from router.contract.stores import StoreUnusable
from router.contract.words import Dialect, Outcome
from router.jobs.intake import keep_headers
from router.jobs.jobs import Jobs
from router.stores.sqlite.jobs import MemoryJobs
from tests.tools.exchanges import RecordingSink
from tests.tools.houses import arrive, make_house
from tests.tools.scripted import hangs, reach
from tests.tools.values import make_target
from tests.tools.waiting import later, some_turns, until

READ = {
    "user-agent": "codex",
    "x-tandem-tier": "deep",
    "session-id": "s_1",
    "x-openai-subagent": "review",
    "x-codex-turn-state": "t_1",
    "x-claude-code-session-id": "s_2",
    "traceparent": "00-1-2-01",
}
NOT_READ = """authorization x-api-key cookie x-tandem-upstream-key my-token idempotency-key host cf-access-jwt-assertion x-amzn-oidc-data
    x-goog-iap-jwt-assertion x-note"""


class Store(MemoryJobs):
    """A store that takes a job when it is let, or cannot."""

    def __init__(self) -> None:
        super().__init__(keep_seconds=3_600)
        self.lets, self.is_away, self.asked = asyncio.Event(), False, 0
        self.lets.set()

    async def add(self, job, most_queued, most_of_caller=None):
        self.asked += 1
        if self.is_away:
            raise StoreUnusable("the disk is full")
        await self.lets.wait()
        return await super().add(job, most_queued, most_of_caller)


@pytest.fixture
async def store():
    opened = Store()
    yield opened
    await opened.close()


@pytest.fixture
async def house(store):
    """A house that takes jobs, whose targets never answer."""
    jobs = Jobs(lambda: store)
    yield make_house(reach(make_target(speaks=frozenset({Dialect.RESPONSES})), hangs), accept_job=jobs.accept)
    await jobs.stop()
    await some_turns()


def send(house, **more):
    """A request with `background: true` on its way."""
    arrival = arrive(**{"name": "req_1", "dialect": Dialect.RESPONSES, "background": True, **more})
    exchange, sink = house.begin(arrival), RecordingSink()
    task = later(house.serve(exchange, sink))
    exchange.run_by(task)
    return exchange, sink, task


async def count(store) -> int:
    return len((await store.list_jobs(None, None, 100, None)).jobs)


async def test_the_id_is_answered_once_the_job_is_stored(house, store):
    store.lets.clear()
    _, sink, task = send(house)
    await until(lambda: store.asked)
    before = sink.told.copy()

    store.lets.set()
    await task

    assert before == []
    assert (json.loads(sink.body)["id"], json.loads(sink.body)["status"]) == ("resp_1", "queued")
    job = await store.find("resp_1", None)
    assert (job.title, job.tier, job.key) == ("fix it", "fast", None)


async def test_a_caller_that_leaves_before_the_id_has_no_job(house, store):
    store.lets.clear()
    _, sink, task = send(house)
    await until(lambda: store.asked)

    task.cancel()
    store.lets.set()
    await asyncio.wait([task])
    await some_turns()

    assert (await count(store), sink.told) == (0, [])


async def test_a_store_that_cannot_be_written_to_refuses_new_jobs(house, store):
    store.is_away = True

    _, sink, task = send(house)
    await task

    assert (sink.status, json.loads(sink.body)["error"]["code"]) == (JobsUnavailable.status, "jobs_unavailable")
    assert int(dict(sink.headers)["retry-after"]) >= 1


async def test_an_accepted_request_is_recorded_by_its_attempts_alone(house, store):
    exchange, _, task = send(house)
    await task

    assert exchange.observers is not house.state.observers


async def test_a_refused_one_is_recorded_as_any_other(house, store):
    exchange, sink, task = send(house, store=False)
    await task

    assert sink.status == 400
    assert exchange.observers is house.state.observers
    assert exchange.last(Settled).ending.outcome is Outcome.REFUSED


def test_only_headers_that_are_read_on_the_road_are_kept():
    assert keep_headers({**dict.fromkeys(NOT_READ.split(), "sk-1"), **READ}) == READ


def test_a_key_of_the_router_in_a_kept_header_is_masked():
    assert keep_headers({"x-tandem-session": "tdm_0a1b2c3d_abcdef"}) == {"x-tandem-session": "tdm_0a1b2c3d_***"}
