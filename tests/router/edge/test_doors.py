"""Who may knock, and what is turned away before it is admitted."""

import pytest

from tests.conftest import SIMULATED
from tests.tools.http import call, chat, request_bytes


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "localhost:4000"}, 200),
        ({"host": "[::1]:4000"}, 200),
        ({"host": "127.0.0.1"}, 200),
        ({"host": "evil.example"}, 403),
        ({"host": "127.0.0.1.evil.example"}, 403),
        ({"host": "a/admin?x="}, 400),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "http://localhost:3000"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://127.0.0.1"}, 200),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-origin"}, 200),
    ],
)
@pytest.mark.parametrize("path", ["/v1/models", "/healthz", "/v1/chat/completions"])
async def test_only_this_machine_may_knock_on_any_route(simulated, headers, status, path):
    import asyncio

    from tests.tools.http import read_reply

    body = chat() if "chat" in path else None
    raw = request_bytes(path, body, {name: value for name, value in headers.items() if name != "host"})
    if "host" in headers:
        raw = raw.replace(b"host: 127.0.0.1", f"host: {headers['host']}".encode())
    reader, writer = await asyncio.open_connection("127.0.0.1", simulated.port)
    writer.write(raw)

    reply = await asyncio.wait_for(read_reply(reader), 5)

    writer.close()
    assert reply.status == status
    assert "access-control-allow-origin" not in reply.headers


async def test_models_come_in_three_shapes(simulated):
    openai = await call(simulated.port, "/v1/models")
    codex = await call(simulated.port, "/v1/models?client_version=0.166.0")
    anthropic = await call(simulated.port, "/v1/models?limit=2", headers={"anthropic-version": "2023-06-01"})

    windows = {entry["id"]: entry["context_window"] for entry in openai.json["data"]}
    assert (windows["auto"], windows["fast"], windows["deep"]) == (400_000, 128_000, 400_000)
    by_slug = {entry["slug"]: entry for entry in codex.json["models"]}
    assert set(by_slug) == {"auto", "fast", "deep"}
    assert by_slug["auto"]["apply_patch_tool_type"] == "freeform"
    assert by_slug["auto"]["context_window"] == 400_000
    assert [level["effort"] for level in by_slug["fast"]["supported_reasoning_levels"]] == ["low", "medium", "high"]
    assert (len(anthropic.json["data"]), anthropic.json["has_more"], anthropic.json["first_id"]) == (2, True, "auto")


async def test_pages_of_models_come_to_an_end(simulated):
    names, after = [], ""
    for _ in range(20):
        page = (await call(simulated.port, f"/v1/models?limit=1{after}")).json
        names += [entry["id"] for entry in page["data"]]
        after = f"&after_id={page['last_id']}"
        if not page["has_more"]:
            break

    assert names[:3] == ["auto", "fast", "deep"]
    assert len(names) == len(set(names))
    assert (await call(simulated.port, "/v1/models?limit=%C2%B2")).status == 200


async def test_explain_takes_no_more_than_a_create_call_would(start):
    tandem = await start(SIMULATED + "limits: {max_body_bytes: 2048}\n")
    chunks = b"".join(b"400\r\n" + b" " * 1024 + b"\r\n" for _ in range(4)) + b"0\r\n\r\n"

    assert (await call(tandem.port, "/tandem/explain", chunks, {"transfer-encoding": "chunked"})).status == 413


async def test_one_model_is_found_by_name_and_an_unknown_one_is_a_404(simulated):
    assert (await call(simulated.port, "/v1/models/deep")).json["id"] == "deep"
    missing = await call(simulated.port, "/v1/models/nope")
    assert (missing.status, missing.json["error"]["code"]) == (404, "model_not_found")


@pytest.mark.parametrize("path", ["/chat/completions", "/models", "/responses", "/messages"])
async def test_clients_that_leave_the_version_out_are_served(simulated, path):
    bodies = {
        "/chat/completions": chat(),
        "/responses": {"model": "auto", "input": "hi"},
        "/messages": {"model": "auto", "max_tokens": 5, "messages": [{"role": "user", "content": "hi"}]},
        "/models": None,
    }

    assert (await call(simulated.port, path, bodies[path])).status == 200


@pytest.mark.parametrize("path", ["/", "/api/hello"])
async def test_health_probes_of_clients_are_answered(simulated, path):
    reply = await call(simulated.port, path, method="HEAD")

    assert reply.status == 200


