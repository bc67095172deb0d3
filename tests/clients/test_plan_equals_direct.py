"""A plan gets of a real client through Tandem what it gets directly, and the client does what it does directly.

Each client runs twice over HTTP with a made-up login against a server that plays its vendor: pointed at the server, and at a
Tandem whose tiers are that plan. What may differ is the list in `router/dialects/as_sent.py`.
"""

import json
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path

import pytest
from backports.zstd import decompress

from router.contract.credential import Credential
from router.contract.words import Vendor
from router.dialects.as_sent import headers_to_plan
from tests.clients.test_keep_login import DIALECTS, DONE, config_for, tokens_of
from tests.tools.clients import claude, command_of, make_scratch, run_client
from tests.tools.logins import write_logins
from tests.tools.speech import Speech, ToolCall, write_stream
from tests.tools.upstream import CHAT_STREAM_HEAD, Script, Seen, Upstream, Wire, answer_json

pytestmark = [pytest.mark.clients, pytest.mark.timeout(600)]
PROMPT = "Fix the typo in calc.py"
CALL, DELEGATED, SEALED = "toolu_1", "COUNT-THE-FILES", "SEALED-BY-THE-PLAN"
CODEX = """
model_provider = "plan"
[model_providers.plan]
name = "OpenAI"
base_url = "{url}/v1"
wire_api = "responses"
requires_openai_auth = true
supports_websockets = false
request_max_retries = 1
stream_max_retries = 1
http_headers = {{ "x-tandem-tier" = "deep" }}
"""
TOOLS = {
    "claude-code": ToolCall(CALL, "Bash", '{"command":"ls","description":"List files"}'),
    "codex": ToolCall(CALL, "shell_command", '{"command":"ls"}'),
}
AGENT = ToolCall(CALL, "Agent", json.dumps({"description": "Count", "prompt": DELEGATED, "subagent_type": "general-purpose"}))


def read(seen: Seen) -> dict:
    return json.loads(decompress(seen.body) if seen.headers.get("content-encoding") == "zstd" else seen.body)


def plays(dialect: str, choose: Callable[[str], Speech | list[bytes]]) -> Script:
    """Answers every create call by its body."""

    async def script(wire: Wire, seen: Seen) -> None:
        if seen.method != "POST":
            await answer_json({"models": []})(wire, seen)
        elif "count_tokens" in seen.path:
            await answer_json({"input_tokens": 9})(wire, seen)
        else:
            await wire.send(CHAT_STREAM_HEAD)
            told = choose(json.dumps(read(seen)))
            for frame in write_stream(dialect, told) if isinstance(told, Speech) else told:
                await wire.chunk(frame)
            await wire.end_chunks()

    return script


def answer(body: str) -> Speech:
    return Speech(DONE)


def loop(client: str) -> Callable[[str], Speech]:
    return lambda body: Speech(DONE) if CALL in body else Speech(calls=(TOOLS[client],))


def delegate(body: str) -> Speech:
    return Speech(DONE) if CALL in body or DELEGATED in body else Speech(calls=(AGENT,))


def summarise(body: str) -> Speech | list[bytes]:
    """As a plan of ChatGPT: a summary that only its maker can read, when the client asks for one."""
    if "compaction_trigger" not in body:
        return Speech(DONE) if SEALED in body else loop("codex")(body)
    item = {"id": "cmp_1", "type": "compaction", "encrypted_content": SEALED}
    usage = {"input_tokens": 9, "output_tokens": 1, "total_tokens": 10}
    events = (
        {"type": "response.created", "response": {"id": "resp_1"}},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": {"id": "resp_1", "output": [item], "usage": usage}},
    )
    return [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events]


