"""A router that is paused: by Ctrl-Z, `docker pause`, a debugger. Nobody is judged silent for it, and nothing is cut."""

import asyncio
import json
import signal

from tests.faults.test_job_kills import ask as read_jobs
from tests.faults.test_ledger_kills import serving
from tests.tools.background import FINAL, SPEECH, ask
from tests.tools.http import call, chat
from tests.tools.running import one_dialect
from tests.tools.speech import write_stream
from tests.tools.upstream import CHAT_ANSWER, CHAT_STREAM_HEAD, Seen, Wire, answer_json
from tests.tools.waiting import by_the_clock, later, until

PAUSE_SECONDS = 8.0
"""Longer than a target may be silent, and than a request may take."""
LIMITS = """
limits: {stall_timeout_seconds: 3, first_byte_timeout_seconds: 3, deadline_seconds: 6}
jobs: {deadline_seconds: 6}
"""
PATH = "/v1/chat/completions"
HEAD, *REST = write_stream("chat", SPEECH)


class Target:
    """Begins each answer before the pause; the request names what it does then."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.pausing, self.over = asyncio.Event(), asyncio.Event()

    async def answer(self, wire: Wire, seen: Seen) -> None:
        text = seen.body.decode()
        kind = next(kind for kind in ("writes", "waits", "whole", "leaves") if f"{kind} in the pause" in text)
        if kind != "whole":
            await wire.send(CHAT_STREAM_HEAD)
            await wire.chunk(HEAD)
        is_again = kind == "leaves" and kind in self.begun
        self.begun.append(kind)
        await (self.over if kind == "waits" else self.pausing).wait()
        if kind == "leaves" and not is_again:
            wire.reset()
        elif kind == "whole":
            await answer_json(CHAT_ANSWER)(wire, seen)
        else:
            for frame in REST:
                await wire.chunk(frame)
            await wire.end_chunks()


async def test_what_is_under_way_when_the_router_is_paused_is_answered_whole(tmp_path, upstream):
    target = Target()
    upstream.scripts = [target.answer]
    (tmp_path / "config.yaml").write_text(one_dialect("chat", upstream.base_url, extra=LIMITS))
    async with serving(tmp_path, 0) as (process, port):
        streams = [later(call(port, PATH, chat(f"{kind} in the pause", stream=True))) for kind in ("writes", "waits")]
        whole = later(call(port, PATH, chat("whole in the pause")))
        jobs = [(await call(port, "/v1/responses", ask(f"{kind} in the pause"))).json["id"] for kind in ("writes", "leaves")]
        await until(lambda: len(target.begun) == 5)

        process.send_signal(signal.SIGSTOP)
        target.pausing.set()
        await by_the_clock(PAUSE_SECONDS)
        process.send_signal(signal.SIGCONT)
        target.over.set()

        for reply in await asyncio.gather(*streams):
            assert reply.is_whole
            assert reply.body.endswith(b"data: [DONE]\n\n")
            assert b"error" not in reply.body
        assert (await whole).status == 200
        await until(lambda: all(state in FINAL for (state,) in read_jobs(tmp_path / "jobs.db", "SELECT state FROM jobs")))
        for job_id in jobs:
            assert (await call(port, f"/v1/responses/{job_id}")).json["status"] == "completed"

    log = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines() if line.startswith("{")]
    attempts = {job_id: [line["attempt"] for line in log if line.get("job") == job_id and "attempt" in line] for job_id in jobs}
    assert list(attempts.values()) == [[1], [1, 2]]
