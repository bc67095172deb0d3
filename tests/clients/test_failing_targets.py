"""What real clients do when a target fails: they go on where they can, wait as long as they are told, and never multiply calls."""

import json
import os
import time

import anthropic
import httpx
import openai
import pytest

from tests.tools.clients import (
    CODEX_KEY,
    claude,
    claude_environment,
    codex,
    command_of,
    folder_of_command,
    make_scratch,
    run_client,
)
from tests.tools.running import one_dialect
from tests.tools.speech import Speech, speak, write_stream
from tests.tools.upstream import CHAT_STREAM_HEAD, answer_json, silent
from tests.tools.waiting import by_the_clock

pytestmark = [pytest.mark.clients, pytest.mark.timeout(300)]

WORDS = "the typo is corrected now"
GOOD = Speech(WORDS)
BEGUN = {"chat": 2, "responses": 5, "messages": 4}
"""How many frames of an answer there are up to the model's first words."""
REFUSAL = {"type": "error", "error": {"type": "overloaded_error", "message": "later", "code": "later"}}
HTTP_ALONE = "limits: {max_sockets: 0}"
QUICK = "limits: {stall_timeout_seconds: 0.5, max_sockets: 0}"


def cut(dialect, how="closes"):
    """An answer that ends, or stops, in the middle of its words."""

    async def script(wire, seen):
        await wire.send(CHAT_STREAM_HEAD)
        for frame in write_stream(dialect, GOOD)[: BEGUN[dialect]]:
            await wire.chunk(frame)
        await by_the_clock(0.05)
        if how == "stalls":
            await silent(wire, seen)
        wire.writer.close()

    return script


def refuse(status, **headers):
    return answer_json(REFUSAL, status, {name.replace("_", "-"): value for name, value in headers.items()})


async def ask_codex(tandem, scratch):
    return await run_client(codex(tandem.url), scratch, CODEX_KEY)


async def ask_claude(tandem, scratch):
    return await run_client(claude(), scratch, claude_environment(tandem.url))


async def ask_opencode(tandem, scratch):
    settings = {
        "model": "router/auto",
        "small_model": "router/auto",
        "provider": {
            "router": {
                "npm": "@ai-sdk/openai-compatible",
                "options": {"baseURL": f"{tandem.url}/v1", "apiKey": "any"},
                "models": {"auto": {}},
            }
        },
    }
    (scratch / "repo" / "opencode.json").write_text(json.dumps(settings))
    environment = {"OPENCODE_DISABLE_MODELS_FETCH": "1"}
    return await run_client([command_of("opencode"), "run", "Fix the typo in calc.py"], scratch, environment)


async def ask_aider(tandem, scratch):
    path = f"{folder_of_command('aider')}{os.pathsep}{os.environ['PATH']}"
    command = [
        str(folder_of_command("aider") / "aider"),
        *("--model", "openai/auto", "--no-auto-commits", "--no-check-update", "--no-show-model-warnings"),
        *("--no-git", "--yes-always", "--message", "Fix the typo in calc.py", "calc.py"),
    ]
    environment = {"OPENAI_API_BASE": f"{tandem.url}/v1", "OPENAI_API_KEY": "any", "PATH": path}
    return await run_client(command, scratch, environment)


AGENTS = {
    "codex": (ask_codex, "responses"),
    "claude": (ask_claude, "messages"),
    "opencode": (ask_opencode, "chat"),
    "aider": (ask_aider, "chat"),
}


@pytest.mark.parametrize("how", ["closes", "stalls"])
@pytest.mark.parametrize("name", list(AGENTS))
async def test_an_agent_whose_answer_is_cut_asks_again_and_gets_all_of_it(start, upstream, tmp_path, name, how):
    ask, dialect = AGENTS[name]
    tandem = await start(one_dialect(dialect, upstream.base_url, extra=QUICK))
    has_cut = False

    async def script(wire, seen):
        nonlocal has_cut
        if has_cut or b"typo" not in seen.body or b"title" in seen.body[:400]:
            await speak(dialect, GOOD)(wire, seen)
        else:
            has_cut = True
            await cut(dialect, how)(wire, seen)

    upstream.scripts = [script]
    said = await ask(tandem, make_scratch(tmp_path))

    assert WORDS in said
    outcomes = [entry["outcome"] for entry in await tandem.entries(2)]
    assert outcomes.count("CUT_SHORT") == 1
    assert "SERVED" in outcomes


async def test_codex_whose_answer_is_cut_on_its_socket_asks_again_and_gets_all_of_it(start, upstream, tmp_path):
    tandem = await start(one_dialect("responses", upstream.base_url))
    upstream.scripts = [cut("responses"), speak("responses", GOOD)]

    said = await ask_codex(tandem, make_scratch(tmp_path))

    assert WORDS in said
    asked = [entry["outcome"] for entry in await tandem.entries(3) if entry["turn_kind"] == "ask"]
    assert asked == ["CUT_SHORT", "SERVED"]


