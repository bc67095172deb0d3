"""What only llama.cpp itself can show: real words and counts in every dialect, and real clients in front of it."""

import asyncio
import contextlib
import json
import os
import socket
import sys

import pytest
import yaml

from tests.engine.engine import LlamaServer
from tests.engine.test_engines import config, events
from tests.tools.clients import folder_of_command, make_scratch, run_client
from tests.tools.http import Reply, call
from tests.tools.running import read_entries
from tests.tools.waiting import until

pytestmark = [pytest.mark.engine, pytest.mark.timeout(300)]
QUESTION = "Name the capital of France in one short sentence."
CALM = {"temperature": 0, "top_k": 1}
PATHS = {"chat": "/v1/chat/completions", "responses": "/v1/responses", "messages": "/v1/messages"}


@pytest.fixture
def kind() -> str:
    return "llama.cpp"


def ask(dialect: str, *, streams: bool) -> dict:
    body = {"model": "fast", "stream": streams, **CALM}
    if dialect == "responses":
        return {**body, "input": QUESTION, "max_output_tokens": 24}
    options = {"stream_options": {"include_usage": True}} if dialect == "chat" and streams else {}
    return {**body, **options, "messages": [{"role": "user", "content": QUESTION}], "max_tokens": 24}


def heard(dialect: str, reply: Reply) -> tuple[str, int, int]:
    """The words of an answer, whole or streamed, with the prompt's tokens and its own."""
    assert reply.status == 200, reply.body
    if reply.headers["content-type"].startswith("text/event-stream"):
        return _heard_streamed(dialect, events(reply))
    body = reply.json
    if dialect == "chat":
        usage = body["usage"]
        return body["choices"][0]["message"]["content"], usage["prompt_tokens"], usage["completion_tokens"]
    usage = body["usage"]
    parts = body["content"] if dialect == "messages" else body["output"][0]["content"]
    return parts[0]["text"], _read_tokens(usage), usage["output_tokens"]


def _heard_streamed(dialect: str, told: list[dict]) -> tuple[str, int, int]:
    if dialect == "chat":
        words = "".join(choice["delta"].get("content") or "" for event in told for choice in event["choices"])
        usage = told[-1]["usage"]
        return words, usage["prompt_tokens"], usage["completion_tokens"]
    if dialect == "responses":
        words = "".join(event["delta"] for event in told if event["type"] == "response.output_text.delta")
        usage = told[-1]["response"]["usage"]
        return words, usage["input_tokens"], usage["output_tokens"]
    words = "".join(event["delta"]["text"] for event in told if event["type"] == "content_block_delta")
    usage = {**told[0]["message"]["usage"], **next(event["usage"] for event in told if event["type"] == "message_delta")}
    return words, _read_tokens(usage), usage["output_tokens"]


def _read_tokens(usage: dict) -> int:
    """The whole prompt: Messages counts what was cached apart."""
    return usage["input_tokens"] + usage.get("cache_read_input_tokens", 0)


@pytest.mark.parametrize("target", PATHS)
async def test_every_dialect_gives_the_engines_own_words_and_counts(engine, start, target):
    smol = await engine(is_real=True)
    tandem = await start(config(smol, smol, fast_dialect=target))
    itself = heard("chat", await call(smol.port, PATHS["chat"], ask("chat", streams=False)))

    answers = {
        (dialect, streams): heard(dialect, await call(tandem.port, PATHS[dialect], ask(dialect, streams=streams)))
        for dialect in PATHS
        for streams in (False, True)
    }

    assert "Paris" in itself[0]
    assert answers == dict.fromkeys(answers, itself)
    rows = await tandem.entries(6)
    assert [(row["input_tokens"], row["output_tokens"]) for row in rows] == [itself[1:]] * 6


