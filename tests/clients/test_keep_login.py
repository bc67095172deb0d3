"""`tandem connect --keep-login` with the real clients and made-up logins: the login works before, with and after."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from router.cli import main
from tests.clients.test_connect import TASK, Place
from tests.tools.logins import ACCOUNT, write_logins
from tests.tools.speech import Speech, write_stream
from tests.tools.upstream import CHAT_STREAM_HEAD, Script, Seen, Wire, answer_json

pytestmark = [pytest.mark.clients, pytest.mark.timeout(600)]
DONE = "The plan answers."
DIALECTS = {"claude-code": "messages", "codex": "responses"}
TARGETS = {
    "claude-code": "adapter: anthropic_http, dialect: messages, model: claude-opus-5-5",
    "codex": "adapter: openai_http, dialect: responses, model: gpt-6.1-sol",
}
STATUS = {
    "claude-code": (["auth", "status"], '"authMethod": "claude.ai"'),
    "codex": (["login", "status"], "Logged in using ChatGPT"),
}
SETTINGS = {
    "claude-code": (".claude/settings.json", '{\n  "permissions": {"allow": ["Bash(ls)"]},\n  "env": {"MINE": "1"}\n}'),
    "codex": (".codex/config.toml", '# mine\napproval_policy = "never"'),
}
EXEC = {"claude-code": ["-p"], "codex": ["exec", "--skip-git-repo-check"]}


def vendor(dialect: str) -> Script:
    """Answers every create call without reading its body, which may be compressed, and refuses sockets."""

    async def script(wire: Wire, seen: Seen) -> None:
        if seen.method == "POST" and "count_tokens" not in seen.path:
            await wire.send(CHAT_STREAM_HEAD)
            for frame in write_stream(dialect, Speech(DONE)):
                await wire.chunk(frame)
            await wire.end_chunks()
        else:
            await answer_json({"models": []}, status=426 if "upgrade" in seen.headers else 200)(wire, seen)

    return script


def config_for(client: str, base_url: str) -> str:
    address = base_url.removesuffix("/v1") if client == "claude-code" else base_url
    return (
        "tiers:\n  fast: {targets: [{name: quick, adapter: simulated}]}\n"
        f'  deep: {{targets: [{{name: mine, {TARGETS[client]}, base_url: "{address}", api_key: caller, billing: plan,\n'
        "    window_tokens: 400000, accepts: [text, tools, custom_tools, images, files, json_schema, reasoning]}]}\n"
    )


def tokens_of(logins: dict[Path, bytes], client: str) -> str:
    claude, codex = (json.loads(raw) for raw in logins.values())
    token = claude["claudeAiOauth"]["accessToken"] if client == "claude-code" else codex["tokens"]["access_token"]
    return f"Bearer {token}"


class Person(Place):
    """Somebody with settings of their own who is logged in with a plan."""

    def __init__(self, folder: Path, client: str, config: str, url: str) -> None:
        super().__init__(folder, url, client)
        self.logins = write_logins(folder / "home")
        name, text = SETTINGS[client]
        self.settings = folder / "home" / name
        self.settings.write_text(text)
        (folder / "config.yaml").write_text(config)
        self.environment |= {"TANDEM_CONFIG": str(folder / "config.yaml")}

    async def is_logged_in(self) -> bool:
        arguments, words = STATUS[self.client]
        return words in await self.run(*arguments)

    async def ask(self, *more: str, tier: str = "deep", **environment: str) -> str:
        kept = self.environment
        self.environment = {**kept, **environment}
        try:
            return await self.run(*EXEC[self.client], *more, f"tier: {tier}\n{TASK}")
        finally:
            self.environment = kept

    async def ask_directly(self, base_url: str) -> str:
        """As without Tandem, but for the address of the vendor."""
        if self.client == "codex":
            return await self.ask("-c", f'openai_base_url="{base_url}"')
        return await self.ask(ANTHROPIC_BASE_URL=base_url.removesuffix("/v1"))


@pytest.fixture
def person(start, upstream, tmp_path) -> Callable:
    async def begin(client: str, config: str = "") -> Person:
        upstream.scripts = [vendor(DIALECTS[client])]
        config = config or config_for(client, upstream.base_url)
        (tmp_path / "router").mkdir()
        (tmp_path / "person").mkdir()
        tandem = await start(config, tmp_path / "router")
        return Person(tmp_path / "person", client, config, tandem.url)

    return begin


def taken(upstream) -> list[Seen]:
    """The create calls since the last time."""
    found = [one for one in upstream.seen if one.method == "POST" and "count_tokens" not in one.path]
    upstream.seen.clear()
    return found


@pytest.mark.parametrize("client", DIALECTS)
async def test_a_login_works_before_with_and_after_and_every_file_is_as_it_was(person, upstream, client):
    one = await person(client)
    before, bearer = one.settings.read_bytes(), tokens_of(one.logins, client)

    assert await one.is_logged_in()
    assert DONE in await one.ask_directly(upstream.base_url)
    assert {seen.headers["authorization"] for seen in taken(upstream)} == {bearer}

    said = await one.tandem(client, "--keep-login", "--yes", "--url", one.url)
    assert "is not logged in" not in said
    assert await one.is_logged_in()
    assert DONE in (said := await one.ask()), said[-800:]
    calls = taken(upstream)
    assert {seen.headers["authorization"] for seen in calls} == {bearer}
    if client == "codex":
        assert {seen.headers["chatgpt-account-id"] for seen in calls} == {ACCOUNT}
    assert "is already connected" in await one.tandem(client, "--yes", "--url", one.url)

    assert "is no longer connected" in await one.tandem(client, "--undo", "--yes")
    assert one.settings.read_bytes() == before
    assert {path: path.read_bytes() for path in one.logins} == one.logins
    assert one.mentions() == []
    assert await one.is_logged_in()
    assert DONE in await one.ask_directly(upstream.base_url)
    assert {seen.headers["authorization"] for seen in taken(upstream)} == {bearer}


@pytest.mark.parametrize("client", DIALECTS)
async def test_a_run_keeps_the_login_whatever_keys_the_shell_has_and_changes_no_file(person, upstream, client):
    one = await person(client)
    one.environment |= {
        "ANTHROPIC_API_KEY": "sk-of-the-shell",
        "ANTHROPIC_AUTH_TOKEN": "of-the-shell",
        "OPENAI_API_KEY": "sk-it",
    }
    before = one.settings.read_bytes()

    said = await one.tandem("--url", one.url, "--run", client, "--keep-login", "--", *EXEC[client], f"tier: deep\n{TASK}")

    assert DONE in said, said[-800:]
    assert {seen.headers["authorization"] for seen in taken(upstream)} == {tokens_of(one.logins, client)}
    assert one.settings.read_bytes() == before
    assert {path: path.read_bytes() for path in one.logins} == one.logins
    assert one.mentions() == []


@pytest.mark.parametrize("client", DIALECTS)
async def test_plain_connect_notices_the_login_of_the_real_client(person, client):
    one = await person(client)

    said = await one.tandem(client, "--yes", "--url", one.url)

    assert "is logged in with a plan and keeps this login (--no-keep-login connects it without)" in said
    assert await one.is_logged_in()


PLANS = {
    "claude-code": ("claude", "https://api.anthropic.com", {"fast": "claude-haiku-5-5", "deep": "claude-opus-5-5"}),
    "codex": ("chatgpt", "https://chatgpt.com/backend-api/codex", {"fast": "gpt-6-luna", "deep": "gpt-6.1-sol"}),
}


@pytest.mark.parametrize("client", PLANS)
async def test_where_init_finds_nothing_else_the_plan_serves_both_tiers(person, upstream, client, capsys):
    plan, address, models = PLANS[client]
    assert main(["init", "--plan", plan, "--offline", "--print"]) == 0
    own = upstream.base_url.removesuffix("/v1") if client == "claude-code" else upstream.base_url
    one = await person(client, capsys.readouterr().out.replace(address, own))
    await one.tandem(client, "--keep-login", "--yes", "--url", one.url)

    for tier, model in models.items():
        assert DONE in (said := await one.ask(tier=tier)), said[-800:]
        calls = [seen for seen in taken(upstream) if TASK in seen.body.decode("utf-8", "replace")]
        assert {seen.headers["authorization"] for seen in calls} == {tokens_of(one.logins, client)}
        assert calls[-1].json["model"] == model
