"""Running jobs: how many at once, for how long, and what becomes of those that cannot go on."""

import asyncio
import itertools
import json
from math import ceil

import pytest
from msgspec.structs import replace

from router.contract.job import JobState, JobTerms
from router.contract.stores import StoreUnusable
from router.contract.target import Price
from router.contract.words import Dialect, Outcome
from router.dialects.responses.background import request_id_of
from router.dialects.responses.logged import LogFrames
from router.dialects.sse import count_written
from router.jobs import endings
from router.jobs import runner as runner_module
from router.jobs.endings import LEASE_SECONDS
from router.jobs.runner import Runner
from router.stores.memory.entries import MemoryEntries
from router.stores.owners import name_owner
from router.stores.sqlite.jobs import MemoryJobs
from tests.tools.background import SPEECH, events_in
from tests.tools.houses import make_house
from tests.tools.jobs import MANY, make_ending, make_job, make_segment, read_log
from tests.tools.kept import ANN, BOB
from tests.tools.loop_clock import seconds_passed
from tests.tools.scripted import ScriptedAdapter, answers, hangs, reach, streams
from tests.tools.speech import write_stream
from tests.tools.values import make_target
from tests.tools.waiting import by_the_clock, later, some_turns, until

SPOKEN = write_stream("responses", SPEECH)
WHOLE = streams(*SPOKEN)
PRICE = Price(input=1.0, output=2.0)
BODY = b'{"model":"auto","input":"hi","stream":true}'
QUEUED = b'{"id":"resp_1","object":"response","status":"queued","output":[]}'


@pytest.fixture
async def store():
    opened = MemoryJobs(keep_seconds=3_600)
    yield opened
    await opened.close()


@pytest.fixture
async def run(store):
    """Start a runner whose only target plays these scripts."""
    runners = []

    def begin(*scripts, **terms) -> tuple[Runner, ScriptedAdapter]:
        target = reach(make_target(speaks=frozenset({Dialect.RESPONSES})), *scripts)
        runners.append(runner := Runner(make_house(target, jobs=JobTerms(**terms)), store))
        runner.wake()
        return runner, target.adapter

    yield begin
    for runner in runners:
        await runner.stop()
    await some_turns()


async def add(store, name: str = "resp_1", caller=ANN, body=BODY) -> None:
    await store.add(make_job(name, caller, body=body, queued=QUEUED.replace(b"resp_1", name.encode())), MANY)


def note_entries(monkeypatch) -> list[tuple[str, str, int | None]]:
    """The ids of the entries that are written from now on, with their outcomes and tokens."""
    noted = []

    def append(self, entry):
        noted.append((entry.line.id, entry.line.outcome, entry.line.output_tokens))

    monkeypatch.setattr(MemoryEntries, "append", append)
    return noted


async def response_of(store) -> dict:
    return json.loads((await store.read_response("resp_1", None))[0])


async def over(store, name: str = "resp_1"):
    """The job once it is over."""
    watch = store.watch(name)
    while (job := await store.find(name, None)).ended_at is None:
        await watch.wait(30)
    watch.close()
    return job


async def test_only_so_many_jobs_run_at_once_and_only_so_many_of_a_caller(store, run):
    _, adapter = run(hangs, most_running=3, most_for_a_caller=2)

    for number, caller in enumerate([ANN, ANN, ANN, BOB, BOB]):
        await add(store, f"resp_{number}", caller)
    await until(lambda: len(adapter.opened) == 3)
    await some_turns()

    jobs = (await store.list_jobs(None, JobState.RUNNING, 1_000, None)).jobs
    assert sorted(job.caller.name for job in jobs) == [ANN.name, ANN.name, BOB.name]


async def test_the_next_job_begins_when_one_has_ended(store, run):
    run(WHOLE, most_running=1)

    for number in range(3):
        await add(store, f"resp_{number}")

    assert [(await over(store, f"resp_{number}")).state for number in range(3)] == [JobState.COMPLETED] * 3


@pytest.mark.jumping_clock
async def test_a_job_that_is_cancelled_elsewhere_is_noticed_while_it_runs(store, run):
    _, adapter = run(hangs)
    await add(store)
    await until(lambda: adapter.calls)

    await store.cancel("resp_1", None, make_ending(JobState.CANCELLED))

    assert (await over(store)).state is JobState.CANCELLED
    assert adapter.calls[0].is_cancelled


