"""Deleting what a shared database keeps of one caller."""

import asyncio

import pytest

pytest.importorskip("asyncpg")

from router.stores.postgres.forget import count_kept, forget_caller
from router.stores.postgres.jobs import PostgresJobs
from router.stores.postgres.link import Link
from router.stores.postgres.responses import PostgresResponses
from tests.tools.jobs import LEASE_SECONDS, MANY, Observing, make_ending, make_job, make_segment
from tests.tools.kept import ANN, BOB, make_response
from tests.tools.postgres import make_terms


async def test_the_jobs_of_a_caller_are_deleted_with_their_logs_and_events_and_no_others(postgres):
    terms = make_terms(url := await postgres.create_used())
    store = PostgresJobs(terms, keep_seconds=60.0)
    for name, caller in (("resp_1", ANN), ("resp_2", BOB)):
        await store.add(make_job(name, caller), MANY)
        job = await store.claim("here:1:1", LEASE_SECONDS, MANY)
        await store.append(job, [make_segment(0)])
        store.observe(Observing("https://a.example"))
        await store.finish(job, make_ending())
    await store.close()

    counts = [(await asyncio.to_thread(ask, terms, ANN))["jobs"] for ask in (count_kept, forget_caller, count_kept)]

    assert counts == [1, 1, 0]
    assert (await asyncio.to_thread(count_kept, terms, BOB))["jobs"] == 1
    for table in ("jobs", "segments", "outbox"):
        assert await postgres.ask(url, f"SELECT count(*) FROM tandem.{table}") == [(1,)]


async def test_stored_responses_of_a_caller_are_deleted_with_their_items_and_no_others(postgres):
    terms = make_terms(url := await postgres.create_used())
    link = Link(terms, lambda reason: None)
    for name, caller in (("resp_1", ANN), ("resp_2", BOB)):
        await PostgresResponses(link).keep(make_response(name, caller, item_ids=[f"msg_{name}"]))
    await link.close()

    counts = [(await asyncio.to_thread(ask, terms, ANN))["responses"] for ask in (count_kept, forget_caller, count_kept)]

    assert counts == [1, 1, 0]
    assert await postgres.ask(url, "SELECT response FROM tandem.items") == [("resp_2",)]