async def test_a_websocket_upgrade_is_answered_426(simulated):
    headers = {"upgrade": "websocket", "connection": "Upgrade", "sec-websocket-key": "x", "sec-websocket-version": "13"}

    reply = await call(simulated.port, "/v1/responses", headers=headers)
    elsewhere = await call(simulated.port, "/v1/nowhere", headers=headers)

    assert reply.status == 426
    assert elsewhere.status == 404


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1/chat/completions", 405),
        ("DELETE", "/v1/messages", 405),
        ("POST", "/v1/models", 405),
        ("GET", "/v1/nowhere", 404),
        ("GET", "/v1/models/../../etc", 404),
        ("GET", "//v1//models", 404),
        ("GET", "/v1/chat/completions/", 404),
    ],
)
async def test_wrong_routes_and_methods_are_refused_as_json(simulated, method, path, status):
    reply = await call(simulated.port, path, method=method)

    assert reply.status == status
    assert reply.json["error"]["message"]
    request_id = reply.json.get("request_id") or reply.json["error"]["request_id"]
    assert reply.headers["x-tandem-request-id"] == request_id


async def test_errors_are_in_the_callers_dialect(simulated):
    reply = await call(simulated.port, "/v1/messages", {"model": "auto"})

    assert reply.status == 400
    assert reply.json["type"] == "error"
    assert reply.json["error"]["type"] == "invalid_request_error"
    assert reply.json["request_id"] == reply.headers["x-tandem-request-id"]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"content-type": "text/plain"}, 415),
        ({"content-type": "application/json; charset=utf-16"}, 415),
        ({"content-type": "application/json; charset=UTF-8"}, 200),
        ({"content-encoding": "gzip"}, 415),
        ({"content-encoding": "br"}, 415),
    ],
)
async def test_bodies_that_are_not_plain_json_are_refused(simulated, headers, status):
    assert (await call(simulated.port, "/v1/chat/completions", chat(), headers)).status == status


async def test_a_body_over_the_limit_is_refused_before_it_is_read(start):
    tandem = await start(SIMULATED + "limits: {max_body_bytes: 2048}\n")

    declared = await call(tandem.port, "/v1/chat/completions", b"{}", {"content-length": "9999999"})
    chunks = b"".join(b"400\r\n" + b" " * 1024 + b"\r\n" for _ in range(4)) + b"0\r\n\r\n"
    chunked = await call(tandem.port, "/v1/chat/completions", chunks, {"transfer-encoding": "chunked"})

    assert (declared.status, declared.json["error"]["code"]) == (413, "body_too_large")
    assert chunked.status == 413


async def test_too_many_headers_are_a_431(simulated):
    headers = {f"x-h{n}": "v" for n in range(150)}

    assert (await call(simulated.port, "/v1/models", headers=headers)).status == 431
    assert (await call(simulated.port, "/v1/models", headers={"x-big": "v" * 40_000})).status == 431


async def test_more_requests_than_allowed_at_once_are_told_to_come_back(start, upstream):
    import asyncio

    from tests.tools.running import two_targets

    async def silent(wire, seen):
        await asyncio.sleep(30)

    upstream.scripts = [silent]
    tandem = await start(two_targets(upstream.base_url, upstream.base_url, extra="limits: {max_in_flight: 2}"))
    writers = []
    for _ in range(2):
        _, writer = await asyncio.open_connection("127.0.0.1", tandem.port)
        writer.write(request_bytes("/v1/chat/completions", chat(stream=True)))
        writers.append(writer)
    while len(upstream.seen) < 2:  # noqa: ASYNC110  the upstream has no event for its second caller
        await asyncio.sleep(0.01)

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
    import json

    reply = await call(simulated.port, "/v1/chat/completions", chat(), {"x-tandem-explain": "full"})

    whole = json.loads(reply.headers["x-tandem-explain"])
    assert whole["tier"] == "fast"
    assert "person_text" not in whole


async def test_surface_check_agrees(shared, start):
    import asyncio
    import subprocess
    import sys

    from router.config.load import default_text

    tandem = await start(default_text().replace("tokens_per_second: 65,", "tokens_per_second: 2000,"))
    command = [sys.executable, str(shared / "checks" / "surface.py"), tandem.url]

    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=100)

    assert done.returncode == 0, done.stdout
