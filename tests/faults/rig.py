"""A Tandem before two upstreams, one behind a toxic relay, and the rules that hold whatever breaks.

A test says what must become of its own request. At its end, the next request is served, nothing is left behind, every request
has one entry, and no secret was shown.
"""

import asyncio
import contextlib
import itertools
import json
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from tests.tools.http import Reply, call
from tests.tools.raw import Caller
from tests.tools.running import Running, read_entries, running
from tests.tools.speech import Speech, speak
from tests.tools.toxic import Toxic, Toxics
from tests.tools.upstream import Upstream
from tests.tools.waiting import until

PATHS = {"chat": "/v1/chat/completions", "responses": "/v1/responses", "messages": "/v1/messages"}
TERMINAL = {"chat": b"[DONE]", "responses": b"response.completed", "messages": b"message_stop"}
DIALECTS = list(PATHS)
KEY = "sk-canary-upstream"
PROMPT = "canary-prompt: fix the typo in this line: retrun x"
GOOD = Speech("a small answer to a small question")
STRAIGHT = [(dialect, dialect) for dialect in DIALECTS]
BRIDGED = [("responses", "chat"), ("messages", "responses"), ("chat", "messages")]
"""The caller's dialect and the target's."""


def spread(*values: object) -> list[tuple]:
    """Each value with one straight and one bridged pair of dialects, so that three values meet all of them."""
    pairs = zip(STRAIGHT, BRIDGED, strict=True)
    turns = itertools.cycle(pairs)
    return [(*pair, value) for value, both in zip(values, turns, strict=False) for pair in both]


def ask_in(dialect: str, text: str = PROMPT, **more: object) -> dict:
    """A minimal request, which goes to fast."""
    words = [{"role": "user", "content": text}]
    own = {"chat": {"messages": words}, "responses": {"input": words}, "messages": {"messages": words, "max_tokens": 99}}
    return {"model": "auto", **own[dialect], **more}


def config_of(dialect: str, fast: str, deep: str, *, fast_extra: str = "", extra: str = "") -> str:
    """One target per tier, `spark` and `sage`, of one dialect. Only `sage` has the larger window."""
    adapter = "anthropic_http" if dialect == "messages" else "openai_http"

    def address(url: str) -> str:
        return url.removesuffix("/v1") if dialect == "messages" else url

    common = f"adapter: {adapter}, dialect: {dialect}, model: some-model, api_key: 'env:RIG_KEY'"
    return f"""
ledger: {{path: test.db}}
tiers:
  fast:
    targets:
      - {{name: spark, {common}, base_url: "{address(fast)}", window_tokens: 100000, {fast_extra}
         accepts: [text, tools, custom_tools, json_schema, reasoning],
         typical: {{ttft_seconds: 0.2, tokens_per_second: 1000, prefill_tokens_per_second: 60000}}}}
  deep:
    targets:
      - {{name: sage, {common}, base_url: "{address(deep)}", window_tokens: 400000,
         accepts: [text, tools, images, files, custom_tools, json_schema, reasoning]}}
{extra}
"""


