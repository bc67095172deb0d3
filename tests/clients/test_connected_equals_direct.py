"""The first request of a client that `tandem connect` pointed here is the one that it sends without Tandem.

Each client runs twice against a recording upstream: once pointed at it by its own settings, with the name of the model, and once
through a Tandem whose targets are that model. What may differ is in `differences.py`, with the reason.
"""

import difflib
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.clients.differences import DIFFERENCES
from tests.clients.test_connect import AIDER, TASK, Place
from tests.tools.speech import Speech, speak
from tests.tools.upstream import Script, Seen, Wire, answer_json

pytestmark = [pytest.mark.clients, pytest.mark.timeout(300)]
DONE = "<attempt_completion><result>Nothing to do.</result></attempt_completion>"
CONTINUE = """
name: own
version: 0.0.1
schema: v1
models:
  - name: Own
    provider: openai
    model: gpt-5.5
    apiBase: {base}
    apiKey: any
    roles: [chat]
    capabilities: [tool_use]
    defaultCompletionOptions: {{contextLength: 400000}}
"""
OPENCODE = """
{{"model": "own/gpt-5.5", "provider": {{"own": {{"npm": "@ai-sdk/openai-compatible", "name": "Own",
  "options": {{"baseURL": "{base}", "apiKey": "any"}},
  "models": {{"gpt-5.5": {{"name": "Some", "limit": {{"context": 400000, "output": 32000}}}}}}}}}}}}
"""
LLM = "- model_id: own\n  model_name: gpt-5.5\n  api_base: {base}\n  supports_tools: true\n  supports_schema: true\n"


@dataclass(frozen=True)
class Direct:
    """How a client is pointed at a model without us. `{base}` and `{root}` stand for the address, with and without /v1."""

    dialect: str
    model: str
    arguments: list[str]
    environment: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    before: list[str] = field(default_factory=list)
    """A command of the client's own that is run first."""


COPILOT = {"COPILOT_PROVIDER_API_KEY": "any", "COPILOT_PROVIDER_MAX_PROMPT_TOKENS": "400000"}
DIRECT = {
    "codex": Direct(
        "responses",
        "gpt-5.5",
        ["exec", "--skip-git-repo-check", "-m", "gpt-5.5", "-c", 'openai_base_url="{base}"', TASK],
        {"CODEX_API_KEY": "any"},
    ),
    "claude-code": Direct(
        "messages",
        "claude-opus-5-5",
        ["-p", "--model", "claude-opus-5-5", TASK],
        {"ANTHROPIC_BASE_URL": "{root}", "ANTHROPIC_AUTH_TOKEN": "any"},
    ),
    "opencode": Direct("chat", "gpt-5.5", ["run", TASK], files={".config/opencode/opencode.json": OPENCODE}),
    "qwen-code": Direct(
        "chat",
        "gpt-5.5",
        ["--auth-type", "openai", "-p", TASK],
        {"OPENAI_API_KEY": "any", "OPENAI_BASE_URL": "{base}", "OPENAI_MODEL": "gpt-5.5"},
    ),
    "continue": Direct(
        "responses",
        "gpt-5.5",
        ["-p", "--auto", TASK],
        files={".continue/config.yaml": CONTINUE, ".continue/.onboarding_complete": "1\n"},
    ),
    "cline": Direct(
        "chat",
        "gpt-5.5",
        ["--yolo", "--json", TASK],
        before=["auth", "-p", "openai", "-k", "any", "-m", "gpt-5.5", "-b", "{base}"],
    ),
    "aider": Direct(
        "chat", "gpt-5", ["--model", "openai/gpt-5", *AIDER], {"OPENAI_API_BASE": "{base}", "OPENAI_API_KEY": "any"}
    ),
    "llm": Direct("chat", "gpt-5.5", ["-m", "own", TASK], files={".config/io.datasette.llm/extra-openai-models.yaml": LLM}),
    "copilot": Direct(
        "responses",
        "gpt-5.5",
        ["--allow-all-tools", "-p", TASK],
        {
            **COPILOT,
            "COPILOT_PROVIDER_BASE_URL": "{base}",
            "COPILOT_PROVIDER_WIRE_API": "responses",
            "COPILOT_MODEL": "gpt-5.5",
        },
    ),
}


def answers(dialect: str) -> Script:
    """Answers every create call, and refuses a socket as a provider without one does."""
    spoken = speak(dialect, Speech(DONE))

    async def script(wire: Wire, seen: Seen) -> None:
        if seen.method == "POST":
            await spoken(wire, seen)
        else:
            status = 426 if "upgrade" in seen.headers else 200
            await answer_json({"object": "list", "data": []}, status=status)(wire, seen)

    return script


