"""A router whose time of day is wrong for a moment: budgets are right at once, and nothing is deleted."""

import contextlib
import os
import re
import sys
from asyncio import create_subprocess_exec
from datetime import UTC, datetime

from tests.tools.background import FINAL, SPEECH
from tests.tools.http import call
from tests.tools.running import one_dialect
from tests.tools.speech import write_stream
from tests.tools.upstream import answer_json, stream
from tests.tools.waiting import until
from tests.walk.test_callers_budgets import Keys

HOUR, DAY = 3_600, 86_400
MOVED = """
import time

real = time.time
time.time = lambda: real() + float(open({file!r}).read())
"""
ANSWER = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "some-model",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "Done."}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 20, "completion_tokens": 8_000, "total_tokens": 8_020},
}


class Machine:
    """A router as a process, with a time of day that is moved by hand."""

    def __init__(self, folder, keys: Keys) -> None:
        self._folder, self.keys, self.port = folder, keys, 0
        self.move(0)
        (folder / "moved").mkdir()
        (folder / "moved" / "sitecustomize.py").write_text(MOVED.format(file=str(folder / "offset")))

    def move(self, seconds: float) -> None:
        (self._folder / "new").write_text(str(seconds))
        (self._folder / "new").replace(self._folder / "offset")

    @contextlib.asynccontextmanager
    async def serve(self):
        log, environment = self._folder / "log", {**os.environ, "PYTHONPATH": str(self._folder / "moved")}
        command = [sys.executable, "-m", "router.cli", "serve", "--config", str(self._folder / "config.yaml"), "--port", "0"]
        with log.open("wb") as file:
            process = await create_subprocess_exec(*command, stderr=file, env=environment)
        try:
            await until(lambda: b"server.started" in log.read_bytes(), 60)
            self.port = int(re.search(rb"http://127\.0\.0\.1:(\d+)", log.read_bytes())[1])
            yield
        finally:
            process.terminate()
            await process.wait()

    async def ask(self, **more):
        body = {"model": "fast", "input": "say when it is done", "max_output_tokens": 10_000, "store": True, **more}
        return await call(self.port, "/v1/responses", body, headers=self.keys.headers)

    async def get(self, path: str):
        return await call(self.port, path, headers=self.keys.headers)

    async def spent(self) -> float:
        return round((await self.get("/tandem/stats")).json["budget"]["day"]["spent_usd"], 2)


async def test_a_clock_that_is_wrong_for_a_moment_changes_no_budget_and_deletes_nothing(tmp_path, upstream):
    keys = Keys(tmp_path)
    keys.write("daily_usd: 1.0")
    zone = f"Etc/GMT{datetime.now(UTC).hour - 12:+d}"  # about noon there: no day ends during a test
    extra = f"keys: {{file: keys.yaml}}\nbudgets: {{time_zone: {zone}}}\nstore: {{path: responses.db}}"
    config = one_dialect("chat", upstream.base_url, extra=extra)
    (tmp_path / "config.yaml").write_text(config.replace("window_tokens", "price: {input: 1, output: 10}, window_tokens"))
    streamed = stream(*write_stream("chat", SPEECH))

    async def answer(wire, seen) -> None:
        await (streamed if seen.json.get("stream") else answer_json(ANSWER))(wire, seen)

    upstream.scripts, machine = [answer], Machine(tmp_path, keys)
    async with machine.serve():
        first = (await machine.ask()).json["id"]
        job = (await machine.ask(background=True)).json["id"]
        await until(lambda: is_over(machine, job))
        spent = await machine.spent()

        for seconds in (40 * DAY, 3 * HOUR, -HOUR):
            machine.move(seconds)
            assert (await machine.ask()).status == 200
            for kept in (first, job):
                assert (await machine.get(f"/v1/responses/{kept}")).status == 200
        machine.move(0)
        assert await machine.spent() == round(spent + 0.16, 2)  # the first of the three is of another day

    async with machine.serve():
        assert await machine.spent() == round(spent + 0.16, 2)
        for kept in (first, job):
            assert (await machine.get(f"/v1/responses/{kept}")).status == 200


async def is_over(machine: Machine, job: str) -> bool:
    return (await machine.get(f"/v1/responses/{job}")).json["status"] in FINAL
