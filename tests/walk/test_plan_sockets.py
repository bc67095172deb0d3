"""Codex with a ChatGPT login over a WebSocket: what its plan gets, what the client gets, and what a refusal does."""

import asyncio
import json
from contextlib import asynccontextmanager

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.tools.http import call
from tests.tools.keyed import KEYS, write_keys
from tests.tools.logins import ACCOUNT, chatgpt_login
from tests.tools.running import running
from tests.tools.socket_upstream import SocketUpstream, events_of, say
from tests.tools.sockets import open_socket
from tests.tools.speech import Speech, speak
from tests.tools.upstream import Upstream, answer_json
from tests.tools.waiting import until

pytestmark = pytest.mark.wire

LITE, LITE_ON_SOCKETS = "x-openai-internal-codex-responses-lite", "ws_request_header_x_openai_internal_codex_responses_lite"
OWN = {
    "user-agent": "codex_exec/0.166.0 (Debian 12.0.0; x86_64)",
    "originator": "codex_exec",
    "session-id": "thread-1",
    "thread-id": "thread-1",
    "x-client-request-id": "thread-1",
    "x-codex-beta-features": "remote_compaction_v2",
    "x-codex-window-id": "thread-1:0",
    "x-codex-routing-hint": "model=gpt-6.1-sol",
    "x-codex-turn-metadata": '{"thread_id":"thread-1","turn_id":"","request_kind":"prewarm"}',
}
"""Codex's headers in a handshake, which it sends for a prewarm."""
BETA = {"openai-beta": "responses_websockets=2026-02-06"}
METADATA = {
    "x-codex-turn-metadata": '{"thread_id":"thread-1","turn_id":"turn-1","request_kind":"turn"}',
    "x-codex-window-id": "thread-1:0",
    "x-codex-installation-id": "machine-1",
    "x-codex-ws-stream-request-start-ms": "1794998787765",
    LITE_ON_SOCKETS: "true",
}
OVER_HTTP = {**OWN, "x-codex-turn-metadata": METADATA["x-codex-turn-metadata"]}
TOOLS = [{"type": "additional_tools", "role": "developer", "tools": [{"type": "namespace", "name": "functions", "tools": []}]}]
ASK = {
    "model": "gpt-6.1-sol",
    "stream": True,
    "store": False,
    "input": [*TOOLS, {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Fix the typo"}]}],
    "include": ["reasoning.encrypted_content"],
    "prompt_cache_key": "thread-1",
}
FIGURES = {
    "x-codex-plan-type": "pro",
    "x-codex-primary-used-percent": "42",
    "x-codex-primary-window-minutes": "300",
    "x-codex-primary-reset-at": "1895000000",
    "x-codex-secondary-used-percent": "7",
    "x-codex-secondary-window-minutes": "10080",
    "x-codex-secondary-reset-at": "1895400000",
}
LIMITS = {
    "type": "codex.rate_limits",
    "plan_type": "pro",
    "rate_limits": {
        "allowed": True,
        "primary": {"used_percent": 42, "window_minutes": 300, "reset_at": 1_895_000_000},
        "secondary": {"used_percent": 7, "window_minutes": 10_080, "reset_at": 1_895_400_000},
    },
}
USED_UP = {
    "type": "usage_limit_reached",
    "message": "The usage limit has been reached",
    "plan_type": "pro",
    "resets_at": 1_895_000_000,
    "resets_in_seconds": 5_400,
}
EXPIRED = {"type": "invalid_request_error", "code": "token_expired", "message": "Your authentication token has expired."}
TRANSPORTS = ("websocket", "http")
each_transport = pytest.mark.parametrize("transport", TRANSPORTS)


@pytest.fixture
async def plan():
    server = SocketUpstream()
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
async def spark():
    server = Upstream()
    await server.start()
    server.scripts = [speak("chat", Speech("fast answer"))]
    yield server
    await server.stop()


def config_of(plan: SocketUpstream, spark: Upstream, transport: str, *, has_plan: bool = True) -> str:
    own = (
        f'{{name: chatgpt, adapter: openai_http, dialect: responses, base_url: "{plan.base_url}", model: gpt-6.1-sol, '
        f"window_tokens: 400000, api_key: caller, billing: plan, upstream_transport: {transport}}}"
    )
    quick = f'dialect: chat, base_url: "{spark.base_url}", model: fast-model, api_key: spark-key'
    return f"""
ledger: {{path: test.db}}
models: {{auto: auto, fast: fast, deep: deep, "gpt-6.1-sol": deep}}
spill_over: false
tiers:
  fast: {{targets: [{{name: spark, {quick}}}]}}
  deep: {{targets: [{own if has_plan else f"{{name: other, {quick}}}"}]}}
"""


def refuse(status: int, error: dict, headers: dict[str, str]):
    """A refusal as the plan writes it on a socket."""

    async def script(connection, seen) -> None:
        await connection.send(json.dumps({"type": "error", "status": status, "error": error, "headers": headers}))

    return script


def refuse_on_both(plan: SocketUpstream, status: int, error: dict, headers: dict[str, str]) -> None:
    plan.scripts = [refuse(status, error, headers)]
    plan.http.scripts = [answer_json({"error": error}, status, headers=headers)]


def asked(plan: SocketUpstream) -> list[dict]:
    """The bodies that the plan got, over whichever transport."""
    return [seen.json for seen in plan.seen] + [seen.json for seen in plan.http.seen]


@asynccontextmanager
async def codex(port: int, person: str = "ada", **headers: str):
    login = chatgpt_login(person)
    async with open_socket(port, **{**login, **OWN, **BETA, **headers}) as socket:
        yield socket


async def ask(socket, **more) -> list[dict]:
    """All events of one turn."""
    await socket.send({"type": "response.create", **ASK, "client_metadata": METADATA, **more})
    return await socket.until("response.completed", "response.failed", "error")


def told(server: Upstream | SocketUpstream) -> str:
    """Everything that a server has seen."""
    return json.dumps([[seen.headers, getattr(seen, "raw", None) or seen.body.decode("latin-1")] for seen in server.seen])


async def test_a_plan_on_a_socket_gets_the_clients_own_handshake_and_frame(plan, spark, tmp_path):
    async with running(config_of(plan, spark, "websocket"), tmp_path) as tandem, codex(tandem.port) as socket:
        await ask(socket)

    (seen,) = plan.seen
    of_the_connection = {"host", "connection", "upgrade"}
    got = {
        name: value
        for name, value in seen.headers.items()
        if name not in of_the_connection and not name.startswith("sec-websocket-")
    }
    assert got == {**chatgpt_login(), **OWN, **BETA, **OVER_HTTP}
    assert seen.json == {"type": "response.create", **ASK, "client_metadata": METADATA}
    assert plan.http.seen == spark.seen == []


async def test_a_plan_over_http_gets_the_clients_headers_and_the_lite_mark_but_no_mention_of_sockets(plan, spark, tmp_path):
    async with running(config_of(plan, spark, "http"), tmp_path) as tandem, codex(tandem.port) as socket:
        await ask(socket)

    (seen,) = plan.http.seen
    own = {**chatgpt_login(), **OVER_HTTP, LITE: "true"}
    assert {name: value for name, value in seen.headers.items() if name in own} == own
    assert not {"openai-beta", "x-codex-installation-id", "x-codex-ws-stream-request-start-ms"} & set(seen.headers)
    assert {name: value for name, value in seen.json.items() if name != "client_metadata"} == ASK
    assert plan.seen == []


async def test_a_title_goes_to_the_plan_over_http_beside_the_sockets_of_threads(plan, spark, tmp_path):
    title = {**METADATA, "x-codex-turn-metadata": '{"thread_id":"thread-2","thread_source":"thread_title"}'}
    async with running(config_of(plan, spark, "websocket"), tmp_path) as tandem, codex(tandem.port) as socket:
        (*_, last) = await ask(socket, client_metadata=title)

    (seen,) = plan.http.seen
    assert last["type"] == "response.completed"
    assert (seen.headers[LITE], seen.headers["x-codex-turn-metadata"]) == ("true", title["x-codex-turn-metadata"])
    assert "openai-beta" not in seen.headers
    assert plan.seen == []


async def test_a_client_over_http_has_its_lite_mark_in_the_message_of_a_plans_socket(plan, spark, tmp_path):
    async with running(config_of(plan, spark, "websocket"), tmp_path) as tandem:
        headers = {**chatgpt_login(), **OVER_HTTP, LITE: "true"}
        reply = await call(tandem.port, "/v1/responses", {**ASK, "client_metadata": {"session_id": "thread-1"}}, headers)

    assert reply.status == 200
    (seen,) = plan.seen
    assert LITE not in seen.headers
    assert seen.json["client_metadata"] == {"session_id": "thread-1", LITE_ON_SOCKETS: "true"}


@pytest.mark.parametrize("headers", [BETA, {"openai-beta": "responses_websockets=2026-02-06,other=v1"}], ids=["alone", "with"])
async def test_a_target_over_http_hears_nothing_of_sockets_without_a_plan(upstream, spark, tmp_path, headers):
    upstream.scripts = [speak("responses", Speech("ok"))]
    config = config_of(upstream, spark, "http").replace("api_key: caller, billing: plan", "api_key: its-own-key")
    async with running(config, tmp_path) as tandem, open_socket(tandem.port, **headers) as socket:
        await socket.ask("hi", model="gpt-6.1-sol")

    assert upstream.seen[0].headers.get("openai-beta") == (None if headers is BETA else "other=v1")


@each_transport
async def test_the_plans_limits_reach_the_client_once(plan, spark, tmp_path, transport):
    async def limits_first(connection, seen) -> None:
        await connection.send(json.dumps(LIMITS))
        await say("ok")(connection, seen)

    plan.scripts = [limits_first]
    plan.http.scripts = [speak_with(FIGURES)]
    async with running(config_of(plan, spark, transport), tmp_path) as tandem, codex(tandem.port) as socket:
        events = await ask(socket)

    (limits,) = [event for event in events if event["type"] == "codex.rate_limits"]
    windows = {name: limits["rate_limits"][name] for name in ("primary", "secondary")}
    assert windows == {name: LIMITS["rate_limits"][name] for name in ("primary", "secondary")}
    assert limits["plan_type"] == "pro"
    kinds = [event["type"] for event in events]
    assert kinds.index("codex.rate_limits") < kinds.index("response.created")


def speak_with(headers: dict[str, str]):
    """An answer over HTTP with these headers."""
    events = [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events_of(Speech("ok"))]
    return answer_json("".join(events).encode(), headers={"content-type": "text/event-stream", **headers})


async def test_a_client_over_http_reads_the_limits_of_a_plans_socket_in_headers(plan, spark, tmp_path):
    async def limits_first(connection, seen) -> None:
        await connection.send(json.dumps(LIMITS))
        await say("ok")(connection, seen)

    plan.scripts = [limits_first]
    async with running(config_of(plan, spark, "websocket"), tmp_path) as tandem:
        reply = await call(tandem.port, "/v1/responses", ASK, {**chatgpt_login(), **OVER_HTTP})

    assert {name: value for name, value in reply.headers.items() if name in FIGURES} == FIGURES


async def test_the_plans_headers_of_a_handshake_reach_the_client_with_the_first_answer(plan, spark, tmp_path):
    plan.handshake_headers = {"x-codex-turn-state": "sticky-7", **FIGURES}
    async with running(config_of(plan, spark, "websocket"), tmp_path) as tandem, codex(tandem.port) as socket:
        first, second = await ask(socket), await ask(socket)

    (metadata,) = [event for event in first if event["type"] == "response.metadata"]
    assert metadata["headers"] == plan.handshake_headers
    assert [event["type"] for event in first].count("codex.rate_limits") == 1
    assert not {"response.metadata", "codex.rate_limits"} & {event["type"] for event in second}


@each_transport
async def test_a_plan_that_is_used_up_says_so_in_its_own_words(plan, spark, tmp_path, transport):
    refuse_on_both(plan, 429, USED_UP, FIGURES)
    async with running(config_of(plan, spark, transport), tmp_path) as tandem, codex(tandem.port) as socket:
        (*_, error) = await ask(socket)

    assert (error["type"], error["status"]) == ("error", 429)
    assert {name: value for name, value in error["error"].items() if name != "headers"} == USED_UP
    assert {name: value for name, value in error["headers"].items() if name.startswith("x-codex-")} == FIGURES
    assert len(asked(plan)) == 1
    assert spark.seen == []


@each_transport
async def test_a_plan_that_is_used_up_is_not_asked_again_and_its_words_are_repeated(plan, spark, tmp_path, transport):
    refuse_on_both(plan, 429, USED_UP, FIGURES)
    async with running(config_of(plan, spark, transport), tmp_path) as tandem, codex(tandem.port) as socket:
        (*_, first), (*_, second) = await ask(socket), await ask(socket)

    words = [{name: value for name, value in error["error"].items() if name != "headers"} for error in (first, second)]
    assert words == [USED_UP, USED_UP]
    assert len(asked(plan)) == 1


@each_transport
async def test_the_routers_key_beside_the_login_stays_here(plan, spark, tmp_path, transport):
    key = write_keys(tmp_path, ada="may_force: [fast, deep]")["ada"].text
    config = KEYS + config_of(plan, spark, transport)
    async with running(config, tmp_path) as tandem, codex(tandem.port, **{"x-tandem-key": key}) as socket:
        (*_, last) = await ask(socket)

    (seen,) = plan.seen or plan.http.seen
    assert last["type"] == "response.completed"
    assert chatgpt_login().items() <= seen.headers.items()
    assert key not in told(plan) + told(plan.http)


@each_transport
async def test_a_login_that_the_plan_refuses_closes_the_socket_and_is_refused_at_the_next_handshakes(
    plan, spark, tmp_path, transport
):
    refuse_on_both(plan, 401, EXPIRED, {})
    async with running(config_of(plan, spark, transport), tmp_path) as tandem:
        async with codex(tandem.port) as socket:
            await socket.send({"type": "response.create", **ASK, "client_metadata": METADATA})
            with pytest.raises(ConnectionClosed) as closed:
                await socket.until("response.completed", "error")
        asks = len(asked(plan))
        for _ in range(2):  # Codex reads its login again after the first, and refreshes it after the second
            with pytest.raises(InvalidStatus) as refused:
                async with codex(tandem.port):
                    pass
            assert refused.value.response.status_code == 401
            assert json.loads(refused.value.response.body)["error"] == EXPIRED
        assert len(asked(plan)) == asks
        plan.scripts, plan.http.scripts = [say("welcome back")], [speak("responses", Speech("welcome back"))]
        async with codex(tandem.port, "ada-with-a-new-token") as socket:
            (*_, last) = await ask(socket)

    assert closed.value.rcvd.code == 1008
    assert last["type"] == "response.completed"
    assert spark.seen == []


@each_transport
async def test_one_persons_refused_login_does_not_close_the_socket_of_another(plan, spark, tmp_path, transport):
    async with running(config_of(plan, spark, transport), tmp_path) as tandem, codex(tandem.port, "bob") as other:
        await ask(other)
        refuse_on_both(plan, 401, EXPIRED, {})
        async with codex(tandem.port) as socket:
            with pytest.raises(ConnectionClosed):
                await ask(socket)
        plan.scripts, plan.http.scripts = [say("ok")], [speak("responses", Speech("ok"))]
        (*_, last) = await ask(other)
        async with codex(tandem.port, "bob"):
            pass

    assert last["type"] == "response.completed"


@each_transport
async def test_a_token_that_changes_in_the_middle_of_a_turn_is_used_by_the_next_turn(plan, spark, tmp_path, transport):
    go = asyncio.Event()

    async def hold(connection, seen) -> None:
        first, *rest = events_of(Speech("begun with the old token"), "resp_old")
        await connection.send(json.dumps(first))
        await go.wait()
        for event in rest:
            await connection.send(json.dumps(event))

    async def hold_over_http(wire, seen) -> None:
        await go.wait()
        await speak("responses", Speech("begun with the old token"))(wire, seen)

    plan.scripts = [hold, say("with the new token")]
    plan.http.scripts = [hold_over_http, speak("responses", Speech("with the new token"))]
    async with running(config_of(plan, spark, transport), tmp_path) as tandem, codex(tandem.port) as before:
        await before.send({"type": "response.create", **ASK, "client_metadata": METADATA})
        await until(lambda: len(asked(plan)) == 1)
        async with codex(tandem.port, "ada-with-a-new-token") as after:
            (*_, new) = await ask(after)
            go.set()
            (*_, old) = await before.until("response.completed", "error")

    tokens = [seen.headers["authorization"] for seen in (plan.seen if transport == "websocket" else plan.http.seen)]
    assert tokens == [chatgpt_login()["authorization"], chatgpt_login("ada-with-a-new-token")["authorization"]]
    assert (old["type"], new["type"]) == ("response.completed", "response.completed")
    assert "old token" in json.dumps(old)


async def test_an_error_inside_the_plans_stream_reaches_the_client_as_it_is(plan, spark, tmp_path):
    async def break_off(connection, seen) -> None:
        await connection.send(json.dumps(LIMITS))
        for event in events_of(Speech("some words"))[:4]:
            await connection.send(json.dumps(event))
        await refuse(429, USED_UP, FIGURES)(connection, seen)

    plan.scripts = [break_off]
    async with running(config_of(plan, spark, "websocket"), tmp_path) as tandem, codex(tandem.port) as socket:
        (*_, error) = await ask(socket)

    assert (error["type"], error["status"]) == ("error", 429)
    assert {name: value for name, value in error["error"].items() if name != "headers"} == USED_UP
    assert len(asked(plan)) == 1


async def test_an_answer_that_fails_before_it_begins_is_passed_on_as_it_is(plan, spark, tmp_path):
    async def fail_first(connection, seen) -> None:
        await connection.send(json.dumps(LIMITS))
        created, *_ = events_of(Speech("ok"))
        failed = {**created["response"], "status": "failed", "error": {"code": "rate_limit_exceeded", "message": "try again"}}
        await connection.send(json.dumps(created))
        await connection.send(json.dumps({"type": "response.failed", "response": failed}))

    plan.scripts = [fail_first]
    async with running(config_of(plan, spark, "websocket"), tmp_path) as tandem, codex(tandem.port) as socket:
        (*_, last) = await ask(socket)

    assert (last["type"], last["response"]["error"]["code"]) == ("response.failed", "rate_limit_exceeded")
    assert len(asked(plan)) == 1


@each_transport
async def test_a_reload_that_removes_the_plan_lets_its_streams_end_and_sends_nothing_more(plan, spark, tmp_path, transport):
    go = asyncio.Event()

    async def hold(connection, seen) -> None:
        first, *rest = events_of(Speech("to the end"), "resp_1")
        await connection.send(json.dumps(first))
        await go.wait()
        for event in rest:
            await connection.send(json.dumps(event))

    async def hold_over_http(wire, seen) -> None:
        await go.wait()
        await speak("responses", Speech("to the end"))(wire, seen)

    plan.scripts, plan.http.scripts = [hold], [hold_over_http]
    async with running(config_of(plan, spark, transport), tmp_path) as tandem, codex(tandem.port) as socket:
        await socket.send({"type": "response.create", **ASK, "client_metadata": METADATA})
        await until(lambda: len(asked(plan)) == 1)
        (tmp_path / "config.yaml").write_text(config_of(plan, spark, transport, has_plan=False))
        await tandem.built.reloader.reload()
        go.set()
        (*_, ended) = await socket.until("response.completed", "error")
        await until(lambda: not plan.open)
        (*_, next_one) = await ask(socket)

    assert "to the end" in json.dumps(ended)
    assert next_one["type"] == "response.completed"
    assert len(asked(plan)) == 1
    assert "canary" not in told(spark)


@each_transport
async def test_an_account_without_a_token_is_sent_nowhere(plan, spark, tmp_path, transport):
    async with (
        running(config_of(plan, spark, transport), tmp_path) as tandem,
        open_socket(tandem.port, **{**OWN, **BETA, "chatgpt-account-id": ACCOUNT}) as socket,
    ):
        (*_, error) = await ask(socket)
        (*_, again) = await ask(socket)

    assert (error["status"], error["error"]["code"]) == (again["status"], again["error"]["code"]) == (401, "caller_key")
    assert asked(plan) == spark.seen == []


@each_transport
async def test_nothing_of_a_login_is_kept_logged_or_sent_to_another_target(plan, spark, tmp_path, capfd, transport):
    plan.scripts, plan.http.scripts = [say("ok")], [speak("responses", Speech("ok"))]
    async with running(config_of(plan, spark, transport), tmp_path) as tandem:
        async with codex(tandem.port) as socket:
            await ask(socket)
            await ask(socket, model="fast")
        refuse_on_both(plan, 401, EXPIRED, {})
        async with codex(tandem.port) as socket:
            with pytest.raises(ConnectionClosed):
                await ask(socket)
        with pytest.raises(InvalidStatus) as refused:
            async with codex(tandem.port):
                pass
        entries = await tandem.entries(3)
    files = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())

    shown = told(spark) + json.dumps(entries, default=str) + "".join(capfd.readouterr())
    shown += files.decode("latin-1") + refused.value.response.body.decode()
    assert len(spark.seen) == 1
    assert "canary" not in shown