@pytest.mark.jumping_clock
async def test_an_attempt_whose_job_is_begun_again_by_the_same_owner_hangs_up(store, run, monkeypatch):
    _, adapter = run(hangs)
    await add(store)
    await until(lambda: adapter.calls)
    find = store.find

    async def find_next_attempt(*given):
        job = await find(*given)
        return replace(job, attempt=job.attempt + 1)

    monkeypatch.setattr(store, "find", find_next_attempt)

    await until(lambda: adapter.calls[0].is_cancelled)


async def test_a_runner_that_stops_leaves_its_jobs_to_the_next(store, run):
    runner, adapter = run(hangs)
    await add(store)
    await until(lambda: adapter.calls)

    await runner.stop()
    await some_turns()
    job = await store.claim("another", LEASE_SECONDS, MANY)

    assert (job.id, job.attempt, job.is_lost) == ("resp_1", 2, False)
    assert adapter.calls[0].is_cancelled


@pytest.mark.parametrize(("is_cancelled", "state"), [(False, JobState.FAILED), (True, JobState.CANCELLED)])
async def test_a_job_that_cannot_be_begun_again_ends_with_what_was_said(store, run, is_cancelled, state):
    await add(store)
    job = await store.claim("gone", LEASE_SECONDS, MANY)
    frames = b"".join(write_stream("responses", SPEECH)[:-4])
    await store.append(job, [make_segment(0, 12, text=frames.decode())])
    await store.read("resp_1", ANN, -1)
    if is_cancelled:
        await store.cancel("resp_1", ANN, make_ending(JobState.CANCELLED))
    await store.release(job)

    run(WHOLE)
    job = await over(store)

    response = await response_of(store)
    events = events_in(b"".join(segment.frames for segment in await read_log(store, "resp_1")))
    assert (job.state, response["status"]) == (state, str(state))
    assert is_cancelled or (response["error"]["code"], response["error"]["reason"]) == ("server_error", "interrupted")
    assert response["output"][-1]["content"][0]["text"] == SPEECH.text
    assert (events[-1]["type"], events[-1]["sequence_number"]) == (
        "response.incomplete" if is_cancelled else "response.failed",
        13,
    )
    assert events[-1]["response"] == response


async def test_the_attempt_of_an_owner_that_is_gone_is_recorded_before_its_job_is_begun_again(store, run, monkeypatch):
    await add(store)
    job = await store.claim("gone", -1.0, MANY)
    frames = b"".join(write_stream("responses", SPEECH)[:-1])
    await store.append(job, [LogFrames("resp_1").take(frames)])
    entries = note_entries(monkeypatch)

    run(WHOLE)
    job = await over(store)

    assert (job.state, job.attempt) == (JobState.COMPLETED, 2)
    assert entries[0] == (request_id_of("resp_1", 1), Outcome.INTERRUPTED, ceil(count_written(frames) / 4))
    assert entries[1][:2] == (request_id_of("resp_1", 2), Outcome.SERVED)


async def test_a_job_whose_owner_was_lost_after_its_last_frame_is_ended_and_not_begun_again(store, run, monkeypatch):
    await add(store)
    job = await store.claim("gone", -1.0, MANY)
    frames = b"".join(write_stream("responses", SPEECH))
    await store.append(job, [LogFrames("resp_1").take(frames)])
    entries = note_entries(monkeypatch)

    _, adapter = run(WHOLE)
    job = await over(store)

    assert (job.state, job.attempt, adapter.opened) == (JobState.COMPLETED, 1, [])
    assert [entry[:2] for entry in entries] == [(request_id_of("resp_1", 1), Outcome.SERVED)]
    events = events_in(b"".join(segment.frames for segment in await read_log(store, "resp_1")))
    assert [event["type"] for event in events].count("response.completed") == 1


@pytest.mark.parametrize("body", [b'{"agent":true,"input":"fix it"}', b""])
async def test_what_an_agent_of_an_older_release_left_is_ended_and_sent_to_nobody(store, run, body):
    await add(store, body=body)
    await store.claim("outside-1", -1.0, MANY)

    _, adapter = run(WHOLE)
    job = await over(store)

    assert (job.state, adapter.opened) == (JobState.FAILED, [])
    assert (await response_of(store))["error"]["reason"] == "interrupted"


async def test_an_attempt_is_recorded_before_its_job_ends(store, run, monkeypatch):
    synced = []

    async def sync(self):
        synced.append((await store.find("resp_1", None)).state)

    monkeypatch.setattr(MemoryEntries, "sync", sync)
    await add(store)

    run(WHOLE)
    await over(store)

    assert synced == [JobState.RUNNING]