async def test_a_schema_reaches_the_engines_grammar_from_every_dialect(engine, start):
    smol = await engine(is_real=True)
    tandem = await start(config(smol, smol))
    schema = {
        "type": "object",
        "properties": {"city": {"type": "string", "enum": ["Paris", "Rome"]}},
        "required": ["city"],
        "additionalProperties": False,
    }
    named = {"name": "city", "schema": schema, "strict": True}
    bodies = {
        "chat": {"response_format": {"type": "json_schema", "json_schema": named}},
        "responses": {"text": {"format": {"type": "json_schema", **named}}},
        "messages": {"output_config": {"format": {"type": "json_schema", "schema": schema}}},
    }

    said = {}
    for dialect, more in bodies.items():
        reply = await call(tandem.port, PATHS[dialect], {**ask(dialect, streams=False), **more})
        said[dialect] = json.loads(heard(dialect, reply)[0])["city"]

    assert set(said.values()) <= {"Paris", "Rome"}


USUAL_PORT = 8080
"""Where `tandem init` looks for llama.cpp."""


def is_free(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
        return True
    return False


@pytest.mark.skipif(not is_free(USUAL_PORT), reason="port 8080 is taken here: init was not tried on a real engine")
async def test_init_waits_for_the_engine_and_writes_its_window_and_slots(engine, tmp_path):
    loading = LlamaServer(tmp_path, window=16384, slots=2, port=USUAL_PORT)
    await loading.start_loading()
    environment = {"PYTHONPATH": os.getcwd(), "PYTHONDONTWRITEBYTECODE": "1"}
    scratch = make_scratch(tmp_path)
    tandem = [sys.executable, "-m", "router.cli"]
    try:
        await until_listening(USUAL_PORT)
        said = await run_client([*tandem, "init", "--yes"], scratch, environment)
        checked = await run_client([*tandem, "check", "--live"], scratch, environment)
    finally:
        await loading.kill()

    assert "found llama.cpp" in said, said
    fast = yaml.safe_load((scratch / "repo" / "config.yaml").read_text())["tiers"]["fast"]["targets"][0]
    assert (fast["window_tokens"], fast["quota"]["in_flight"]) == (8192, 2)
    assert "knows tiny, window of 8,192 tokens, serves 2 requests at a time" in checked, checked


async def until_listening(port: int) -> None:
    """Return as soon as something listens, be it ready or not."""
    async with asyncio.timeout(60):
        while True:
            with contextlib.suppress(OSError):
                await call(port, "/health")
                return
            await asyncio.sleep(0.02)


CLIENTS = {
    "codex": ("codex", ["exec", "--skip-git-repo-check", "Fix the typo in calc.py"]),
    "claude-code": ("claude", ["-p", "Fix the typo in calc.py"]),
    "aider": (
        "aider",
        ["--no-check-update", "--analytics-disable", "--yes-always", "--no-gitignore", "--message", "Fix it", "calc.py"],
    ),
    "opencode": ("opencode", ["run", "Fix the typo in calc.py"]),
}
QUIET = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "CLAUDE_CODE_MAX_OUTPUT_TOKENS": "200",
    "OPENCODE_DISABLE_MODELS_FETCH": "1",
    "OPENCODE_DISABLE_AUTOUPDATE": "1",
}


@pytest.mark.clients
@pytest.mark.parametrize("client", CLIENTS)
async def test_a_client_started_by_connect_is_served_by_the_engine(engine, start, tmp_path, client):
    command, arguments = CLIENTS[client]
    folder = folder_of_command(command)
    tiny = await engine(window=131072, slots=2)
    tandem = await start(config(tiny, tiny, window=65536))
    environment = {**QUIET, "PATH": f"{folder}:{os.environ['PATH']}", "PYTHONPATH": os.getcwd(), "PYTHONDONTWRITEBYTECODE": "1"}
    connect = [sys.executable, "-m", "router.cli", "connect", "--run", client, "--url", tandem.url, "--", *arguments]

    said = await run_client(connect, make_scratch(tmp_path), environment, seconds=120)

    await until(lambda: asked(tandem))  # the ledger is written a moment after the answer
    rows = asked(tandem)
    assert {row["outcome"] for row in rows} == {"SERVED"}, said[-2_000:]
    assert all(row["output_tokens"] > 0 for row in rows)


def asked(tandem) -> list[dict]:
    """The rows of requests that reached a target: Codex warms up with one that does not."""
    return [row for row in read_entries(tandem.loaded.ledger_path) if row["target"] is not None]