def config_for(direct: Direct, base_url: str) -> str:
    """Both tiers are the model that the client would ask without us."""
    is_messages = direct.dialect == "messages"
    adapter, url = ("anthropic_http", base_url.removesuffix("/v1")) if is_messages else ("openai_http", base_url)
    target = (
        f'adapter: {adapter}, dialect: {direct.dialect}, base_url: "{url}", model: {direct.model}, window_tokens: 400000, '
        f"accepts: [text, tools, custom_tools, images, files, json_schema, reasoning]"
    )
    return (
        "ledger: {path: test.db}\n"
        f"tiers: {{fast: {{targets: [{{name: quick, {target}}}]}}, deep: {{targets: [{{name: thorough, {target}}}]}}}}\n"
    )


def first_ask(seen: list[Seen]) -> dict:
    """The first request in which the person's words are, and tools where the client has some: titles come before it."""
    asks = [one.json for one in seen if one.method == "POST" and "count_tokens" not in one.path and TASK in one.body.decode()]
    with_tools = [ask for ask in asks if ask.get("tools")]
    return (with_tools or asks)[0]


def flatten(value: object, path: str = "") -> dict[str, str]:
    """Every leaf of a request by its path; lists by their place, tools by their name."""
    if isinstance(value, dict):
        return {k: v for key, inner in value.items() for k, v in flatten(inner, f"{path}.{key}" if path else key).items()}
    if isinstance(value, list):
        names = [
            item.get("name") or (item.get("function") or {}).get("name") if isinstance(item, dict) else None for item in value
        ]
        is_tools = path == "tools" and all(names)
        return {
            k: v
            for place, inner in enumerate(value)
            for k, v in flatten(inner, f"{path}[{names[place] if is_tools else place}]").items()
        }
    return {path: str(value)}


IDS = re.compile(r"^(model|prompt_cache_key|metadata|client_metadata|user|safety_identifier)\b")
VARYING = [
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}"), "ID"),
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[.\d]*(Z|[+-]\d\d:?\d\d)?"), "TIME"),
    (re.compile(r"\d{1,2}/\d{1,2}/\d{4}, \d{1,2}:\d\d:\d\d [AP]M"), "TIME"),
    (re.compile(r"cch=[0-9a-f]+"), "HASH"),
]


def plain(text: str, scratch: Path) -> str:
    text = text.replace(str(scratch), "SCRATCH").replace(re.sub(r"[^A-Za-z0-9]", "-", str(scratch)), "SCRATCH")
    for pattern, word in VARYING:
        text = pattern.sub(word, text)
    return text


def compare(direct: dict, connected: dict, places: tuple[Path, Path]) -> dict[str, str]:
    """By path: how the two differ."""
    left, right = (
        {path: plain(text, place) for path, text in flatten(body).items() if not IDS.match(path)}
        for body, place in zip((direct, connected), places, strict=True)
    )
    found = {}
    for path in sorted({*left, *right}):
        one, other = left.get(path, "(absent)"), right.get(path, "(absent)")
        if one != other:
            lines = list(difflib.unified_diff(one.splitlines(), other.splitlines(), lineterm="", n=0))[2:]
            found[path] = "\n".join(line[:300] for line in lines[:20])
    return found


@pytest.mark.parametrize("client", DIRECT)
async def test_the_first_request_is_the_one_without_tandem_but_for_what_is_named(start, upstream, tmp_path, client):
    direct = DIRECT[client]
    upstream.scripts = [answers(direct.dialect)]
    words = {"base": upstream.base_url, "root": upstream.base_url.removesuffix("/v1")}
    fill: Callable[[str], str] = lambda text: text.format(**words)  # noqa: E731  of this test alone
    (tmp_path / "direct").mkdir()
    (tmp_path / "connected").mkdir()
    (tmp_path / "router").mkdir()
    place = Place(tmp_path / "direct", "", client)
    place.environment |= {name: fill(value) for name, value in direct.environment.items()}
    for name, text in direct.files.items():
        (place.scratch / "home" / name).parent.mkdir(parents=True, exist_ok=True)
        (place.scratch / "home" / name).write_text(fill(text))
    if direct.before:
        await place.run(*map(fill, direct.before))
    said = await place.run(*map(fill, direct.arguments))
    assert upstream.seen, said
    without = first_ask(upstream.seen)

    upstream.seen.clear()
    config = config_for(direct, upstream.base_url)
    tandem = await start(config, tmp_path / "router")
    place = Place(tmp_path / "connected", tandem.url, client)
    (tmp_path / "connected" / "config.yaml").write_text(config)
    place.environment["TANDEM_CONFIG"] = str(tmp_path / "connected" / "config.yaml")
    await place.connect()
    said = await place.run_connected()
    assert upstream.seen, said
    found = compare(without, first_ask(upstream.seen), (tmp_path / "direct", tmp_path / "connected"))

    report = "\n".join(f"{path}\n{text}" for path, text in found.items())
    assert {path for path in found if not any(re.fullmatch(name, path) for name in DIFFERENCES[client])} == set(), report


@pytest.mark.parametrize("client", [client for client in DIRECT if DIFFERENCES[client]])
def test_every_difference_is_on_the_page_with_its_reason(client):
    page = (Path(__file__).resolve().parents[2] / "docs" / "use" / f"{client}.md").read_text()

    for reason in DIFFERENCES[client].values():
        assert reason in page
