"""Codex with a made-up ChatGPT login over sockets, direct and through Tandem: what the plan gets, and what Codex then says.

No vendor is asked: a recording server plays the plan, and another the one that refreshes logins.
"""

import json
import re
import time
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from websockets.datastructures import Headers
from websockets.http11 import Response

from tests.clients.test_connected_equals_direct import flatten
from tests.clients.test_one_socket import codex_app
from tests.tools.clients import command_of, make_scratch, run_client
from tests.tools.logins import ACCOUNT, chatgpt_token
from tests.tools.socket_upstream import SocketSeen, SocketUpstream
from tests.tools.speech import USAGE
from tests.tools.upstream import Upstream, answer_json

pytestmark = [pytest.mark.clients, pytest.mark.timeout(300)]

MODEL, TOMORROW = "gpt-6.1-sol", int(time.time()) + 86_400
TANDEM = """
ledger: {{path: test.db}}
models: {{auto: auto, fast: fast, deep: deep, "gpt-6.1-sol": deep}}
spill_over: false
tiers:
  fast: {{targets: [{{name: spark, adapter: simulated}}]}}
  deep:
    targets:
      - {{name: chatgpt, adapter: openai_http, dialect: responses, base_url: "{plan}", model: gpt-6.1-sol,
         window_tokens: 400000, api_key: caller, billing: plan, upstream_transport: {transport}}}
"""
LOOK = 'const found = await tools.exec_command({cmd: "cat calc.py"}); text(found.output);'
EXPIRED = {"type": "invalid_request_error", "code": "token_expired", "message": "Your authentication token has expired."}
each_way = pytest.mark.parametrize("way", ["websocket", "http"])
"""How Tandem asks the plan. Codex always uses a socket."""


def token(number: int) -> str:
    """A token that nobody signed, and that is valid for a day."""
    auth = {"chatgpt_account_id": ACCOUNT, "chatgpt_plan_type": "pro", "chatgpt_user_id": "user-1"}
    claims = {"https://api.openai.com/auth": auth, "exp": TOMORROW, "email": "a@example.com", "n": number}
    return chatgpt_token(f"codex-{number}", **claims)


def log_in(home: Path, text: str) -> None:
    """Write the file that Codex keeps its login in."""
    (home / ".codex").mkdir()
    tokens = {"id_token": text, "access_token": text, "refresh_token": "made-up", "account_id": ACCOUNT}
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    login = {"auth_mode": "chatgpt", "OPENAI_API_KEY": None, "tokens": tokens, "last_refresh": now}
    (home / ".codex" / "auth.json").write_text(json.dumps(login))


class Plan(SocketUpstream):
    """Plays the plan: a model that looks at a file, delegates and compacts, and refusals."""

    def __init__(self) -> None:
        super().__init__(self._answer)
        self.http.scripts = [self._answer_http]
        self.refusal: tuple[int, dict, dict[str, str]] | None = None
        self.expired: set[str] = set()
        self.handshakes = 0
        self._answered: dict[str, int] = {}

    def _check(self, connection, request):
        if "upgrade" not in request.headers:  # its list of models, which Codex can do without
            return Response(200, "OK", Headers({"content-type": "application/json"}), b'{"models":[]}')
        self.handshakes += 1
        if request.headers["authorization"].removeprefix("Bearer ") in self.expired:
            body = json.dumps({"error": EXPIRED}).encode()
            return Response(401, "X", Headers({"content-type": "application/json", "content-length": str(len(body))}), body)
        return super()._check(connection, request)

    async def _answer(self, connection, seen: SocketSeen) -> None:
        if self.refusal is not None:
            status, error, headers = self.refusal
            await connection.send(json.dumps({"type": "error", "status": status, "error": error, "headers": headers}))
            return
        await connection.send(json.dumps(limits()))
        for event in self._events(seen.json, seen.headers["thread-id"]):
            await connection.send(json.dumps(event))

    async def _answer_http(self, wire, seen) -> None:
        if not seen.path.endswith("/responses"):
            await answer_json({})(wire, seen)
            return
        if seen.headers["authorization"].removeprefix("Bearer ") in self.expired:
            await answer_json({"error": EXPIRED}, 401)(wire, seen)
        elif self.refusal is not None:
            status, error, headers = self.refusal
            await answer_json({"error": error}, status, headers=headers)(wire, seen)
        else:
            events = self._events(seen.json, seen.headers["thread-id"])
            text = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
            await answer_json(text.encode(), headers={"content-type": "text/event-stream", **figures()})(wire, seen)

    def _events(self, body: dict, thread: str) -> list[dict]:
        is_prewarm = body.get("generate") is False
        if not is_prewarm:
            self._answered[thread] = self._answered.get(thread, 0) + 1
        number = self._answered.get(thread, 0)
        response = {"id": f"resp_{thread}_{number}", "object": "response", "created_at": 1, "model": MODEL, "store": False}
        items = [] if is_prewarm else [write_item(body["input"], number)]
        events = [{"type": "response.created", "response": {**response, "status": "in_progress", "output": []}}]
        for kind in ("added", "done"):
            events += [{"type": f"response.output_item.{kind}", "output_index": 0, "item": item} for item in items]
        done = {**response, "status": "completed", "output": items, "usage": USAGE["responses"]}
        events.append({"type": "response.completed", "response": done})
        return [{**event, "sequence_number": place} for place, event in enumerate(events)]

    @property
    def asks(self) -> list[dict]:
        """The bodies of turns: prewarms are none."""
        sent = [seen.json for seen in self.seen] + [seen.json for seen in self.http.seen if seen.path.endswith("/responses")]
        return [body for body in sent if body.get("generate") is not False]


