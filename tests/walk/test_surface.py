"""Every route with a body over a whole house, and refusals before admission."""

import asyncio
import json
import subprocess
import sys
import time
from email.utils import parsedate_to_datetime

import pytest
import yaml

from router.config.load import default_text
from router.sessions.clients.codex import STORED_MODELS
from tests.conftest import SIMULATED
from tests.tools.http import call, chat, request_bytes
from tests.tools.running import one_dialect, two_targets
from tests.tools.speech import Speech, speak, write_whole
from tests.tools.upstream import answer_json, silent
from tests.tools.waiting import until

pytestmark = pytest.mark.wire
BEGAN = int(time.time())


@pytest.mark.parametrize("path", ["/chat/completions", "/models", "/responses", "/messages"])
async def test_clients_that_leave_the_version_out_are_served(simulated, path):
    bodies = {
        "/chat/completions": chat(),
        "/responses": {"model": "auto", "input": "hi"},
        "/messages": {"model": "auto", "max_tokens": 5, "messages": [{"role": "user", "content": "hi"}]},
        "/models": None,
    }

    assert (await call(simulated.port, path, bodies[path])).status == 200


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", chat()),
        ("/v1/chat/completions", chat(stream=True)),
        ("/v1/messages", {"model": "auto", "max_tokens": 5, "messages": [{"role": "user", "content": "hi"}]}),
        ("/v1/messages/count_tokens", {"model": "auto", "messages": [{"role": "user", "content": "hi"}]}),
        ("/v1/responses/input_tokens", {"model": "auto", "input": "hi"}),
        ("/tandem/explain", chat()),
    ],
)
async def test_what_no_target_answers_has_the_ids_that_sdks_read(simulated, path, body):
    reply = await call(simulated.port, path, body)

    assert reply.status == 200
    ids = [reply.headers[name] for name in ("x-tandem-request-id", "x-request-id", "request-id")]
    assert ids == ids[:1] * 3


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", chat()),
        ("/v1/chat/completions", chat(stream=True)),
        ("/v1/chat/completions", {}),
        ("/v1/models", None),
        ("/v1/nothing", None),
        ("/healthz", None),
    ],
)
async def test_every_answer_is_dated(simulated, path, body):
    reply = await call(simulated.port, path, body)

    assert BEGAN <= parsedate_to_datetime(reply.headers["date"]).timestamp() <= time.time()


@pytest.mark.parametrize("target", ["chat", "messages"])
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streaming"])
async def test_an_answer_has_the_ids_that_sdks_read_whether_or_not_it_was_bridged(start, upstream, target, stream):
    tandem = await start(one_dialect(target, upstream.base_url))
    upstream.scripts = [speak(target, Speech("Hi."))]

    for path in ("/v1/chat/completions", "/v1/messages"):
        reply = await call(tandem.port, path, chat(stream=stream, max_tokens=5))

        assert reply.status == 200
        ids = [reply.headers[name] for name in ("x-tandem-request-id", "x-request-id", "request-id")]
        assert ids == ids[:1] * 3


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages"])
async def test_a_targets_own_id_reaches_the_caller_by_the_names_that_sdks_read(start, upstream, path):
    tandem = await start(one_dialect("messages", upstream.base_url))
    body = write_whole("messages", Speech("Hi."))
    upstream.scripts = [answer_json(body, headers={"request-id": "req_theirs"})]

    reply = await call(tandem.port, path, chat(max_tokens=5))

    assert (reply.headers["x-request-id"], reply.headers["request-id"]) == ("req_theirs", "req_theirs")


@pytest.mark.parametrize(
    ("target", "path", "shown"),
    [
        ("messages", "/v1/messages", {"x-ratelimit-remaining-tokens", "anthropic-ratelimit-tokens-limit"}),
        ("messages", "/v1/chat/completions", {"x-ratelimit-remaining-tokens"}),
        ("chat", "/v1/messages", {"anthropic-ratelimit-tokens-limit"}),
        ("chat", "/v1/chat/completions", {"x-ratelimit-remaining-tokens", "anthropic-ratelimit-tokens-limit"}),
    ],
)
async def test_without_keys_a_targets_limits_reach_callers_and_over_a_bridge_only_by_names_that_they_read(
    start, upstream, target, path, shown
):
    tandem = await start(one_dialect(target, upstream.base_url))
    theirs = {"x-ratelimit-remaining-tokens": "1", "anthropic-ratelimit-tokens-limit": "2"}
    upstream.scripts = [answer_json(write_whole(target, Speech("Hi.")), headers=theirs)]

    reply = await call(tandem.port, path, chat(max_tokens=5))

    assert {name for name in reply.headers if "ratelimit" in name} == shown


