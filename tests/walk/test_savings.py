"""The savings of served turns: command and route agree."""

import asyncio
import json

import pytest

from router.cli import main
from tests.tools.http import LONG, call, chat
from tests.tools.running import two_targets
from tests.tools.upstream import CHAT_ANSWER, answer_json

ASKS = (
    ("a", "fix the typo in README.md", {}),
    ("a", "that is wrong, it still fails", {}),
    ("b", "rename total to sum in this file", {}),
    ("b", "rename it back", {"x-tandem-tier": "deep"}),
    ("c", LONG, {}),
    ("c", "what is the port?", {}),
)


@pytest.fixture
async def tandem(start, upstream, other_upstream, tmp_path, monkeypatch):
    upstream.scripts = other_upstream.scripts = [answer_json(CHAT_ANSWER)]
    prices = ("price: {input: 1, output: 2, cached_input: 0.1},", "price: {input: 10, output: 50, cached_input: 1},")
    config = two_targets(upstream.base_url, other_upstream.base_url, fast_extra=prices[0], deep_extra=prices[1])
    (tmp_path / "config.yaml").write_text(config)
    monkeypatch.chdir(tmp_path)
    return await start(config)


async def test_the_command_says_the_same_of_an_afternoon_as_the_route(tandem, tmp_path, capsys):
    for session, words, headers in ASKS:
        reply = await call(tandem.port, "/v1/chat/completions", chat(words), {"x-tandem-session": session, **headers})
        assert reply.status == 200
    await tandem.entries(len(ASKS))

    shown = (await call(tandem.port, "/tandem/savings?since=1h")).json
    assert await asyncio.to_thread(main, ["stats", "--since", "1h", "--json", "--config", str(tmp_path / "config.yaml")]) == 0
    printed = json.loads(capsys.readouterr().out)["savings"]

    assert shown["turns"] == len(ASKS)
    assert shown["redone"]["asked_for_deep"] >= 1, "deep was asked for after a turn on fast"
    assert {**printed, "since": 0, "from": 0} == {**{name: shown[name] for name in printed}, "since": 0, "from": 0}
    assert (await call(tandem.port, "/tandem/regret?since=1h")).json == shown
