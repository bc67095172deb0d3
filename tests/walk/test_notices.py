"""A key that its host refuses: reported by the route and the webhook while it lasts."""

import json

import pytest

from tests.tools.http import call, chat
from tests.tools.running import running, two_targets
from tests.tools.upstream import CHAT_ANSWER, Upstream, answer_json
from tests.tools.waiting import later, until

REFUSED = answer_json({"error": {"message": "Incorrect API key provided", "code": "invalid_api_key"}}, 401)
TEXT = "spark: its host refuses the API key; no fast target is left"


@pytest.fixture
async def receiver(monkeypatch):
    server = Upstream()
    await server.start()
    server.scripts = [answer_json({"ok": True})]
    monkeypatch.setenv("HOOK", f"{server.base_url}/hook-canary")
    yield server
    await server.stop()


async def ask(tandem, **more) -> str:
    return (await call(tandem.port, "/v1/chat/completions", chat(**more))).headers["x-tandem-target"]


async def notices(tandem) -> list[str]:
    return [notice["text"] for notice in (await call(tandem.port, "/tandem/notices")).json["notices"]]


async def test_a_refused_key_of_fast_is_told_everywhere_until_the_key_works_again(
    tmp_path, upstream, other_upstream, receiver, capfd
):
    upstream.scripts, other_upstream.scripts = [REFUSED], [answer_json(CHAT_ANSWER)]
    config = two_targets(upstream.base_url, other_upstream.base_url, extra="alerts: {webhook: 'env:HOOK'}")
    async with running(config, tmp_path) as tandem:
        watching = later(tandem.built.watch_troubles())

        assert await ask(tandem) == "sage"

        assert await notices(tandem) == [TEXT]
        await until(lambda: receiver.seen)
        began = receiver.seen[0].json
        assert (began["state"], began["kind"], began["subject"]) == ("began", "key_refused", "spark")
        assert TEXT in began["text"]
        assert "tandem check --live" in began["text"]

        upstream.scripts = [answer_json(CHAT_ANSWER)]
        await until_served(tandem)

        assert await notices(tandem) == []
        watching.cancel()
    assert "canary" not in capfd.readouterr().err


async def until_served(tandem) -> None:
    """Ask spark until it has rested and serves."""
    replies = []
    while not replies or replies[-1] != 200:
        replies.append((await call(tandem.port, "/v1/chat/completions", chat(model="spark"))).status)


async def test_a_reload_names_an_address_and_takes_it_away(start, upstream, other_upstream, receiver, tmp_path):
    upstream.scripts, other_upstream.scripts = [REFUSED], [answer_json(CHAT_ANSWER)]
    plain = two_targets(upstream.base_url, other_upstream.base_url)
    tandem = await start(plain)
    watching = later(tandem.built.watch_troubles())
    await ask(tandem)

    (tmp_path / "config.yaml").write_text(f"{plain}\nalerts: {{webhook: 'env:HOOK'}}\n")
    done = await tandem.built.reloader.reload()
    await until(lambda: receiver.seen)
    (tmp_path / "config.yaml").write_text(plain)
    await tandem.built.reloader.reload()
    tandem.built.alerts.look()

    assert done.changes.applied == ("alerts",)
    assert [json.loads(seen.body)["state"] for seen in receiver.seen] == ["began"]
    watching.cancel()


async def test_a_receiver_that_hangs_holds_up_no_request(start, upstream, other_upstream, receiver):
    async def hang(wire, seen) -> None:
        await seen.left.wait()

    receiver.scripts, upstream.scripts, other_upstream.scripts = [hang], [REFUSED], [answer_json(CHAT_ANSWER)]
    tandem = await start(two_targets(upstream.base_url, other_upstream.base_url, extra="alerts: {webhook: 'env:HOOK'}"))
    await ask(tandem)
    tandem.built.alerts.look()
    await until(lambda: receiver.seen)

    assert await ask(tandem) == "sage"