def write_item(items: list[dict], number: int) -> dict:
    """What the model does next: it looks at the file, delegates, compacts or says that it is done."""
    last = json.dumps(items[-1]) if items else ""
    if '"compaction_trigger"' in last:
        return {"type": "compaction", "id": "cmp_1", "encrypted_content": "sealed by the plan"}
    if "Fix the typo" in last:
        called = {"call_id": f"call_{number}", "name": "exec", "namespace": "functions", "input": LOOK}
        return {"type": "custom_tool_call", "id": "ctc_1", "status": "completed", **called}
    if "Delegate it" in last:
        arguments = json.dumps({"task_name": "helper", "message": "say hello", "fork_turns": "none"})
        called = {"call_id": f"call_{number}", "name": "spawn_agent", "namespace": "collaboration", "arguments": arguments}
        return {"type": "function_call", "id": "fc_1", "status": "completed", **called}
    content = [{"type": "output_text", "text": "done", "annotations": []}]
    return {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": content}


def figures(five_hours: int = 42, week: int = 7) -> dict[str, str]:
    now = int(time.time())
    return {
        "x-codex-plan-type": "pro",
        "x-codex-primary-used-percent": str(five_hours),
        "x-codex-primary-window-minutes": "300",
        "x-codex-primary-reset-at": str(now + 3_600),
        "x-codex-secondary-used-percent": str(week),
        "x-codex-secondary-window-minutes": "10080",
        "x-codex-secondary-reset-at": str(now + 400_000),
    }


def limits() -> dict:
    told = figures()
    windows = {
        window: {name: int(told[f"x-codex-{window}-{name.replace('_', '-')}"]) for name in names}
        for window in ("primary", "secondary")
        for names in [("used_percent", "window_minutes", "reset_at")]
    }
    return {"type": "codex.rate_limits", "plan_type": "pro", "rate_limits": {"allowed": True, **windows}}


@pytest.fixture
async def plan():
    server = Plan()
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
async def issuer():
    """Refreshes logins, each time with a new token."""
    server = Upstream()
    given: list[str] = []

    async def refresh(wire, seen) -> None:
        given.append(token(100 + len(given)))
        await answer_json({"id_token": given[-1], "access_token": given[-1], "refresh_token": "made-up-too"})(wire, seen)

    server.scripts = [refresh]
    await server.start()
    yield server
    await server.stop()


def config_toml(plan: Plan) -> str:
    """What `tandem connect codex --keep-login` sets. `{url}` stands for the address."""
    return f"""
model = "{MODEL}"
model_provider = "kept"
chatgpt_base_url = "{plan.base_url.removesuffix("/v1")}/backend-api"
[model_providers.kept]
name = "OpenAI"
base_url = "{{url}}/v1"
wire_api = "responses"
requires_openai_auth = true
supports_websockets = true
"""


def make_place(folder: Path, text: str) -> Path:
    folder.mkdir()
    (folder / "router").mkdir()
    scratch = make_scratch(folder)
    log_in(scratch / "home", text)
    return scratch


@asynccontextmanager
async def pointed(way: str, plan: Plan, start, folder: Path, text: str):
    """An address for Codex, and its scratch folder with a login."""
    scratch = make_place(folder, text)
    url = plan.base_url.removesuffix("/v1")
    if way != "direct":
        url = (await start(TANDEM.format(plan=plan.base_url, transport=way), folder / "router")).url
    yield url, scratch


VARYING = [
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), "ID"),
    (re.compile(r"\b1\d{12}\b|\b1\d{9}\.\d+"), "0"),
    (re.compile(r"Chunk ID: \w+|Wall time: [\d.]+ seconds|\d+\.\d+ seconds"), "MEASURED"),
]