async def test_a_runner_that_stops_while_it_takes_a_job_over_records_it_first(store, run, monkeypatch):
    await add(store)
    await store.claim("gone", -1.0, MANY)
    entries, may_go_on = note_entries(monkeypatch), asyncio.Event()

    async def sync(self):
        await may_go_on.wait()

    monkeypatch.setattr(MemoryEntries, "sync", sync)
    runner, _ = run(WHOLE)
    await until(lambda: entries)
    stopping = later(runner.stop())
    await some_turns()

    assert (await store.find("resp_1", None)).owner == name_owner()
    assert await store.claim("another", LEASE_SECONDS, MANY) is None
    may_go_on.set()
    await stopping
    assert (await store.claim("another", LEASE_SECONDS, MANY)).attempt == 2


@pytest.mark.parametrize("work", ["read", "finish"])
async def test_a_job_that_cannot_be_taken_over_now_holds_up_neither_others_nor_a_stop(store, run, monkeypatch, work):
    await add(store)
    job = await store.claim("gone", -1.0, MANY)
    await store.append(job, [LogFrames("resp_1").take(b"".join(write_stream("responses", SPEECH)))])
    await add(store, "resp_2")
    do = getattr(store, work)

    async def fail_for_the_first(job, *given):
        if "resp_1" in (job, getattr(job, "id", None)):
            raise StoreUnusable("a page is damaged")
        return await do(job, *given)

    monkeypatch.setattr(store, work, fail_for_the_first)
    monkeypatch.setattr(runner_module, "_STOP_SECONDS", 0.01)
    runner, _ = run(WHOLE)

    assert (await over(store, "resp_2")).state is JobState.COMPLETED
    await runner.stop()
    assert await store.claim("another", LEASE_SECONDS, MANY) is None  # its lease is kept, since it was not recorded


@pytest.mark.parametrize("defect", ["write_lost_entry", "read_again"])
async def test_a_defect_in_taking_a_job_over_is_reported_and_the_job_is_begun_again(store, run, monkeypatch, listen, defect):
    async def fail(*given):
        raise LookupError("a defect")

    await add(store)
    await store.claim("gone", -1.0, MANY)
    monkeypatch.setattr(endings, defect, fail)
    heard = listen()

    run(WHOLE)
    job = await over(store)

    assert (job.state, job.attempt) == (JobState.COMPLETED, 2)
    assert [event["kind"] for event in heard() if event["event"] == "fault.caught"] == ["LookupError"]


async def test_a_lost_job_whose_log_cannot_be_made_sense_of_is_ended(store, run, monkeypatch):
    async def fail(*given):
        raise LookupError("a defect")

    await add(store)
    job = await store.claim("gone", LEASE_SECONDS, MANY)
    await store.append(job, [make_segment(0, 3)])
    await store.read("resp_1", ANN, -1)
    await store.release(job)
    monkeypatch.setattr(endings, "read_again", fail)

    run(WHOLE)
    job = await over(store)

    assert (job.state, (await response_of(store))["error"]["reason"]) == (JobState.FAILED, "interrupted")


async def test_jobs_are_taken_over_side_by_side_up_to_a_number(store, run, monkeypatch):
    most, waiting, may_go_on = 2, [], asyncio.Event()
    for number in range(3):
        await add(store, f"resp_{number}")
        await store.claim("gone", -1.0, MANY)

    async def sync(self):
        waiting.append(None)
        await may_go_on.wait()

    monkeypatch.setattr(endings, "_MOST_SETTLING", most)
    monkeypatch.setattr(MemoryEntries, "sync", sync)
    run(WHOLE)
    await until(lambda: len(waiting) == most)
    await some_turns()

    assert len(waiting) == most
    may_go_on.set()
    assert [(await over(store, f"resp_{number}")).state for number in range(3)] == [JobState.COMPLETED] * 3


@pytest.mark.jumping_clock
async def test_a_job_keeps_its_lease_while_it_is_taken_over(store, run, monkeypatch):
    await add(store)
    await store.claim("gone", -1.0, MANY)
    renewed, renew, may_go_on = [], store.renew, asyncio.Event()

    async def note(job, *given):
        renewed.append((job.id, await renew(job, *given)))
        return renewed[-1][1]

    async def sync(self):
        await may_go_on.wait()

    monkeypatch.setattr(store, "renew", note)
    monkeypatch.setattr(MemoryEntries, "sync", sync)
    run(WHOLE)
    await until(lambda: renewed)

    assert renewed[0] == ("resp_1", True)
    may_go_on.set()
    assert (await over(store)).state is JobState.COMPLETED


async def test_a_defect_of_the_road_fails_the_job_without_details(store, run):
    run(RuntimeError("a secret path"))
    await add(store)

    job = await over(store)

    assert job.state is JobState.FAILED
    assert "a secret path" not in json.dumps(await response_of(store))


