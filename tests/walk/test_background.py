"""Background jobs over loopback: accepted at once, served without their caller, readable from any number."""

import asyncio
import contextlib
import json
import random
import sqlite3
from pathlib import Path

import pytest

from router.jobs import jobs
from tests.conftest import SIMULATED
from tests.tools.background import SPEECH, ask, begin, events_in, poll, read_log, read_some, speak_in_steps
from tests.tools.http import call, request_bytes
from tests.tools.keyed import KEYS, Callers, swap
from tests.tools.running import one_dialect, running
from tests.tools.speech import Speech, speak
from tests.tools.upstream import answer_json
from tests.tools.waiting import later, until

pytestmark = pytest.mark.wire

DIALECTS = pytest.mark.parametrize("dialect", ["chat", "messages", "responses"])
MANY = 1_000


@DIALECTS
async def test_a_job_is_served_without_its_caller_whatever_its_upstream_speaks(start, upstream, dialect):
    tandem = await start(one_dialect(dialect, upstream.base_url))
    upstream.scripts = [speak(dialect, SPEECH)]

    reply = await call(tandem.port, "/v1/responses", ask(metadata={"team": "blue"}))
    response = await poll(tandem, reply.json["id"])

    assert (reply.status, reply.json["status"], reply.json["background"]) == (200, "queued", True)
    assert reply.headers["x-tandem-tier"] in ("fast", "deep")
    assert reply.headers["x-tandem-request-id"].removeprefix("req_") == reply.json["id"].removeprefix("resp_")
    assert (response["id"], response["status"], response["background"]) == (reply.json["id"], "completed", True)
    assert response["output"][-1]["content"][0]["text"] == SPEECH.text
    assert "background" not in upstream.seen[0].json
    assert upstream.seen[0].json["stream"] is True


@DIALECTS
async def test_the_stream_of_a_job_is_gap_free_and_names_the_job_alone(start, upstream, dialect):
    tandem = await start(one_dialect(dialect, upstream.base_url))
    upstream.scripts = [speak(dialect, SPEECH)]

    reply = await call(tandem.port, "/v1/responses", ask(stream=True))
    events = events_in(reply.body)
    job_id = events[0]["response"]["id"]
    again = events_in((await read_log(tandem, job_id)).body)

    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert {event["response"]["id"] for event in events if "response" in event} == {job_id}
    assert job_id == f"resp_{reply.headers['x-tandem-request-id'].removeprefix('req_')}"
    assert (events[0]["type"], events[-1]["type"]) == ("response.created", "response.completed")
    assert again == events


@DIALECTS
async def test_a_later_request_goes_on_from_a_job_by_its_id(start, upstream, dialect):
    tandem = await start(one_dialect(dialect, upstream.base_url))
    upstream.scripts = [speak(dialect, Speech("the secret is 4711")), speak(dialect, Speech("4711"))]

    job_id = await begin(tandem)
    await poll(tandem, job_id)
    body = {"model": "auto", "input": "what was it?", "previous_response_id": job_id}
    reply = await call(tandem.port, "/v1/responses", body)

    assert reply.status == 200
    assert "the secret is 4711" in json.dumps(upstream.seen[1].json)
    items = (await call(tandem.port, f"/v1/responses/{job_id}/input_items")).json["data"]
    assert [item["role"] for item in items] == ["user"]


@DIALECTS
@pytest.mark.parametrize("way", ["whole", "streamed", "in the background"])
async def test_what_continues_a_job_names_it_whatever_its_upstream_speaks(start, upstream, dialect, way):
    tandem = await start(one_dialect(dialect, upstream.base_url))
    upstream.scripts = [speak(dialect, SPEECH)]
    job_id = await begin(tandem)
    await poll(tandem, job_id)

    more = {"whole": {}, "streamed": {"stream": True}, "in the background": {"background": True, "stream": True}}[way]
    body = {"model": "auto", "input": "and then?", "previous_response_id": job_id, **more}
    reply = await call(tandem.port, "/v1/responses", body)

    told = [event["response"] for event in events_in(reply.body) if "response" in event] if more else [reply.json]
    kept = (await call(tandem.port, f"/v1/responses/{told[-1]['id']}")).json
    assert len(told) >= (2 if more else 1)
    assert {response["previous_response_id"] for response in (*told, kept)} == {job_id}


