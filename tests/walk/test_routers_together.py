"""Two routers on one server share what they learn of targets, keys and calls."""

import asyncio
import json
import time

import pytest

pytest.importorskip("hiredis")

from router.contract.keys import make_key
from tests.conftest import SIMULATED
from tests.router.wiring.test_key_watch import key_file
from tests.tools.background import SPEECH, ask, speak_in_steps
from tests.tools.http import call, request_bytes
from tests.tools.running import one_dialect, two_targets
from tests.tools.upstream import CHAT_ANSWER, answer_json
from tests.tools.waiting import later, until

ASKED = {"model": "fast", "messages": [{"role": "user", "content": "fix the typo"}]}


@pytest.fixture
def start_two(own_valkey, start, tmp_path, monkeypatch):
    monkeypatch.setenv("TANDEM_VALKEY_URL", own_valkey.url())

    async def begin(config, files=()):
        routers = []
        for name in "ab":
            (folder := tmp_path / name).mkdir()
            for file, text in files:
                (folder / file).write_text(text)
                (folder / file).chmod(0o600)
            shared = f"shared: {{replica: {name}, valkey: {{url: env:TANDEM_VALKEY_URL, timeout_ms: 5000}}}}\n"
            routers.append(router := await start(config + shared, folder))
            if not router.house.state.shared.link.is_up:
                await router.wiring.built.connect()
        return routers

    return begin


async def test_a_target_that_told_one_router_to_wait_is_left_alone_by_the_other(start_two, upstream, other_upstream):
    refusal = {"error": {"message": "slow down"}}
    upstream.scripts = [answer_json(refusal, 429, {"retry-after": "30"})]
    other_upstream.scripts = [answer_json(CHAT_ANSWER)]
    one, other = await start_two(two_targets(upstream.base_url, other_upstream.base_url))
    ask = {**ASKED, "model": "auto"}

    assert (await call(one.port, "/v1/chat/completions", ask)).status == 200  # it spilled over
    plan, live = other.house.plan, other.house.state.live
    await until(lambda: live.statuses(plan.targets, other.house.clock())["spark"].closed_seconds > 0)
    upstream.seen.clear()
    reply = await call(other.port, "/v1/chat/completions", ask)

    assert reply.status == 200
    assert reply.headers["x-tandem-target"] == "sage"
    assert upstream.seen == []


async def test_a_key_that_is_revoked_at_one_router_is_refused_by_the_other(start_two, tmp_path):
    key = make_key()
    one, other = await start_two(f"keys: {{file: keys.yaml}}\n{SIMULATED}", [("keys.yaml", key_file(ada=(key.id, key.digest)))])
    headers = {"authorization": f"Bearer {key.text}"}
    watching = later(other.built.watch_keys())
    assert (await call(other.port, "/v1/chat/completions", ASKED, headers)).status == 200

    (tmp_path / "a" / "keys.yaml").write_text("callers: {}\n")
    await one.built.key_watch.look()
    await until(lambda: key.id not in [known.id for known in other.house.plan.keys])

    assert (await call(other.port, "/v1/chat/completions", ASKED, headers)).status == 401
    assert key.id in (tmp_path / "b" / "keys.yaml").read_text()
    watching.cancel()


async def test_jobs_of_a_key_that_is_revoked_at_one_router_are_cancelled_by_the_other(start_two, tmp_path, upstream):
    key, steps = make_key(), asyncio.Semaphore(2)
    upstream.scripts = [speak_in_steps("chat", SPEECH, steps)]
    config = one_dialect("chat", upstream.base_url, extra="keys: {file: keys.yaml}\njobs: {most_for_a_caller: 1}\n")
    one, other = await start_two(config, [("keys.yaml", key_file(ada=(key.id, key.digest)))])
    watching = later(other.built.watch_keys())
    headers = {"authorization": f"Bearer {key.text}"}
    jobs = [(await call(other.port, "/v1/responses", ask(), headers)).json["id"] for _ in range(3)]
    await until(lambda: len(upstream.seen) == 1)

    (tmp_path / "a" / "keys.yaml").write_text("callers: {}\n")
    await one.built.key_watch.look()
    store = other.built.jobs.store
    for job in jobs:
        watch = store.watch(job)
        while (await store.find(job, None)).state != "cancelled":
            await watch.wait(30)
        watch.close()
        assert b"the key was revoked" in (await store.read_response(job, None))[0]

    assert len(upstream.seen) == 1
    watching.cancel()


class FeedReader:
    def __init__(self, port):
        self.port, self.rows, self.hello, self.shared = port, [], None, None

    async def read(self):
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(request_bytes("/tandem/feed", method="GET"))
        try:
            while line := await reader.readline():
                if line.startswith(b"data: "):
                    self._take(json.loads(line[6:]))
        finally:
            writer.close()

    def _take(self, told):
        self.hello = self.hello or told
        self.shared = told.get("shared", self.shared)
        self.rows += told.get("rows", [])


async def test_the_feed_of_one_router_has_the_calls_of_both_and_goes_on_alone_when_the_server_is_away(start_two, own_valkey):
    one, other = await start_two(SIMULATED)
    await until(lambda: one.house.state.shared.replicas == 2)
    feed = FeedReader(one.port)
    reading = later(feed.read())
    await until(lambda: feed.hello)
    began = time.time()

    ids = []
    for router in (one, other, other, one):
        ids.append((await call(router.port, "/v1/chat/completions", ASKED)).headers["x-tandem-request-id"])
    await until(lambda: len(feed.rows) >= 4)
    by_time = sorted(feed.rows, key=lambda row: row["at"])
    assert [row["id"] for row in by_time] == ids
    assert [row["replica"] for row in by_time] == [None, "b", "b", None]
    assert all(began <= row["at"] <= time.time() for row in feed.rows)

    own_valkey.kill()
    await until(lambda: feed.shared == {"replica": "a", "routers": 2, "is_up": False})
    assert (await call(one.port, "/readyz", method="GET")).status == 200
    alone = (await call(one.port, "/v1/chat/completions", ASKED)).headers["x-tandem-request-id"]
    await until(lambda: feed.rows[-1]["id"] == alone)
    assert [notice.kind for notice in one.built.notices()] == ["store_away"]

    own_valkey.start()
    await until(lambda: feed.shared["is_up"])
    reading.cancel()