@pytest.mark.jumping_clock
async def test_a_job_that_finds_all_targets_busy_tries_again(store, run, monkeypatch):
    busy = {"error": {"code": "tiers_busy", "message": "later"}}
    entries = note_entries(monkeypatch)
    _, adapter = run(answers(busy, status=400), answers(busy, status=400), WHOLE)
    await add(store)

    job = await over(store)

    assert (job.state, len(adapter.opened)) == (JobState.COMPLETED, 3)
    assert [outcome for _, outcome, _ in entries] == [Outcome.REFUSED, Outcome.REFUSED, Outcome.SERVED]
    assert len({name for name, *_ in entries}) == len(entries)
    assert entries[-1][0] == request_id_of("resp_1", 1)  # the id under which it would be recorded if its owner were lost


@pytest.mark.jumping_clock
async def test_a_job_that_is_refused_at_its_deadline_is_recorded_as_its_attempt(store, run, monkeypatch):
    entries = note_entries(monkeypatch)
    run(answers({"error": {"code": "tiers_busy", "message": "later"}}, status=400), deadline_seconds=1.0)
    await add(store)

    await over(store)

    assert [entry[0] for entry in entries] == [request_id_of("resp_1", 1)]


@pytest.mark.jumping_clock
async def test_a_job_that_tries_again_keeps_its_deadline(store, run):
    busy = answers({"error": {"code": "tiers_busy", "message": "later"}}, status=400)
    _, adapter = run(busy, busy, busy, WHOLE, deadline_seconds=12.0)
    await add(store)

    job = await over(store)

    assert (job.state, len(adapter.opened)) == (JobState.FAILED, 3)


@pytest.mark.jumping_clock
async def test_the_lease_of_a_long_job_is_renewed_well_before_it_runs_out(store, run, monkeypatch):
    renew, renewed = store.renew, [0.0]

    async def note(*given):
        renewed.append(seconds_passed())
        return await renew(*given)

    monkeypatch.setattr(store, "renew", note)
    run(hangs)
    await add(store)
    await by_the_clock(3 * LEASE_SECONDS)

    assert len(renewed) > 3
    assert all(after - before <= LEASE_SECONDS / 2 for before, after in itertools.pairwise(renewed))


async def test_a_job_that_is_claimed_while_the_runner_stops_is_released(store, run, monkeypatch):
    claim, claimed, may_go_on = store.claim, [], asyncio.Event()

    async def claim_slowly(*given):
        if (job := await claim(*given)) is not None:
            claimed.append(job)
            await may_go_on.wait()
        return job

    monkeypatch.setattr(store, "claim", claim_slowly)
    runner, adapter = run(WHOLE)
    await add(store)
    await until(lambda: claimed)
    stopping = later(runner.stop())
    await some_turns()
    may_go_on.set()
    await stopping

    assert adapter.opened == []
    assert (await claim("another", LEASE_SECONDS, MANY)).attempt == 2


async def test_a_job_whose_earlier_response_is_gone_says_how_to_keep_responses(store, run):
    gone = {"error": {"code": "previous_response_not_found", "message": "Previous response with id 'resp_0' not found"}}
    run(answers(gone, status=400))
    await add(store)

    await over(store)
    error = (await response_of(store))["error"]

    assert error["reason"] == "previous_response_not_found"
    assert error["message"].startswith(
        "Previous response with id 'resp_0' not found. If the router was restarted: set store.path"
    )


async def test_a_job_that_is_lost_is_ended_once_its_log_can_be_read(store, run, monkeypatch):
    await add(store)
    job = await store.claim("gone", LEASE_SECONDS, MANY)
    await store.append(job, [make_segment(0, 3)])
    await store.read("resp_1", ANN, -1)
    await store.release(job)
    read, failures = store.read, [StoreUnusable("locked")] * 2

    async def fail_at_first(*given):
        if failures:
            raise failures.pop()
        return await read(*given)

    monkeypatch.setattr(store, "read", fail_at_first)
    monkeypatch.setattr(runner_module, "_LOOK_SECONDS", 0.01)
    run(WHOLE)

    assert (await over(store)).state is JobState.FAILED
    assert failures == []


async def test_a_defect_of_the_runner_ends_its_job(store, run, monkeypatch):
    async def fail(*given):
        raise LookupError("a defect")

    monkeypatch.setattr(Runner, "_serve", fail)
    await add(store)

    run(WHOLE)

    assert (await over(store)).state is JobState.FAILED
