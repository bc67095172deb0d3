"""The public module, as a program uses it: decisions without a server, and the router behind a plain ASGI server."""

import asyncio
import contextlib
import json
import re
import types
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
import uvicorn
import websockets
import yaml

from router import api
from router.cli import main
from tests.conftest import SIMULATED
from tests.tools.running import read_entries
from tests.tools.waiting import later

SETTINGS = yaml.safe_load(SIMULATED)
HOW_TO = Path(__file__).resolve().parents[2] / "docs" / "use" / "sdks.md"
QUICK = [{"role": "user", "content": "Fix the typo in this line: retrun x"}]
LONG = [
    {"role": "user", "content": "Implement an expression parser with tests and docs, step by step, until everything passes"}
]
TOOLS = [{"type": "function", "function": {"name": "shell", "description": "Run", "parameters": {"type": "object"}}}]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_a_quick_edit_goes_to_fast_and_a_long_task_to_deep():
    quick, long = api.decide(QUICK, config=SETTINGS), api.decide(LONG, config=SETTINGS)

    assert (quick.tier, quick.targets) == (api.Tier.FAST, ("simulated-fast",))
    assert (long.tier, long.targets) == (api.Tier.DEEP, ("simulated-deep",))
    assert quick.score < long.score
    assert quick.because


def test_a_decision_is_that_of_explain(tmp_path, capsys):
    (tmp_path / "work.yaml").write_text(SIMULATED)
    assert main(["explain", "--config", "work.yaml", "--dialect", "chat", "--json", LONG[0]["content"]]) == 0
    told = json.loads(capsys.readouterr().out)

    for config in ("work.yaml", tmp_path / "work.yaml", SETTINGS):
        decision = api.decide(LONG, config=config)
        assert (decision.tier, decision.because) == (told["tier"], told["because"])
        assert decision.score == pytest.approx(told["score"], abs=1e-4)


def test_tools_reach_the_decision():
    assert api.decide(QUICK, config=SETTINGS).prompt_tokens < api.decide(QUICK, TOOLS, SETTINGS).prompt_tokens


def test_without_a_config_the_one_in_this_folder_counts(tmp_path):
    (tmp_path / "config.yaml").write_text(SIMULATED.replace("simulated-fast", "swift"))

    assert api.decide(QUICK).targets == ("swift",)


def test_a_decision_leaves_no_file_behind(tmp_path):
    api.decide(QUICK, config=SETTINGS)

    assert list(tmp_path.iterdir()) == []


async def test_a_decision_can_be_asked_for_where_a_loop_is_running():
    assert api.decide(QUICK, config=SETTINGS).tier == "fast"


def test_settings_that_are_used_twice_and_mappings_of_other_kinds_are_taken():
    accepts = ["text", "tools"]
    fast, deep = ({**SETTINGS["tiers"][tier]["targets"][0], "accepts": accepts} for tier in ("fast", "deep"))
    config = {"tiers": {"fast": {"targets": [fast]}, "deep": {"targets": [deep]}}}

    decision = api.decide([types.MappingProxyType(QUICK[0])], config=types.MappingProxyType(config))

    assert decision.targets == ("simulated-fast",)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({**SETTINGS, "hots": 1}, "hots: no such setting"),
        ({**SETTINGS, "ledger": {"path": Path("x.db")}}, "PosixPath"),
        ("missing.yaml", "No such file"),
        ("", "is a folder"),
    ],
)
@pytest.mark.parametrize("call", [lambda config: api.decide(QUICK, config=config), api.build_app])
def test_a_config_that_cannot_be_used_is_an_error_that_names_each_fault(config, said, call):
    with pytest.raises(api.ConfigError, match=said):
        call(config)


@pytest.mark.parametrize("messages", [[], [{"role": "user", "content": object()}]])
def test_messages_that_the_router_would_refuse_are_an_error_of_the_request(messages):
    with pytest.raises(api.TandemError, match="messages"):
        api.decide(messages, config=SETTINGS)