@pytest.mark.parametrize("name", list(AGENTS))
async def test_an_agent_that_is_told_to_wait_waits_so_long_and_the_target_is_left_alone(start, upstream, tmp_path, name):
    ask, dialect = AGENTS[name]
    tandem = await start(one_dialect(dialect, upstream.base_url, extra=HTTP_ALONE))
    called_at = []

    async def script(wire, seen):
        called_at.append(time.monotonic())
        if len(called_at) <= 2:  # both targets
            await refuse(429, retry_after="2")(wire, seen)
        else:
            await speak(dialect, GOOD)(wire, seen)

    upstream.scripts = [script]
    said = await ask(tandem, make_scratch(tmp_path))

    assert WORDS in said
    assert called_at[2] - called_at[1] >= 1.9
    assert len(called_at) <= 5


@pytest.mark.parametrize("status", [500, 503])
async def test_claude_code_does_not_multiply_a_failure_that_was_tried_elsewhere_and_comes_again_after_an_overload(
    start, upstream, tmp_path, status
):
    tandem = await start(one_dialect("messages", upstream.base_url))
    upstream.scripts = [refuse(status), refuse(status), speak("messages", GOOD)]

    said = await ask_claude(tandem, make_scratch(tmp_path))

    if status == 500:
        assert "every target that can serve this failed" in said
        assert len(upstream.seen) == 2
    else:
        assert WORDS in said
        assert len(upstream.seen) == 3


async def test_codex_tries_for_half_a_minute_and_each_time_costs_its_targets_little_more_than_one_call(
    start, upstream, tmp_path
):
    tandem = await start(one_dialect("responses", upstream.base_url, extra=HTTP_ALONE))
    upstream.scripts = [refuse(500)]

    said = await ask_codex(tandem, make_scratch(tmp_path))

    asked = len(await tandem.entries(20))
    assert "every target that can serve this failed" in said
    assert asked > 10
    assert len(upstream.seen) <= 1.5 * asked


def sdk_of(dialect, url):
    if dialect == "messages":
        return anthropic.AsyncAnthropic(base_url=url, api_key="any")
    return openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="any")


async def ask_sdk(dialect, client, *, streams):
    words = [{"role": "user", "content": "Fix the typo in calc.py"}]
    if dialect == "chat":
        made = client.chat.completions.create(model="auto", messages=words, stream=streams)
    elif dialect == "responses":
        made = client.responses.create(model="auto", input=words, stream=streams)
    else:
        made = client.messages.create(model="auto", messages=words, max_tokens=99, stream=streams)
    answer = await made
    if streams:
        async for _ in answer:
            pass
    return answer


SDKS = pytest.mark.parametrize("dialect", ["chat", "responses", "messages"])
WAYS = pytest.mark.parametrize("streams", [True, False], ids=["streaming", "whole"])


@SDKS
@WAYS
@pytest.mark.parametrize("status", [500, 502])
async def test_an_sdk_does_not_multiply_what_was_tried_elsewhere(start, upstream, dialect, streams, status):
    tandem = await start(one_dialect(dialect, upstream.base_url))
    upstream.scripts = [refuse(status)]

    async with sdk_of(dialect, tandem.url) as client:
        with pytest.raises((openai.InternalServerError, anthropic.InternalServerError)):
            await ask_sdk(dialect, client, streams=streams)

    assert len(upstream.seen) == 2
    assert [entry["outcome"] for entry in await tandem.entries(1)] == ["FAILED"]


BUSY = {
    "a limit": refuse(429, retry_after="1"),
    "an overload": refuse(529),
    "an overload with a time": refuse(503, retry_after="1"),
}


@SDKS
@WAYS
@pytest.mark.parametrize("kind", list(BUSY))
async def test_an_sdk_waits_as_long_as_it_is_told_and_then_is_served(start, upstream, dialect, streams, kind):
    tandem = await start(one_dialect(dialect, upstream.base_url))
    upstream.scripts = [BUSY[kind], BUSY[kind], speak(dialect, GOOD)]

    async with sdk_of(dialect, tandem.url) as client:
        began = time.monotonic()
        await ask_sdk(dialect, client, streams=streams)

    assert time.monotonic() - began >= 0.9
    assert len(upstream.seen) == 3
    assert [entry["status"] for entry in await tandem.entries(2)] == [429 if kind == "a limit" else 503, 200]


@SDKS
async def test_an_sdk_raises_for_a_stream_that_is_cut_and_asks_nobody_again(start, upstream, dialect):
    tandem = await start(one_dialect(dialect, upstream.base_url))
    upstream.scripts = [cut(dialect)]

    async with sdk_of(dialect, tandem.url) as client:
        with pytest.raises((openai.APIError, anthropic.APIError, httpx.RemoteProtocolError)):
            await ask_sdk(dialect, client, streams=True)

    assert len(upstream.seen) == 1
    assert [entry["outcome"] for entry in await tandem.entries(1)] == ["CUT_SHORT"]
