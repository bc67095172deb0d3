"""Real clients with a plan's made-up login at the router's door: compressed bodies, and the router's key next to the login."""

import orjson
import pytest

from router.contract.keys import make_key
from router.edge.http import bodies
from tests.clients.test_keep_login import DIALECTS, DONE, config_for, taken, tokens_of, vendor
from tests.tools.clients import claude, command_of, make_scratch, run_client
from tests.tools.keyed import KEYS, write_keys
from tests.tools.logins import ACCOUNT, write_logins
from tests.tools.upstream import answer_json

pytestmark = [pytest.mark.clients, pytest.mark.timeout(600)]
PROMPT = "tier: deep\nFix the typo in calc.py"
ROUTERS_WORDS = "Tandem, the router between this client and its models, needs a valid key of its own"


def without_input(body: dict) -> dict:
    """A body without its messages, of which the router takes the first line."""
    return {name: value for name, value in body.items() if name != "input"}


class Desk:
    """A scratch home with a login, and a client that is pointed at the router by hand."""

    def __init__(self, folder, client: str, url: str) -> None:
        self.scratch, self.client, self.url = make_scratch(folder), client, url
        (folder / "home" / ".codex").mkdir()
        (folder / "home" / ".claude").mkdir()
        self.login = tokens_of(write_logins(folder / "home"), client)

    async def ask(self, key: str, *more: str, over_sockets: bool = False) -> str:
        if self.client == "claude-code":
            environment = {
                "ANTHROPIC_BASE_URL": self.url,
                "ANTHROPIC_CUSTOM_HEADERS": f"x-tandem-key: {key}",
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            }
            return await run_client(claude(prompt=PROMPT), self.scratch, environment)
        (self.scratch / "home" / ".codex" / "config.toml").write_text(
            f"""
model_provider = "tandem"
[model_providers.tandem]
name = "OpenAI"
base_url = "{self.url}/v1"
wire_api = "responses"
requires_openai_auth = true
supports_websockets = {str(over_sockets).lower()}
env_http_headers = {{ "x-tandem-key" = "TANDEM_KEY" }}
"""
        )
        command = [command_of("codex"), "exec", "--skip-git-repo-check", *more, PROMPT]
        return await run_client(command, self.scratch, {"TANDEM_KEY": key})


@pytest.fixture
def sit_down(start, upstream, tmp_path):
    async def begin(client: str) -> tuple[Desk, str]:
        """A client with a login, and its key of a router whose deep target is the plan."""
        upstream.scripts = [vendor(DIALECTS[client])]
        (tmp_path / "router").mkdir()
        (tmp_path / "desk").mkdir()
        key = write_keys(tmp_path / "router", ada="may_force: [fast, deep]")["ada"]
        tandem = await start(KEYS + config_for(client, upstream.base_url), tmp_path / "router")
        return Desk(tmp_path / "desk", client, tandem.url), key.text

    return begin


@pytest.mark.parametrize(("client", "over_sockets"), [("claude-code", False), ("codex", False), ("codex", True)])
async def test_the_routers_key_travels_next_to_the_login_which_alone_reaches_the_plan(sit_down, upstream, client, over_sockets):
    desk, key = await sit_down(client)

    said = await desk.ask(key, over_sockets=over_sockets)

    assert DONE in said, said[-800:]
    calls = taken(upstream)
    assert {seen.headers["authorization"] for seen in calls} == {desk.login}
    assert not any("x-tandem-key" in seen.headers or key in str(seen.headers) for seen in calls)


async def test_codex_sends_zstd_to_a_provider_that_it_takes_for_its_own_and_the_plan_gets_it_plain(
    sit_down, upstream, monkeypatch
):
    packed = []
    decompress = bodies.decompress

    def note(body, encoding, limits):
        packed.append((encoding, body[:4], plain := decompress(body, encoding, limits)))
        return plain

    monkeypatch.setattr(bodies, "decompress", note)
    desk, key = await sit_down("codex")

    said = await desk.ask(key)

    assert DONE in said, said[-800:]
    calls = taken(upstream)
    assert {(encoding, magic) for encoding, magic, _ in packed} == {("zstd", b"\x28\xb5\x2f\xfd")}
    assert len(packed) >= len(calls) > 0
    sent = [without_input(orjson.loads(plain)) for *_, plain in packed]
    for seen in calls:
        assert "content-encoding" not in seen.headers
        assert without_input(seen.json) in sent


async def test_codex_asks_for_the_models_of_its_plan_through_the_router(sit_down, upstream):
    desk, key = await sit_down("codex")

    await desk.ask(key)

    lists = [seen for seen in upstream.seen if seen.method == "GET" and seen.path.startswith("/v1/models?client_version=")]
    assert lists
    assert {seen.headers["authorization"] for seen in lists} == {desk.login}
    assert {seen.headers["chatgpt-account-id"] for seen in lists} == {ACCOUNT}
    assert not any("x-tandem-key" in seen.headers or "tandem" in seen.headers["user-agent"] for seen in lists)


async def test_codex_takes_the_list_of_its_plan_with_our_names_and_uses_the_plans_tools_for_them(sit_down, upstream):
    desk, key = await sit_down("codex")
    printed = await run_client([command_of("codex"), "debug", "models", "--bundled"], desk.scratch, {})
    models, answer = orjson.loads(printed[printed.index("{") :]), vendor("responses")

    async def list_models(wire, seen):
        if seen.method == "GET" and "upgrade" not in seen.headers:
            await answer_json(models)(wire, seen)
        else:
            await answer(wire, seen)

    upstream.scripts = [list_models]

    by_its_own_name, by_ours = [], []
    first = min((entry for entry in models["models"] if entry["visibility"] == "list"), key=lambda entry: entry["priority"])
    for name, found in ((first["slug"], by_its_own_name), ("deep", by_ours)):
        assert DONE in (said := await desk.ask(key, "-m", name)), said[-800:]
        assert "not found" not in said
        found += taken(upstream)

    own, ours = by_its_own_name[-1], by_ours[-1]
    lite = "x-openai-internal-codex-responses-lite"
    assert own.headers.get(lite) == ours.headers.get(lite) == ("true" if first["use_responses_lite"] else None)
    assert own.json.keys() == ours.json.keys()
    assert own.json.get("tools") == ours.json.get("tools")


@pytest.mark.parametrize("client", DIALECTS)
async def test_a_person_without_the_routers_key_reads_that_the_router_refused(sit_down, upstream, client):
    desk, _ = await sit_down(client)

    said = await desk.ask(make_key().text)

    assert ROUTERS_WORDS in " ".join(said.split()), said[-800:]
    assert "/login" not in said
    assert not taken(upstream)