@dataclass
class Desk:
    """A scratch home with a login, and a client that is pointed somewhere by hand."""

    folder: Path
    client: str
    url: str

    def __post_init__(self) -> None:
        self.folder.mkdir()
        self.scratch = make_scratch(self.folder)
        self.login = tokens_of(write_logins(self.folder / "home"), self.client)

    async def ask(self, *more: str) -> str:
        if self.client == "claude-code":
            quiet = {
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
                "ANTHROPIC_CUSTOM_HEADERS": "x-tandem-tier: deep",
                "CLAUDE_CODE_MAX_RETRIES": "1",
            }
            command = [*claude(prompt=more[-1] if more else PROMPT), *more[:-1]]
            return await run_client(command, self.scratch, {"ANTHROPIC_BASE_URL": self.url, **quiet})
        (self.scratch / "home" / ".codex" / "config.toml").write_text(CODEX.format(url=self.url))
        command = [command_of("codex"), "exec", "--skip-git-repo-check", *(more[:-1]), more[-1] if more else PROMPT]
        return await run_client(command, self.scratch, {})


def config_of(client: str, base_url: str) -> str:
    return config_for(client, base_url) + 'models: {"*": auto}\n'


RANDOM = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\b1[78]\d{11}\b|\b1[78]\d{8}(?:\.\d+)?\b|\b[0-9a-f]{32,64}\b"
    r"|\ba[0-9a-f]{16}\b|<duration_ms>\d+|desk-(?:direct|router)|cch=[0-9a-f]+|\d{4}-\d\d-\d\dT[\d:.]+Z?"
)


def as_compared(seen: Seen, login: str) -> list[str]:
    """The lines of a request, without what is random and without the headers on the list."""
    own = Credential(login.removeprefix("Bearer "), Vendor.CHATGPT, is_login=True)
    headers = dict(headers_to_plan(seen.headers, own))
    assert headers.pop("authorization") == login
    told = (json.dumps(part, indent=1, sort_keys=True) for part in (headers, read(seen)))
    return RANDOM.sub("<random>", "\n".join((f"POST {seen.path}", *told))).splitlines()


@pytest.fixture
def both_ways(start, upstream: Upstream, tmp_path):
    """Runs a client directly and through Tandem. Returns what it said, and what the vendor saw, of both."""

    async def run(
        client: str, choose: Callable[[str], Speech | list[bytes]] | Script, *asks: tuple[str, ...], is_script: bool = False
    ):
        upstream.scripts = [choose if is_script else plays(DIALECTS[client], choose)]
        (tmp_path / "router").mkdir()
        tandem = await start(config_of(client, upstream.base_url), tmp_path / "router")
        told = []
        for name, url in (("direct", upstream.base_url.removesuffix("/v1")), ("router", tandem.url)):
            desk = Desk(tmp_path / f"desk-{name}", client, url)
            said = [await desk.ask(*more) for more in asks or ((),)]
            calls = [as_compared(seen, desk.login) for seen in upstream.seen if seen.method == "POST"]
            upstream.seen.clear()
            told.append((said, calls))
        return told

    return run


def assert_equal(direct, through) -> None:
    """Requests are compared in any order: a subagent asks at the same time as the conversation that began it."""
    (said, calls), (said_too, calls_too) = direct, through
    assert DONE in said[-1]
    assert DONE in said_too[-1]
    assert len(calls) == len(calls_too)
    pairs = zip(sorted(calls), sorted(calls_too), strict=True)
    differing = [line[:300] for one, other in pairs for line in unified_diff(one, other, "direct", "through Tandem", n=0)]
    assert not differing, "\n".join(differing)


@pytest.mark.parametrize("client", DIALECTS)
async def test_an_ask(both_ways, client):
    assert_equal(*await both_ways(client, answer))


@pytest.mark.parametrize("client", DIALECTS)
async def test_a_tool_loop(both_ways, client):
    direct, through = await both_ways(client, loop(client))

    assert len(direct[1]) >= 2
    assert_equal(direct, through)


async def test_a_subagent(both_ways):
    direct, through = await both_ways("claude-code", delegate)

    assert len(direct[1]) >= 3
    assert_equal(direct, through)


async def test_a_compaction_of_codex(both_ways):
    direct, through = await both_ways("codex", summarise, ("-c", "model_auto_compact_token_limit=60", PROMPT))

    assert any(SEALED in line for lines in direct[1] for line in lines)
    assert_equal(direct, through)


async def test_a_compaction_of_claude_code(both_ways):
    direct, through = await both_ways("claude-code", answer, (PROMPT,), ("--continue", "/compact"), ("--continue", PROMPT))

    assert any("summary of the conversation" in line for lines in direct[1] for line in lines)
    assert_equal(direct, through)