async def test_a_websocket_is_opened_where_there_is_one_and_nowhere_else(simulated):
    headers = {"upgrade": "websocket", "connection": "Upgrade", "sec-websocket-key": "x", "sec-websocket-version": "13"}

    broken = await call(simulated.port, "/v1/responses", headers=headers)
    elsewhere = await call(simulated.port, "/v1/nowhere", headers=headers)

    assert broken.status == 400
    assert elsewhere.status == 404
    assert "upgrade" not in elsewhere.headers


async def test_a_body_over_the_limit_is_refused_before_it_is_read(start):
    tandem = await start(SIMULATED + "limits: {max_body_bytes: 2048}\n")

    declared = await call(tandem.port, "/v1/chat/completions", b"{}", {"content-length": "9999999"})
    chunks = b"".join(b"400\r\n" + b" " * 1024 + b"\r\n" for _ in range(4)) + b"0\r\n\r\n"
    chunked = await call(tandem.port, "/v1/chat/completions", chunks, {"transfer-encoding": "chunked"})

    assert (declared.status, declared.json["error"]["code"]) == (413, "body_too_large")
    assert chunked.status == 413


async def test_more_requests_than_allowed_at_once_are_told_to_come_back(start, upstream):
    upstream.scripts = [silent]
    tandem = await start(two_targets(upstream.base_url, upstream.base_url, extra="limits: {max_in_flight: 2}"))
    writers = []
    for _ in range(2):
        _, writer = await asyncio.open_connection("127.0.0.1", tandem.port)
        writer.write(request_bytes("/v1/chat/completions", chat(stream=True)))
        writers.append(writer)
    await until(lambda: len(upstream.seen) == 2)

    reply = await call(tandem.port, "/v1/chat/completions", chat())

    for writer in writers:
        writer.close()
    assert reply.status == 503
    assert reply.headers["retry-after"] == "1"


async def test_explain_calls_nobody_and_changes_nothing(simulated):
    headers = {"x-tandem-tier": "deep", "x-tandem-scope": "session", "x-tandem-session": "s"}

    forced = await call(simulated.port, "/tandem/explain", chat(), headers)
    after = await call(simulated.port, "/tandem/explain", chat(), {"x-tandem-session": "s"})

    assert forced.json["tier"] == "deep"
    assert after.json["tier"] == "fast"
    assert {"tier", "score", "because", "turn_kind", "session", "person_text", "evidence", "estimates", "flip"} <= set(
        after.json
    )


@pytest.mark.parametrize(
    ("query", "body", "status"),
    [
        ("?dialect=messages", {"model": "auto", "max_tokens": 5, "messages": [{"role": "user", "content": "x"}]}, 200),
        ("?dialect=latin", chat(), 400),
        ("", {"type": "response.create", "model": "auto", "input": [], "previous_response_id": "r"}, 200),
        ("", {"model": "nope", "input": "x"}, 404),
        ("", b"{", 400),
    ],
)
async def test_explain_reads_any_dialect_and_refuses_as_the_route_would(simulated, query, body, status):
    assert (await call(simulated.port, f"/tandem/explain{query}", body)).status == status


async def test_the_whole_decision_comes_in_a_header_when_asked_for(simulated):
    reply = await call(simulated.port, "/v1/chat/completions", chat(), {"x-tandem-explain": "full"})

    whole = json.loads(reply.headers["x-tandem-explain"])
    assert whole["tier"] == "fast"
    assert "person_text" not in whole


def without_dawdling(config: str) -> str:
    """The default config with instant simulated targets. Typical figures, and so choices, stay."""
    content = yaml.safe_load(config)
    for tier in content["tiers"].values():
        for target in tier["targets"]:
            options = target.get("options", {})
            target["typical"] = {name: options[name] for name in ("ttft_seconds", "tokens_per_second") if name in options}
            target["typical"] |= {} if options else {"ttft_seconds": 0.2, "tokens_per_second": 1000}
            target["options"] = options | {"ttft_seconds": 0.0, "tokens_per_second": 1e5, "prefill_tokens_per_second": 1e9}
    return yaml.safe_dump(content)


