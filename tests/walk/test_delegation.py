"""Delegation from commands and tools to the router's API and back."""

import asyncio
import json
from functools import partial

import pytest

from router.cli import main
from router.cli.background import Jobs, text_of
from router.cli.mcp_calls import Delegation
from router.cli.mcp_tools import TOOLS
from router.cli.watching import follow_to_the_end
from tests.conftest import SIMULATED
from tests.tools.background import SPEECH, begin, poll
from tests.tools.http import call
from tests.tools.keyed import KEYS, Callers
from tests.tools.running import one_dialect, two_targets
from tests.tools.speech import speak
from tests.tools.toxic import Toxic, Toxics
from tests.tools.upstream import silent


@pytest.fixture
def tandem_command(capsys, monkeypatch, tmp_path):
    """Run a command in a thread, since the router has the test's loop."""
    monkeypatch.chdir(tmp_path)

    async def run(*arguments: str) -> tuple[int, str, str]:
        code = await asyncio.to_thread(main, list(arguments))
        return code, *capsys.readouterr()

    return run


async def test_a_task_is_delegated_watched_listed_and_collected(simulated, tandem_command, tmp_path):
    (tmp_path / "queue.py").write_text("def put(): ...\n")
    at = ("--url", simulated.url)

    code, watched, err = await tandem_command(
        "delegate", "find the race", "--file", "queue.py", "--tier", "deep", "--wait", *at
    )
    _, listed, _ = await tandem_command("jobs", "list", "--json", *at)
    (job,) = json.loads(listed)
    result_code, result, _ = await tandem_command("jobs", "result", job["id"], *at)
    _, shown, _ = await tandem_command("jobs", "show", job["id"], *at)

    assert (code, result_code) == (0, 0)
    assert "simulated deep tier" in watched
    assert result == watched
    assert job["title"].startswith("find the race")
    assert ["state", "completed"] in [line.split() for line in shown.splitlines()]
    assert job["id"] in err


async def test_an_answer_that_is_cut_again_and_again_is_whole_in_the_end(simulated):
    jobs = Jobs(simulated.url)
    started = await asyncio.to_thread(jobs.start, {"model": "deep", "input": "think"})
    whole = await asyncio.to_thread(lambda: list(jobs.follow(started["id"])))
    seen = []

    async with Toxic(simulated.url) as relay:
        largest = max(len(json.dumps(event)) for _, event in whole)
        relay.toxics = Toxics(limit_bytes=largest + 1_000)  # the head and one event get through
        cut = Jobs(relay.base_url)
        response = await asyncio.to_thread(
            follow_to_the_end, cut, started["id"], lambda name, event: seen.append((name, event)), lambda _: None
        )

        assert relay.connections > 3
    assert seen == whole
    assert response["status"] == "completed"


async def test_cancelling_a_job_closes_its_upstream(start, upstream, tandem_command):
    upstream.scripts = [silent]
    tandem = await start(one_dialect("chat", upstream.base_url))
    at = ("--url", tandem.url)
    _, out, _ = await tandem_command("delegate", "think for ever", *at)
    job_id = out.strip()
    await upstream.arrived.wait()

    unfinished, _, why = await tandem_command("jobs", "result", job_id, *at)
    code, _, said = await tandem_command("jobs", "cancel", job_id, *at)
    await upstream.seen[0].left.wait()
    result_code, _, ended = await tandem_command("jobs", "result", job_id, *at)

    assert (unfinished, code, result_code) == (1, 0, 1)
    assert f"{job_id} is not finished: running" in why
    assert f"{job_id} is cancelled" in said
    assert ended == "cancelled\n"


async def test_tools_delegate_and_collect_at_a_router(start, upstream):
    upstream.scripts = [speak("chat", SPEECH)]
    tandem = await start(one_dialect("chat", upstream.base_url))
    jobs = Jobs(tandem.url)
    delegate, _, collect, _, list_all = (partial(asyncio.to_thread, Delegation(jobs).call, tool) for tool in TOOLS)

    started = await delegate({"task": "find the race", "context": "def put(): ..."})
    job_id = started.text.split('"')[1]
    collected = await collect({"id": job_id, "wait_seconds": 50})
    listed = await list_all({})

    assert collected == (SPEECH.text, False)
    assert listed.text.startswith(f"{job_id}: completed")
    assert text_of(await asyncio.to_thread(jobs.read, job_id)) == SPEECH.text
    assert "tools" not in upstream.seen[0].json


async def test_anothers_job_is_unknown_to_every_command(start, tandem_command, tmp_path, monkeypatch):
    callers = Callers(tmp_path, ada={}, bob={})
    tandem = await start(SIMULATED + KEYS)
    for name in ("ada", "bob"):
        monkeypatch.setenv(name.upper(), callers[name]["authorization"].removeprefix("Bearer "))
    _, out, _ = await tandem_command("delegate", "think", "--url", tandem.url, "--key-env", "ADA")

    for action in ("show", "watch", "result", "cancel"):
        code, said, why = await tandem_command("jobs", action, out.strip(), "--url", tandem.url, "--key-env", "BOB")
        assert (code, said) == (1, "")
        assert f"there is no job {out.strip()}" in why
    code, _, why = await tandem_command("jobs", "list", "--url", tandem.url, "--key-env", "BOB")
    assert "there are no jobs" in why


@pytest.mark.parametrize("fast_key", ["", "api_key: caller,"], ids=["our-keys", "callers-keys"])
async def test_without_keys_everybody_at_the_machine_knows_every_job(start, upstream, tandem_command, monkeypatch, fast_key):
    upstream.scripts = [speak("chat", SPEECH), speak("chat", SPEECH), silent]
    tandem = await start(two_targets(upstream.base_url, upstream.base_url, fast_extra=fast_key))
    monkeypatch.setenv("MADE_UP", "sk-made-up")
    at, other = ("--url", tandem.url), ("--url", tandem.url, "--key-env", "MADE_UP")
    sdk = {"authorization": "Bearer sk-of-an-sdk"}

    begun = await begin(tandem, sdk, model="deep", text="find the race")
    await poll(tandem, begun, sdk)
    _, listed, _ = await tandem_command("jobs", "list", "--json", *at)
    shown_code, shown, _ = await tandem_command("jobs", "show", begun, *at)
    results = [await tandem_command("jobs", "result", begun, *way) for way in (at, other)]
    _, delegated, _ = await tandem_command("delegate", "review it", "--tier", "deep", *at)
    collected = await poll(tandem, delegated.strip(), sdk)
    running = await begin(tandem, sdk, model="deep")
    cancelled, _, _ = await tandem_command("jobs", "cancel", running, *at)
    deleted = await call(tandem.port, f"/v1/responses/{begun}", b"", method="DELETE")

    assert [job["title"] for job in json.loads(listed)] == ["find the race"]
    assert (shown_code, "find the race" in shown) == (0, True)
    assert [(code, out.strip()) for code, out, _ in results] == [(0, SPEECH.text)] * 2
    assert collected["output"][-1]["content"][0]["text"] == SPEECH.text
    assert (cancelled, (await poll(tandem, running, sdk))["status"]) == (0, "cancelled")
    assert deleted.status == 200
    assert (await call(tandem.port, f"/v1/responses/{begun}", headers=sdk)).status == 404