async def test_the_answer_of_a_job_is_recorded_once_under_the_id_of_its_request(start, upstream):
    tandem = await start(one_dialect("chat", upstream.base_url))
    upstream.scripts = [speak("chat", SPEECH)]

    job_id = await begin(tandem)
    await poll(tandem, job_id)

    (entry,) = await tandem.entries()
    assert (entry["id"], entry["outcome"]) == (f"req_{job_id.removeprefix('resp_')}", "SERVED")
    assert entry["job"] == job_id
    assert (await call(tandem.port, f"/tandem/decisions/{entry['id']}")).status == 200


async def test_a_caller_that_hangs_up_right_after_the_id_loses_nothing(start, upstream):
    steps = asyncio.Semaphore(0)
    tandem = await start(one_dialect("chat", upstream.base_url))
    upstream.scripts = [speak_in_steps("chat", SPEECH, steps)]

    reader, writer = await asyncio.open_connection("127.0.0.1", tandem.port)
    writer.write(request_bytes("/v1/responses", ask(stream=True)))
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    writer.transport.abort()
    job_id = f"resp_{head.partition('x-tandem-request-id: req_')[2].split()[0]}"
    await upstream.arrived.wait()
    for _ in range(MANY):
        steps.release()

    assert (await poll(tandem, job_id))["status"] == "completed"


