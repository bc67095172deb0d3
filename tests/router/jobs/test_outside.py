"""Jobs that are done outside of the router."""

import pytest

from router.contract.caller import LOCAL
from router.contract.errors import JobGone, TooManyJobs
from router.contract.job import JobState
from router.dialects.responses.logged import parse_response
from router.jobs import outside
from router.stores.memory.jobs import MemoryJobs
from tests.tools.jobs import MANY, Clock
from tests.tools.kept import ANN


@pytest.fixture
async def store():
    made = MemoryJobs(keep_seconds=86_400.0, clock=Clock(0.0))
    yield made
    await made.close()


async def begin(store, *log: str):
    job = outside.write_job("req_1", LOCAL, None, "fix it")
    number = await outside.begin(store, job, None)
    for text in log:
        number = await outside.write_log(store, job, number, text)
    return job, number


async def read_end(store) -> dict:
    return parse_response((await store.find("resp_1", LOCAL)).response)


def text_of(item: dict) -> str:
    return (item.get("summary") or item.get("content"))[0]["text"]


async def test_a_job_ends_with_its_log_and_its_change(store):
    job, number = await begin(store, "one\n", "two\n")

    assert await outside.end(store, job, JobState.COMPLETED, number, change="diff")

    response = await read_end(store)
    assert (response["status"], response["error"]) == ("completed", None)
    assert [text_of(item) for item in response["output"]] == ["one\ntwo\n", "diff"]
    assert response["completed_at"] >= response["created_at"]


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
    assert before["error"] == {"code": "agent_failed", "message": "exit status 1"}


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
        await outside.begin(store, outside.write_job("req_2", LOCAL, None, "fix it"), 1)


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
    assert is_cancelled or response["error"]["code"] == "interrupted"
    assert [text_of(item) for item in response["output"]] == ["one\n"]