async def test_surface_check_agrees(shared, start):
    tandem = await start(without_dawdling(default_text()))
    command = [sys.executable, str(shared / "checks" / "surface.py"), tandem.url]

    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=100)

    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("model", ["claude-deep", "claude-opus-9", "openai/auto", "o3-pro"])
async def test_model_names_of_a_config_are_added_to_the_shipped_ones(simulated, model):
    reply = await call(simulated.port, "/v1/chat/completions", {**chat(), "model": model})

    assert reply.status == 200


@pytest.mark.parametrize(("setting", "window", "limit"), [("fast", 128_000, 115_200), ("deep", 400_000, None)])
async def test_the_lists_name_the_window_of_auto_that_the_config_chose(start, setting, window, limit, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    (tmp_path / "tandem" / STORED_MODELS).parent.mkdir(parents=True)
    (tmp_path / "tandem" / STORED_MODELS).write_text('{"auto": {}, "fast": {}, "deep": {}}')
    tandem = await start(f"window_of_auto: {setting}\n{SIMULATED}")

    codex = (await call(tandem.port, "/v1/models?client_version=1")).json["models"][0]
    listed = (await call(tandem.port, "/v1/models")).json["data"][0]

    assert (codex["slug"], codex["context_window"], codex.get("auto_compact_token_limit")) == ("auto", window, limit)
    assert (listed["id"], listed["context_window"]) == ("auto", window)


async def test_a_quick_ask_in_a_conversation_too_long_for_fast_says_how_to_get_fast_back(simulated):
    long = {"role": "user", "content": "lorem ipsum dolor sit amet consectetur " * 19_000}
    said = [long, {"role": "assistant", "content": "ok"}, {"role": "user", "content": "fix the typo in this line: retrun x"}]

    reply = await call(simulated.port, "/v1/chat/completions", {"model": "auto", "messages": said})

    assert reply.headers["x-tandem-tier"] == "deep"
    assert "k of 128k tokens: compact to use fast" in reply.headers["x-tandem-because"]


CLAUDE = {"anthropic-version": "2023-06-01"}


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1/models/nobody", 404),
        ("GET", "/v1/files", 404),
        ("POST", "/v1/skills", 404),
        ("DELETE", "/v1/agents/agent_1", 404),
        ("GET", "/v1/sessions?beta=true", 404),
        ("PUT", "/v1/models", 405),
        ("GET", "/v1/messages", 405),
        ("GET", "/v1/responses/resp_none", 404),
    ],
)
async def test_a_caller_with_anthropics_sdk_gets_its_errors_on_every_route(simulated, method, path, status):
    body = {} if method in ("POST", "PUT") else None

    reply = await call(simulated.port, path, body, CLAUDE, method=method)

    assert (reply.status, reply.json["type"]) == (status, "error")
    assert set(reply.json["error"]) >= {"type", "message"}


async def test_anthropics_sdk_finds_every_model_active(simulated):
    listed = (await call(simulated.port, "/v1/models", headers=CLAUDE)).json["data"]
    one = (await call(simulated.port, "/v1/models/auto", headers=CLAUDE)).json

    assert {model["lifecycle"] for model in listed} == {"active"}
    assert one in listed
    assert (await call(simulated.port, "/v1/models/auto")).json["object"] == "model"


async def test_input_tokens_are_counted_without_a_model_and_nothing_else_is_served_without_one(simulated):
    counted = await call(simulated.port, "/v1/responses/input_tokens", {"input": "how long is this?", "model": None})
    refused = [
        await call(simulated.port, path, {"input": "x", "max_tokens": 5, "messages": [{"role": "user", "content": "x"}]})
        for path in ("/v1/responses", "/v1/responses/compact", "/v1/messages/count_tokens", "/v1/messages")
    ]

    assert counted.status == 200
    assert counted.json["input_tokens"] > 0
    assert {reply.status for reply in refused} == {400}


async def test_a_target_is_reached_by_the_name_of_its_model_which_no_list_shows(pair, upstream):
    body = chat(model="fast-model")

    reply = await call(pair.port, "/v1/chat/completions", body)
    listed = await call(pair.port, "/v1/models")

    assert (reply.status, reply.headers["x-tandem-target"]) == (200, "spark")
    assert reply.headers["x-tandem-because"] == 'the model name "fast-model" means the target spark'
    assert "fast-model" not in {model["id"] for model in listed.json["data"]}