async def test_streams_that_are_cut_anywhere_and_resumed_are_what_the_uncut_one_is(start, upstream):
    chance = random.Random(7)
    tandem = await start(one_dialect("chat", upstream.base_url))
    upstream.scripts = [speak("chat", Speech(" ".join(f"word {number}" for number in range(300))))]
    job_id = await begin(tandem)
    await poll(tandem, job_id)
    uncut = (await read_log(tandem, job_id)).body

    for _ in range(20):
        joined = b""
        for _ in range(chance.randint(1, 20)):
            last = events_in(joined)[-1]["sequence_number"] if joined else -1
            piece = await read_some(tandem, job_id, last, chance.randint(1, len(uncut) // 3))
            joined += piece[: piece.rfind(b"\n\n") + 2] if b"\n\n" in piece else b""
        last = events_in(joined)[-1]["sequence_number"] if joined else None
        joined += (await read_log(tandem, job_id, last)).body

        assert joined == uncut


async def test_a_reader_of_a_running_job_gets_the_rest_as_it_comes(start, upstream):
    steps = asyncio.Semaphore(4)
    tandem = await start(one_dialect("responses", upstream.base_url))
    upstream.scripts = [speak_in_steps("responses", SPEECH, steps)]
    job_id = await begin(tandem)

    first = await read_some(tandem, job_id, -1, 200)
    reading = later(read_log(tandem, job_id, 2))
    running = await call(tandem.port, f"/v1/responses/{job_id}")
    for _ in range(MANY):
        steps.release()
    rest = events_in((await reading).body)

    assert first.startswith(b"event: response.created")
    assert (running.json["status"], running.json["output"]) == ("in_progress", [])
    assert 1_000 <= int(running.headers["openai-poll-after-ms"]) <= 5_000
    assert [event["sequence_number"] for event in rest] == list(range(3, 3 + len(rest)))
    assert rest[-1]["type"] == "response.completed"


async def test_cancelling_a_job_hangs_up_on_its_target_and_keeps_what_was_said(start, upstream):
    steps = asyncio.Semaphore(14)
    tandem = await start(one_dialect("responses", upstream.base_url))
    upstream.scripts = [speak_in_steps("responses", SPEECH, steps)]
    job_id = await begin(tandem)
    await read_some(tandem, job_id, 9, 20)

    cancelled = await call(tandem.port, f"/v1/responses/{job_id}/cancel", {})
    await upstream.seen[0].left.wait()
    again = await call(tandem.port, f"/v1/responses/{job_id}/cancel", {})
    events = events_in((await read_log(tandem, job_id)).body)

    assert (cancelled.json["status"], again.json) == ("cancelled", cancelled.json)
    assert cancelled.json["output"][0]["type"] == "reasoning"
    assert (events[-1]["type"], events[-1]["response"]) == ("response.incomplete", cancelled.json)
    assert (await call(tandem.port, f"/v1/responses/{job_id}")).json["status"] == "cancelled"


async def test_a_job_that_is_deleted_stops_and_is_not_found_again(start, upstream):
    tandem = await start(one_dialect("responses", upstream.base_url))
    upstream.scripts = [speak_in_steps("responses", SPEECH, asyncio.Semaphore(4))]
    job_id = await begin(tandem)
    await upstream.arrived.wait()

    deleted = await call(tandem.port, f"/v1/responses/{job_id}", method="DELETE")
    await upstream.seen[0].left.wait()

    assert deleted.json == {"id": job_id, "object": "response", "deleted": True}
    assert (await call(tandem.port, f"/v1/responses/{job_id}")).status == 404
    assert (await read_log(tandem, job_id)).status == 404
    assert (await call(tandem.port, "/tandem/jobs")).json["data"] == []


async def test_another_callers_job_is_nowhere(start, upstream, tmp_path):
    callers = Callers(tmp_path, ann={}, bob={}, root={"admin": True})
    tandem = await start(one_dialect("chat", upstream.base_url, extra=KEYS))
    upstream.scripts = [speak("chat", SPEECH)]
    job_id = await begin(tandem, callers["ann"])
    await poll(tandem, job_id, callers["ann"])
    one = f"/v1/responses/{job_id}"

    def guess(path: str, body: object = None, method: str | None = None):
        return call(tandem.port, path, body, callers["bob"], method)

    guessed = [
        await guess(one),
        await guess(f"{one}?stream=true"),
        await guess(f"{one}?stream=true&starting_after=0"),
        await guess(f"{one}/cancel", {}),
        await guess(f"{one}/input_items"),
        await guess(one, method="DELETE"),
        await guess(f"/tandem/jobs/{job_id}"),
    ]
    listed = [(await call(tandem.port, "/tandem/jobs", headers=callers[name])).json["data"] for name in ("ann", "bob", "root")]

    assert [reply.status for reply in guessed] == [404] * len(guessed)
    assert [[job["id"] for job in jobs] for jobs in listed] == [[job_id], [], [job_id]]
    shown = (await call(tandem.port, f"/tandem/jobs/{job_id}", headers=callers["root"])).json
    assert [job["title"] for job in (*listed[0], *listed[2], shown)] == ["plan the migration", "", ""]
    assert (await call(tandem.port, one, headers=callers["ann"])).status == 200


async def test_a_key_without_the_right_has_no_jobs_and_one_with_a_limit_so_many(start, upstream, tmp_path):
    callers = Callers(tmp_path, ann={"may_delegate": False}, bob={"jobs_in_flight": 1})
    tandem = await start(one_dialect("chat", upstream.base_url, extra=KEYS))
    upstream.scripts = [speak_in_steps("chat", SPEECH, asyncio.Semaphore(0))]

    refused = await call(tandem.port, "/v1/responses", ask(), callers["ann"])
    await begin(tandem, callers["bob"])
    second = await call(tandem.port, "/v1/responses", ask(), callers["bob"])

    assert (refused.status, refused.json["error"]["code"]) == (403, "not_permitted")
    assert (second.status, second.json["error"]["code"]) == (429, "too_many_jobs")
    assert int(second.headers["retry-after"]) >= 1


async def test_a_request_that_cannot_be_a_job_is_refused_at_once_and_none_is_made(simulated):
    bodies = [
        ask(model="nobody/knows"),
        ask(store=False),
        ask(n=2),
        ask(stream_options={"include_obfuscation": False}),
        ask(input=None),
    ]
    replies = [await call(simulated.port, "/v1/responses", body) for body in bodies]
    counted = await call(simulated.port, "/v1/responses/input_tokens", ask())

    assert [reply.status for reply in replies] == [404, *[400] * 4]
    assert [reply.json["error"]["param"] for reply in replies[1:4]] == ["store", "n", "stream_options"]
    assert counted.status == 400
    assert (await call(simulated.port, "/tandem/jobs")).json["data"] == []


async def test_nothing_of_a_router_without_jobs_shows_that_there_could_be_some(simulated, tmp_path):
    await call(simulated.port, "/v1/responses", {"model": "auto", "input": "hi"})

    assert simulated.built.jobs.runner is None
    assert not (tmp_path / "jobs.db").exists()
    assert (await call(simulated.port, "/tandem/jobs")).json["data"] == []


async def test_what_may_not_be_asked_of_a_job_is_refused(simulated):
    job_id = await begin(simulated)
    await poll(simulated, job_id)

    asked = ["starting_after=-1", "starting_after=x", "starting_after=1.5", "starting_after=99999999999999999999"]
    replies = [await call(simulated.port, f"/v1/responses/{job_id}?stream=true&{query}") for query in asked]
    polls = [await call(simulated.port, f"/v1/responses/{job_id}") for _ in range(40)]

    assert [(reply.status, reply.json["error"]["param"]) for reply in replies] == [(400, "starting_after")] * 4
    assert (await call(simulated.port, "/tandem/jobs?state=lost")).status == 400
    assert (await call(simulated.port, "/tandem/jobs?limit=0")).status == 400
    assert (await read_log(simulated, job_id, 10**9)).body == b""
    assert {reply.status for reply in polls} == {200, 429}
    assert all(reply.headers["retry-after"] == "1" for reply in polls if reply.status == 429)


async def test_a_refused_job_fails_in_the_words_of_its_target(start, upstream):
    tandem = await start(one_dialect("chat", upstream.base_url))
    upstream.scripts = [answer_json({"error": {"message": "no such knob", "code": "bad_knob"}}, status=400)]

    job_id = await begin(tandem)
    response = await poll(tandem, job_id)
    events = events_in((await read_log(tandem, job_id)).body)

    assert (response["status"], response["error"]["code"], response["error"]["reason"]) == (
        "failed",
        "invalid_prompt",
        "bad_knob",
    )
    assert "no such knob" in response["error"]["message"]
    assert [event["type"] for event in events] == ["response.created", "response.failed"]


@DIALECTS
async def test_a_target_that_breaks_off_leaves_a_failed_response_with_what_it_said(start, upstream, dialect):
    tandem = await start(one_dialect(dialect, upstream.base_url))
    upstream.scripts = [speak(dialect, SPEECH, ends=False)]

    job_id = await begin(tandem)
    response = await poll(tandem, job_id)
    events = events_in((await read_log(tandem, job_id)).body)

    assert (response["status"], response["error"]["code"], response["error"]["reason"]) == (
        "failed",
        "server_error",
        "upstream_cut",
    )
    assert SPEECH.text in json.dumps(response["output"])
    assert (events[-1]["type"], events[-1]["response"]) == ("response.failed", response)
    assert [event["sequence_number"] for event in events] == list(range(len(events)))


async def test_a_repeated_idempotency_key_gets_the_same_job(simulated):
    headers = {"idempotency-key": "once"}

    first = await call(simulated.port, "/v1/responses", ask(), headers)
    second = await call(simulated.port, "/v1/responses", ask(), headers)

    assert first.json["id"] == second.json["id"]
    assert len((await call(simulated.port, "/tandem/jobs")).json["data"]) == 1


def has_content(path: Path) -> bool:
    """Whether a job has output. Reading its log would count as handing it out."""
    with contextlib.closing(sqlite3.connect(path)) as database:
        return bool(database.execute("SELECT count(*) FROM segments WHERE has_content").fetchone()[0])


@pytest.mark.parametrize("was_read", [False, True])
async def test_the_next_router_begins_a_job_again_unless_its_caller_has_read_some_of_it(upstream, tmp_path, was_read):
    config = one_dialect("responses", upstream.base_url)
    upstream.scripts = [speak_in_steps("responses", SPEECH, asyncio.Semaphore(8)), speak("responses", SPEECH)]
    async with running(config, tmp_path) as first:
        job_id = await begin(first)
        await until(lambda: has_content(tmp_path / "jobs.db"))
        if was_read:
            await read_some(first, job_id, -1, 2_000)

    async with running(config, tmp_path) as second:
        response = await poll(second, job_id)
        (job,) = (await call(second.port, "/tandem/jobs")).json["data"]

    if was_read:
        assert (response["status"], response["error"]["reason"], job["attempts"]) == ("failed", "interrupted", 1)
    else:
        assert (response["status"], job["attempts"]) == ("completed", 2)


async def test_a_running_job_keeps_the_plan_that_it_began_with(start, upstream, other_upstream):
    steps = asyncio.Semaphore(2)
    tandem = await start(one_dialect("chat", upstream.base_url))
    upstream.scripts, other_upstream.scripts = [speak_in_steps("chat", SPEECH, steps)], [speak("chat", Speech("elsewhere"))]
    first = await begin(tandem)
    await upstream.arrived.wait()

    swap(tandem, one_dialect("chat", other_upstream.base_url).replace("quick", "brisk").replace("thorough", "careful"))
    for _ in range(MANY):
        steps.release()
    second = await begin(tandem)

    assert (await poll(tandem, first))["output"][-1]["content"][0]["text"] == SPEECH.text
    assert (await poll(tandem, second))["output"][-1]["content"][0]["text"] == "elsewhere"


async def test_no_key_of_a_caller_is_written_into_a_job(start, tmp_path):
    tandem = await start(SIMULATED)
    headers = {"authorization": "Bearer sk-canary", "x-api-key": "sk-canary", "cookie": "sk-canary", "x-my-token": "sk-canary"}

    job_id = await begin(tandem, {**headers, "x-request-tag": "kept"})
    await poll(tandem, job_id)
    await tandem.built.close()

    assert all(b"sk-canary" not in path.read_bytes() for path in tmp_path.glob("jobs.db*"))


async def test_a_target_that_takes_its_callers_key_serves_no_job(start, upstream):
    config = one_dialect("chat", upstream.base_url).replace("model: some-model,", "model: some-model, api_key: caller,")
    tandem = await start(config)

    reply = await call(tandem.port, "/v1/responses", ask(), {"authorization": "Bearer sk-own"})

    assert (reply.status, reply.json["error"]["param"]) == (400, "background")
    assert "your own key" in reply.json["error"]["message"]


async def test_a_router_whose_shared_database_is_away_starts_and_serves_all_but_jobs(start, monkeypatch, tmp_path):
    pytest.importorskip("asyncpg")
    monkeypatch.setenv("TANDEM_POSTGRES_URL", f"postgresql://nobody@/nothing?host={tmp_path}")
    tandem = await start(SIMULATED + "shared: {postgres: {url: env:TANDEM_POSTGRES_URL}}\n")

    refused = await call(tandem.port, "/v1/responses", ask())
    unknown = await call(tandem.port, "/v1/responses/resp_1")
    served = await call(tandem.port, "/v1/responses", {"model": "auto", "input": "in front"})
    kept = await call(tandem.port, f"/v1/responses/{served.json['id']}")

    codes = [(reply.status, reply.json["error"]["code"]) for reply in (refused, unknown)]
    assert codes == [(503, "jobs_unavailable"), (503, "store_unavailable")]
    assert str(tmp_path) not in refused.body.decode()
    assert (served.status, kept.status) == (200, 200)


async def test_jobs_in_a_file_of_another_router_are_said_to_be_there_until_that_router_stops(start, monkeypatch, tmp_path):
    async with running(SIMULATED, tmp_path) as first:
        await poll(first, job_id := await begin(first))
        second = await start(SIMULATED.replace("test.db", "two.db"))
        own = (await call(second.port, "/v1/responses", {"model": "auto", "input": "in front"})).json["id"]

        paths = (f"/v1/responses/{job_id}", f"/v1/responses/{job_id}?stream=true", "/tandem/jobs", f"/tandem/jobs/{job_id}")
        refused = [await call(second.port, path) for path in paths]
        refused.append(await call(second.port, "/v1/responses", ask()))
        kept = await call(second.port, f"/v1/responses/{own}")
        deleted = await call(second.port, f"/v1/responses/{own}", headers={}, method="DELETE")

    for reply in refused:
        assert (reply.status, reply.json["error"]["code"]) == (503, "jobs_unavailable")
        assert "jobs.db is in use by another router" in reply.json["error"]["message"]
        assert float(reply.headers["retry-after"]) > 0
        assert str(tmp_path) not in reply.body.decode()
    assert (kept.status, deleted.status) == (200, 200)
    monkeypatch.setattr(jobs, "COME_BACK_SECONDS", 0.0)
    assert (await call(second.port, f"/v1/responses/{job_id}")).json["status"] == "completed"


async def test_an_admin_cancels_anybodys_job_by_its_callers_name_and_others_do_not_know_it(start, upstream, tmp_path):
    callers = Callers(tmp_path, ann={}, bob={}, root={"admin": True})
    tandem = await start(one_dialect("chat", upstream.base_url, extra=f"jobs: {{most_for_a_caller: 1}}\n{KEYS}"))
    upstream.scripts = [speak_in_steps("chat", SPEECH, asyncio.Semaphore(2))]
    running, waiting = await begin(tandem, callers["ann"]), await begin(tandem, callers["ann"])
    await until(lambda: upstream.seen)

    async def cancel(job_id, who, whose):
        path = f"/tandem/jobs/{job_id}/cancel?caller={whose}"
        return await call(tandem.port, path, {}, callers[who])

    for who, whose in (("bob", "ann"), ("bob", "bob"), ("root", "bob"), ("root", "")):
        refused = await cancel(waiting, who, whose)
        assert (refused.status, refused.json["error"]["code"]) == (404, "job_not_found")
    for job_id in (waiting, running):
        told = (await cancel(job_id, "root", "ann")).json
        assert (told["id"], told["caller"], told["title"]) == (job_id, "ann", "")
        assert (await poll(tandem, job_id, callers["ann"]))["status"] == "cancelled"
    assert (await cancel(await begin(tandem, callers["bob"]), "bob", "")).status == 200
    assert len(upstream.seen) <= 2