def plain(value: object, scratch: Path) -> object:
    """Without ids, times and folders, which differ each time."""
    text = json.dumps(value).replace(str(scratch), "SCRATCH")
    for pattern, word in VARYING:
        text = pattern.sub(word, text)
    return json.loads(text)


REPORT = "agent_message"
OF_THE_CONNECTION = re.compile(r"host|connection|upgrade|sec-websocket-.*")


class Recorded:
    """What the plan saw of one client: by thread, a handshake and its frames."""

    def __init__(self, plan: Plan, scratch: Path, said: list[str]) -> None:
        threads: dict[str, list[SocketSeen]] = {}
        for seen in plan.seen:
            if seen.json.get("generate") is not False:
                threads.setdefault(seen.headers["thread-id"], []).append(seen)
        self.said = said
        self.handshakes = [
            {name: value for name, value in plain(frames[0].headers, scratch).items() if not OF_THE_CONNECTION.fullmatch(name)}
            for frames in threads.values()
        ]
        self.frames = [[plain(seen.json, scratch) for seen in frames] for frames in threads.values()]
        self.reports = {json.dumps(item) for frames in self.frames for frame in frames for item in take_reports(frame)}
        self.sockets = len({seen.socket for frames in threads.values() for seen in frames})


def take_reports(frame: dict) -> list[dict]:
    """Take out what agents told each other: Codex adds it whenever it arrives, before or after the person's next words."""
    items = frame["input"]
    frame["input"] = [item for item in items if item["type"] != REPORT]
    return [item for item in items if item["type"] == REPORT]


async def talk(way: str, plan: Plan, start, folder: Path) -> Recorded:
    """Ask, tool loop, subagent, compaction, and an ask after it."""
    async with (
        pointed(way, plan, start, folder, token(1)) as (url, scratch),
        codex_app(url, scratch, config_toml(plan), {}) as codex,
    ):
        turns = [await codex.turn("Fix the typo in calc.py"), await codex.turn("Delegate it")]
        await codex.hear("turn/completed", 3)  # the subagent's, too
        turns += [await codex.compact(), await codex.turn("Thanks")]
        told = [params["rateLimits"] for params in await codex.hear("account/rateLimits/updated", 7)]
    said = [turn["status"] for turn in turns] + [f"{limit['primary']['usedPercent']} {limit['planType']}" for limit in told[:1]]
    recorded = Recorded(plan, scratch, said)
    plan.seen.clear()
    plan._answered.clear()
    return recorded


def continued(frames: list[dict]) -> list[object]:
    """How each frame continues: the first of a thread may follow a prewarm, whose answer has no number."""
    return [re.sub("^resp_ID_0$", "", frame.get("previous_response_id") or "") for frame in frames]


def differing(ours: dict, theirs: dict) -> dict[str, tuple]:
    """By path, what is not equal in two frames."""
    left, right = flatten(ours), flatten(theirs)
    paths = {*left, *right} - {"previous_response_id"}
    return {path: (left.get(path), right.get(path)) for path in paths if left.get(path) != right.get(path)}