class Rig:
    """`fast` is behind `toxic`; `deep` answers well unless a test says otherwise."""

    def __init__(self, tandem: Running, fast: Upstream, deep: Upstream, toxic: Toxic, dialect: str) -> None:
        self.tandem, self.fast, self.deep, self.toxic, self.dialect = tandem, fast, deep, toxic, dialect
        self.replies: list[Reply] = []
        self.asked: list[str] = []
        """Ids of admitted requests, without those of raw callers."""
        self.expected: list[dict] = []
        self.names_a_time = False
        """Targets asked for a pause, so the last request may be told to wait."""

    async def ask(self, dialect: str | None = None, *, headers: dict[str, str] | None = None, **more: object) -> Reply:
        """A request in this dialect, or the target's own, read to its end."""
        dialect = dialect or self.dialect
        reply = await call(self.tandem.port, PATHS[dialect], ask_in(dialect, **more), headers)
        self.replies.append(reply)
        self.asked.append(reply.headers["x-tandem-request-id"])
        return reply

    @contextlib.asynccontextmanager
    async def caller(self) -> AsyncIterator[Caller]:
        self.asked.append("")
        async with Caller(self.tandem.port) as caller:
            yield caller

    def expect(self, outcome: str, error: str | None = None, **more: object) -> None:
        """The next request's entry, in order of asking: `attempts` are pairs of target and status."""
        self.expected.append({"outcome": outcome, "error": error, **more})

    async def serve_once_more(self) -> None:
        """The next request is served, and nothing of any request is left."""
        self.toxic.toxics = Toxics()
        self.fast.scripts = self.deep.scripts = [speak(self.dialect, GOOD)]
        last = await self.ask(model="deep")
        assert last.status == 200 or (self.names_a_time and last.status == 429)
        await until(self._is_at_rest)

    def check(self, log: str) -> None:
        """After the close: each request has one entry with its true outcome, and no secret was shown."""
        entries = {entry["id"]: entry for entry in read_entries(self.tandem.loaded.ledger_path)}
        assert len(entries) == len(self.asked)
        unnamed = [entry for name, entry in entries.items() if name not in self.asked]
        for name, expected in zip(self.asked, self.expected, strict=False):
            entry = entries[name] if name else unnamed.pop(0)
            attempts = [(row["target"], row["status"]) for row in json.loads(entry["attempts"])]
            found = {name: {**entry, "attempts": attempts}[name] for name in expected}
            assert found == expected, f"{found} instead of {expected}"
        self._check_secrets(log)

    def _is_at_rest(self) -> bool:
        house = self.tandem.house
        live, targets = house.state.live, house.plan.targets
        under_way = sum(status.in_flight for status in live.statuses(targets, house.clock() + 1).values())
        paid = live.retries.under_way.total()
        return not (house.state.running or self.tandem.admission.in_flight or under_way or paid)

    def _check_secrets(self, log: str) -> None:
        said = [f"{reply.headers} {reply.body.decode('utf-8', 'replace')}" for reply in self.replies]
        stored = b"".join(path.read_bytes() for path in self.tandem.loaded.ledger_path.parent.glob("test.db*"))
        texts = {"an answer": " ".join(said), "the log": log, "the ledger": stored.decode("utf-8", "replace")}
        for secret in (
            KEY,
            PROMPT,
            "Traceback",
            ".py",
            "fault.caught",
            "bridge.failed",
            f"127.0.0.1:{self.toxic.port}",
            "RIG_KEY",
        ):
            for name, text in texts.items():
                assert secret not in text, f"{secret} is in {name}"


def check_refusal(reply: Reply, dialect: str, status: int, code: str) -> str:
    """A refusal in this dialect. Returns its message."""
    assert (reply.status, reply.headers["content-type"]) == (status, "application/json"), reply
    body, request_id = reply.json, reply.headers["x-tandem-request-id"]
    error = body["error"]
    if dialect == "messages":
        assert (body["type"], body["request_id"]) == ("error", request_id)
        assert error["type"]
    else:
        assert set(error) == {"message", "type", "param", "code", "request_id"}
        assert error["request_id"] == request_id
    assert error["code"] == code, reply
    if status == 429:
        assert 1 <= int(reply.headers["retry-after"]) <= 60
    return error["message"]


def open_sockets() -> int:
    return sum(os.readlink(f"/proc/self/fd/{name}").startswith("socket") for name in _file_handles())


def _file_handles() -> list[str]:
    return [name for name in os.listdir("/proc/self/fd") if os.path.lexists(f"/proc/self/fd/{name}")]


def other_tasks() -> set[asyncio.Task]:
    return {task for task in asyncio.all_tasks() if task is not asyncio.current_task() and not task.done()}


@contextlib.asynccontextmanager
async def rigged(
    folder: Path, dialect: str, how: dict[str, str], fast_url: str | None, read_log: Callable[[], list[dict]]
) -> AsyncIterator[Rig]:
    """A rig that leaves no socket and no task."""
    sockets, tasks = open_sockets(), other_tasks()
    fast, deep = Upstream(), Upstream()
    await fast.start()
    await deep.start()
    fast.scripts = deep.scripts = [speak(dialect, GOOD)]
    try:
        async with Toxic(fast.base_url) as toxic:
            config = config_of(dialect, fast_url or toxic.base_url, deep.base_url, **how)
            async with running(config, folder) as tandem:
                rig = Rig(tandem, fast, deep, toxic, dialect)
                yield rig
                await rig.serve_once_more()
            rig.check(json.dumps(read_log()))
    finally:
        await fast.stop()
        await deep.stop()
    await until(lambda: open_sockets() <= sockets)
    await until(lambda: not other_tasks() - tasks)
