"""An engine that loads its model: others serve until it is ready."""

import asyncio

import pytest

from tests.tools.http import call
from tests.tools.running import two_targets
from tests.tools.upstream import CHAT_ANSWER, answer_json
from tests.tools.waiting import until

LOADING = {"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}}
TYPO = {"messages": [{"role": "user", "content": "fix the typo in README.md"}]}


class Engine:
    """A llama.cpp server, with 503 for everything while it loads."""

    def __init__(self) -> None:
        self.is_loading = True
        self.was_asked = asyncio.Event()

    async def __call__(self, wire, seen) -> None:
        if seen.path == "/v1/health":
            self.was_asked.set()
        await answer_json(*((LOADING, 503) if self.is_loading else (CHAT_ANSWER, 200)))(wire, seen)


@pytest.fixture
async def engine(upstream):
    engine = Engine()
    upstream.scripts = [engine]
    return engine


@pytest.fixture
async def tandem(start, engine, upstream, other_upstream):
    other_upstream.scripts = [answer_json(CHAT_ANSWER)]
    return await start(two_targets(upstream.base_url, other_upstream.base_url))


async def until_ready(tandem) -> None:
    house = tandem.house
    await until(lambda: not house.state.live.statuses(house.plan.targets, house.clock())["spark"].loading)


async def test_auto_goes_elsewhere_while_an_engine_loads_and_back_as_soon_as_it_is_ready(tandem, engine, upstream):
    first = await call(tandem.port, "/v1/chat/completions", {"model": "auto", **TYPO})
    second = await call(tandem.port, "/v1/chat/completions", {"model": "auto", **TYPO}, {"x-tandem-session": "two"})
    stats = (await call(tandem.port, "/tandem/stats", method="GET")).json["targets"]["spark"]
    creates = [seen.path for seen in upstream.seen if seen.path != "/v1/health"]
    await asyncio.wait_for(engine.was_asked.wait(), 30)
    engine.is_loading = False
    await until_ready(tandem)
    back = await call(tandem.port, "/v1/chat/completions", {"model": "auto", **TYPO}, {"x-tandem-session": "three"})

    assert (first.status, first.headers["x-tandem-target"]) == (200, "sage")
    assert first.headers["x-tandem-because"].startswith('spark is loading its model ("Loading model"), so sage answers: ')
    assert (second.status, second.headers["x-tandem-target"]) == (200, "sage")
    assert 'spark is loading its model ("Loading model")' in second.headers["x-tandem-because"]
    assert creates == ["/v1/chat/completions"]
    assert (stats["loading"], stats["left_alone_seconds"]) == ("Loading model", 0.0)
    assert (back.status, back.headers["x-tandem-target"]) == (200, "spark")


@pytest.mark.parametrize("model", ["fast", "spark"])
async def test_who_asks_for_a_loading_engine_by_name_gets_a_503_in_its_own_words(tandem, model):
    replies = [await call(tandem.port, "/v1/chat/completions", {"model": model, **TYPO}) for _ in range(2)]

    for reply in replies:
        assert (reply.status, reply.json["error"]["code"]) == (503, "upstream_loading")
        assert 'spark is loading its model ("Loading model")' in reply.json["error"]["message"]
        assert "overloaded" not in reply.json["error"]["message"]
        assert reply.headers["retry-after"] == "2"


async def test_a_load_that_is_no_failure_leaves_no_rest_behind(tandem, engine):
    for _ in range(8):
        await call(tandem.port, "/v1/chat/completions", {"model": "fast", **TYPO})
    await asyncio.wait_for(engine.was_asked.wait(), 30)
    engine.is_loading = False
    await until_ready(tandem)

    reply = await call(tandem.port, "/v1/chat/completions", {"model": "fast", **TYPO})

    assert (reply.status, reply.headers["x-tandem-target"]) == (200, "spark")


async def test_an_engine_that_goes_away_while_it_loads_is_not_asked_for_ever(tandem, engine, upstream):
    await call(tandem.port, "/v1/chat/completions", {"model": "fast", **TYPO})
    await upstream.stop()

    await until_ready(tandem)
    reply = await call(tandem.port, "/v1/chat/completions", {"model": "fast", **TYPO})

    assert (reply.status, reply.json["error"]["code"]) == (502, "upstream_unreachable")