async def test_ask_tool_loop_subagent_and_compaction_reach_the_plan_as_they_do_directly(plan, start, tmp_path):
    direct = await talk("direct", plan, start, tmp_path / "direct")
    through = await talk("websocket", plan, start, tmp_path / "through")

    assert through.said == direct.said == [*["completed"] * 4, "42 pro"]
    assert through.sockets == direct.sockets == 2
    assert len(through.reports) == 2  # the task, and what became of it
    assert through.reports == direct.reports
    for ours, theirs in zip(through.handshakes, direct.handshakes, strict=True):
        told = json.loads(ours.pop("x-codex-turn-metadata")), json.loads(theirs.pop("x-codex-turn-metadata"))
        assert [metadata["request_kind"] for metadata in told] == ["turn", "prewarm"]
        assert ours == theirs
    for ours, theirs in zip(through.frames, direct.frames, strict=True):
        assert continued(ours) == continued(theirs)
        assert [differing(*both) for both in zip(ours, theirs, strict=True)] == [{}] * len(ours)
    assert [seen.path for seen in plan.http.seen if seen.path.endswith("/responses")] == []


async def test_over_http_the_plan_is_told_the_form_and_not_of_sockets(plan, start, tmp_path):
    async with (
        pointed("http", plan, start, tmp_path / "through", token(1)) as (url, scratch),
        codex_app(url, scratch, config_toml(plan), {}) as codex,
    ):
        turn = await codex.turn("Fix the typo in calc.py")
        told = await codex.hear("account/rateLimits/updated", 2)

    sent = [seen for seen in plan.http.seen if seen.path.endswith("/responses")]
    assert turn["status"] == "completed"
    assert {limit["rateLimits"]["primary"]["usedPercent"] for limit in told} == {42}
    assert {seen.headers["x-openai-internal-codex-responses-lite"] for seen in sent} == {"true"}
    assert {seen.headers["chatgpt-account-id"] for seen in sent} == {ACCOUNT}
    assert not any("openai-beta" in seen.headers for seen in sent)
    assert len(sent) == 2
    assert plan.seen == []


async def run(way: str, plan: Plan, start, folder: Path, issuer: Upstream, text: str) -> str:
    """What `codex exec` says to one ask, from the person's words on."""
    async with pointed(way, plan, start, folder, text) as (url, scratch):
        (scratch / "home" / ".codex" / "config.toml").write_text(config_toml(plan).format(url=url))
        command = [command_of("codex"), "exec", "--skip-git-repo-check", "Say hello"]
        said = await run_client(command, scratch, {"CODEX_REFRESH_TOKEN_URL_OVERRIDE": f"{issuer.base_url}/oauth/token"})
    lines = said[said.index("\nSay hello\n") :].splitlines()
    return "\n".join(line for line in lines if line.strip() and not re.match(r"\d{4}-\d\d-\d\dT|warning: .*bubblewrap", line))


USED_UP = {"type": "usage_limit_reached", "message": "The usage limit has been reached", "plan_type": "pro"}


@each_way
@pytest.mark.parametrize(("five_hours", "week", "seconds"), [(100, 40, 5_400), (60, 100, 300_000)], ids=["5 hours", "week"])
async def test_a_plan_that_is_used_up_is_told_as_directly_after_one_request(
    plan, start, tmp_path, issuer, way, five_hours, week, seconds
):
    resets_at = int(time.time()) + seconds
    plan.refusal = 429, {**USED_UP, "resets_at": resets_at, "resets_in_seconds": seconds}, figures(five_hours, week)

    direct = await run("direct", plan, start, tmp_path / "direct", issuer, token(1))
    asked = len(plan.asks)
    through = await run(way, plan, start, tmp_path / "through", issuer, token(1))

    assert through == direct
    assert "usage limit" in through
    assert "try again at" in through
    assert (asked, len(plan.asks)) == (1, 2)


@each_way
async def test_a_refused_login_makes_codex_refresh_it_and_go_on(plan, start, tmp_path, issuer, way):
    old = token(1)
    plan.expired.add(old)

    direct = await run("direct", plan, start, tmp_path / "direct", issuer, old)
    refreshed = len(issuer.seen)
    through = await run(way, plan, start, tmp_path / "through", issuer, old)

    assert through == direct
    assert "done" in through
    assert "ERROR" not in through
    assert (refreshed, len(issuer.seen)) == (1, 2)


@each_way
async def test_a_refusal_of_the_request_is_told_as_directly(plan, start, tmp_path, issuer, way):
    plan.refusal = (
        400,
        {"type": "invalid_request_error", "code": "invalid_prompt", "message": "That prompt is not allowed."},
        {},
    )

    direct = await run("direct", plan, start, tmp_path / "direct", issuer, token(1))
    through = await run(way, plan, start, tmp_path / "through", issuer, token(1))

    assert through == direct
    assert "That prompt is not allowed." in through