def refuses(status: int, headers: dict[str, str], error: dict) -> Script:
    body = json.dumps(error).encode()
    told = "".join(f"{name}: {value}\r\n" for name, value in {"content-type": "application/json", **headers}.items())

    async def script(wire: Wire, seen: Seen) -> None:
        if seen.method == "POST":
            await wire.send(f"HTTP/1.1 {status} Any\r\n{told}content-length: {len(body)}\r\n\r\n".encode() + body)
        else:
            await answer_json({"models": []})(wire, seen)

    return script


def by_claude(kind: str, message: str) -> dict:
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_011"}


LATER = int(time.time()) // 60 * 60 + 5400
WINDOW = {
    "anthropic-ratelimit-unified-status": "rejected",
    "anthropic-ratelimit-unified-reset": str(LATER),
    "anthropic-ratelimit-unified-representative-claim": "five_hour",
    "retry-after": "5400",
}
WEEK = {**WINDOW, "anthropic-ratelimit-unified-representative-claim": "seven_day"}
EXCEEDED = by_claude("rate_limit_error", "This request would exceed your account's rate limit. Please try again later.")
USED_UP = {
    "error": {
        "type": "usage_limit_reached",
        "message": "The usage limit has been reached",
        "plan_type": "pro",
        "resets_at": LATER,
    }
}
FIGURES = {
    "x-codex-primary-used-percent": "100",
    "x-codex-primary-window-minutes": "300",
    "x-codex-primary-reset-at": str(LATER),
}
FIGURES_OF_A_WEEK = {name.replace("primary", "secondary"): value.replace("300", "10080") for name, value in FIGURES.items()}
EXPIRED = "OAuth token has expired. Please obtain a new token or refresh your existing token."
REFUSALS = {
    "claude-code, 401": ("claude-code", refuses(401, {}, by_claude("authentication_error", EXPIRED)), "401"),
    "claude-code, 429": (
        "claude-code",
        refuses(429, {"retry-after": "1"}, by_claude("rate_limit_error", "Slow down")),
        "Slow down",
    ),
    "claude-code, 529": ("claude-code", refuses(529, {}, by_claude("overloaded_error", "Overloaded")), "529"),
    "claude-code, 5 hours": ("claude-code", refuses(429, WINDOW, EXCEEDED), "hit your"),
    "claude-code, week": ("claude-code", refuses(429, WEEK, EXCEEDED), "hit your"),
    "codex, 401": (
        "codex",
        refuses(401, {}, {"error": {"message": "Your token has expired.", "code": "token_expired"}}),
        "auth.openai.com",
    ),
    "codex, 429": (
        "codex",
        refuses(429, {"retry-after": "1"}, {"error": {"message": "Slow down", "type": "rate_limit"}}),
        "429",
    ),
    "codex, 503": ("codex", refuses(503, {}, {"error": {"message": "Overloaded"}}), "503"),
    "codex, 5 hours": ("codex", refuses(429, FIGURES, USED_UP), "usage limit"),
    "codex, week": ("codex", refuses(429, FIGURES_OF_A_WEEK, USED_UP), "usage limit"),
}


def errors_in(client: str, said: list[str]) -> list[str]:
    """What a client says of an error, without ids and the address that it was pointed at. Codex logs other things around it."""
    lines = re.sub(r"127\.0\.0\.1:\d+", "<address>", RANDOM.sub("", "\n".join(said))).splitlines()
    found = lines if client == "claude-code" else [line for line in lines if line.startswith("ERROR: ")]
    return [re.sub(r", request id: \S*", "", line) for line in found]


@pytest.mark.parametrize(("client", "script", "words"), REFUSALS.values(), ids=REFUSALS)
async def test_a_refusal(both_ways, client, script, words):
    (said, calls), (said_too, calls_too) = await both_ways(client, script, is_script=True)

    told = errors_in(client, said)
    assert words in "".join(told), said
    assert errors_in(client, said_too) == told
    assert 1 <= len(calls_too) <= len(calls)