async def test_the_examples_of_the_how_to_work(tmp_path):
    (tmp_path / "config.yaml").write_text(SIMULATED)
    first, app, by_hand = (
        compile(block, "how-to", "exec") for block in re.findall(r"```python\n(.*?)```", HOW_TO.read_text(), re.DOTALL)
    )
    spaces: list[dict] = [{}, {}, {}]
    for code, space in zip((first, app, by_hand), spaces, strict=True):
        exec(code, space)

    assert spaces[0]["decision"].tier == "deep"
    assert isinstance(spaces[1]["app"], api.TandemApp)
    assert await spaces[2]["ask"]("fix the typo") == "fast"


def test_every_public_name_is_on_the_page_of_the_module():
    page = HOW_TO.parents[1].joinpath("reference", "python.md").read_text()

    assert [name for name in api.__all__ if f"`{name}" not in page] == []


@contextlib.asynccontextmanager
async def serve(app: api.TandemApp) -> AsyncIterator[str]:
    """The app on loopback, behind uvicorn as it comes."""
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None, lifespan="on"))
    serving = later(server._serve())
    while not server.started:
        assert not serving.done(), "the server did not start"
        await asyncio.sleep(0.005)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        await asyncio.wait_for(serving, 30)


async def test_the_app_serves_what_the_router_serves_behind_another_server(tmp_path):
    async with serve(api.build_app(SETTINGS)) as url, httpx.AsyncClient(base_url=url, timeout=20) as client:
        quick = await client.post("/v1/chat/completions", json={"model": "auto", "messages": QUICK})
        long = await client.post("/v1/chat/completions", json={"model": "auto", "messages": LONG, "stream": True})
        messages = await client.post("/v1/messages", json={"model": "auto", "max_tokens": 100, "messages": QUICK})
        responses = await client.post("/v1/responses", json={"model": "auto", "input": QUICK[0]["content"]})
        models, health = await client.get("/v1/models"), await client.get("/healthz")
        refused = await client.post("/v1/chat/completions", json={"model": "auto"})

    assert (quick.status_code, quick.headers["x-tandem-tier"]) == (200, "fast")
    assert (long.headers["x-tandem-tier"], long.text.strip().endswith("data: [DONE]")) == ("deep", True)
    assert messages.json()["type"] == "message"
    assert responses.json()["object"] == "response"
    assert "auto" in [model["id"] for model in models.json()["data"]]
    assert health.status_code == 200
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "invalid_request")
    rows = read_entries(tmp_path / "test.db")
    assert [row["tier"] for row in rows if row["outcome"] == "SERVED"] == ["fast", "deep", "fast", "fast"]


async def test_a_websocket_is_sent_to_http_with_426():
    async with serve(api.build_app(SETTINGS)) as url:
        with pytest.raises(websockets.InvalidStatus) as refused:
            await websockets.connect(f"{url.replace('http', 'ws')}/v1/responses")

    assert refused.value.response.status_code == 426


async def test_a_websocket_is_closed_where_a_server_can_do_no_more():
    sent = []

    async def receive():
        return {"type": "websocket.connect"}

    async def send(message):
        sent.append(message)

    async with api.build_app(SETTINGS) as app:
        await app({"type": "websocket", "path": "/v1/responses"}, receive, send)

    assert [message["type"] for message in sent] == ["websocket.close"]


async def test_the_app_is_started_by_hand_where_no_server_does_it():
    app = api.build_app({**SETTINGS, "ledger": {"path": None}})
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client:
        with pytest.raises(RuntimeError, match="async with"):
            await client.get("/healthz")
        async with app:
            answer = await client.post("/v1/chat/completions", json={"model": "auto", "messages": QUICK})
        with pytest.raises(RuntimeError, match="async with"):
            await client.get("/healthz")

    assert answer.headers["x-tandem-tier"] == "fast"


async def test_a_ledger_that_cannot_be_used_fails_the_start_with_the_reason(tmp_path):
    (tmp_path / "test.db").write_text("not a database, and long enough to be read as one" * 100)
    events = asyncio.Queue()
    sent = []

    async def send(message):
        sent.append(message)

    await events.put({"type": "lifespan.startup"})
    await api.build_app(SETTINGS)({"type": "lifespan"}, events.get, send)

    assert [message["type"] for message in sent] == ["lifespan.startup.failed"]
    assert "test.db" in sent[0]["message"]
