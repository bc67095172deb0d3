"""Ends that no owner of a job brings about: lost attempts, and revoked keys."""

import json
from math import ceil

import pytest

from router.contract.job import Job, JobState
from router.contract.target import Price
from router.contract.words import Dialect
from router.dialects.responses.background import request_id_of
from router.dialects.sse import count_written
from router.jobs.endings import cancel_revoked, write_lost_entry
from router.jobs.log_sink import LogAgain
from router.stores.sqlite.jobs import MemoryJobs
from tests.tools.background import SPEECH, events_in
from tests.tools.houses import make_house
from tests.tools.jobs import LEASE_SECONDS, MANY, make_job, make_segment
from tests.tools.kept import ANN, BOB
from tests.tools.scripted import reach
from tests.tools.speech import write_stream
from tests.tools.values import make_target

SPOKEN = write_stream("responses", SPEECH)
PRICE = Price(input=1.0, output=2.0)
BODY = b'{"model":"auto","input":"hi","stream":true}'


def attempt_of(log: bytes, **more) -> tuple[Job, LogAgain]:
    found = LogAgain("resp_1")
    found.add([make_segment(0, 9, text=log.decode())] if log else [])
    return make_job("resp_1", body=BODY, attempt=2, **more), found


@pytest.fixture
async def house():
    return make_house(reach(make_target(speaks=frozenset({Dialect.RESPONSES}), price=PRICE)))


async def test_an_attempt_that_was_interrupted_has_an_estimate_of_its_tokens_and_their_cost(house):
    log = b"".join(SPOKEN[:-1])
    entry = await write_lost_entry(house, *attempt_of(log))

    line = entry.line
    assert (line.id, line.job, line.outcome, line.key) == (request_id_of("resp_1", 2), "resp_1", "INTERRUPTED", "k_1")
    assert (line.output_tokens, line.tokens_estimated) == (ceil(count_written(log) / 4), True)
    assert line.output_tokens > 0
    assert line.input_tokens > 0
    assert line.cost_usd == pytest.approx((line.input_tokens + 2 * line.output_tokens) / 1e6)
    assert json.loads(entry.attempts)[0]["target"] == line.target


async def test_an_attempt_whose_log_has_its_end_was_served_and_has_the_tokens_that_its_target_told(house):
    entry = await write_lost_entry(house, *attempt_of(b"".join(SPOKEN)))

    assert (entry.line.outcome, entry.line.status, entry.line.tokens_estimated) == ("SERVED", 200, False)
    assert entry.line.output_tokens == events_in(b"".join(SPOKEN))[-1]["response"]["usage"]["output_tokens"]


async def test_an_attempt_without_a_byte_of_an_answer_costs_nothing(house):
    entry = await write_lost_entry(house, *attempt_of(b""))

    assert (entry.line.outcome, entry.line.output_tokens, entry.line.cost_usd) == ("INTERRUPTED", None, 0.0)


async def test_of_a_request_that_cannot_be_decided_any_more_the_cost_is_not_known(house):
    _, *log = attempt_of(b"")

    entry = await write_lost_entry(house, make_job("resp_1", body=b"[", attempt=1), *log)

    assert (entry.line.id, entry.line.outcome, entry.line.target) == ("req_1", "INTERRUPTED", None)
    assert entry.line.cost_usd is None


@pytest.fixture
async def store():
    opened = MemoryJobs(keep_seconds=3_600)
    yield opened
    await opened.close()


async def test_waiting_jobs_of_a_revoked_key_are_cancelled_and_others_stay(store):
    for number in range(250):  # several pages
        await store.add(make_job(f"resp_{number}", ANN if number % 2 else BOB, key="k_1" if number % 2 else "k_2"), MANY)
    claimed = {(await store.claim("another router", LEASE_SECONDS, MANY)).key for _ in range(2)}

    ended = await cancel_revoked(store, lambda job: job.key == "k_1")

    assert claimed == {"k_1", "k_2"}
    assert ended == [("k_1", "waiting_jobs")] * 124
    cancelled = (await store.list_jobs(ANN, JobState.CANCELLED, 1_000, None)).jobs
    assert len(cancelled) == 124
    assert b"the key was revoked" in (await store.read_response(cancelled[0].id, None))[0]
    assert len((await store.list_jobs(BOB, JobState.QUEUED, 1_000, None)).jobs) == 124
    (elsewhere,) = (await store.list_jobs(ANN, JobState.RUNNING, 1_000, None)).jobs
    assert not elsewhere.is_cancelled  # its own router stops it
    assert await cancel_revoked(store, lambda job: job.key == "k_1") == []
