"""A target's speed as its streams show it: for every caller, after a pause and a restart."""

import json

import pytest

from router.edge.control.stats import draw
from router.wiring.built import Built
from tests.tools.http import call, chat
from tests.tools.running import running, two_targets
from tests.tools.upstream import CHAT_USAGE, DONE, chat_frame, stream

TIMINGS = {"cache_n": 24, "prompt_n": 14, "predicted_n": 300, "predicted_ms": 450.0, "predicted_per_second": 664.4}


def engine(*, tells_usage: bool):
    """A stream as llama.cpp ends it: with timings, in a separate chunk if usage was asked for."""
    finish = json.loads(chat_frame(finish="stop").removeprefix(b"data: "))
    usage = {"prompt_tokens": 38, "completion_tokens": 300, "prompt_tokens_details": {"cached_tokens": 24}}

    async def answer(wire, seen) -> None:
        is_asked = "stream_options" in seen.json and tells_usage
        chunks = [finish, {"choices": [], "usage": usage, "timings": TIMINGS}] if is_asked else [{**finish, "timings": TIMINGS}]
        ends = [b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks]
        await stream(chat_frame("a"), *ends, DONE)(wire, seen)

    return answer


def config_of(upstream) -> str:
    return two_targets(upstream.base_url, upstream.base_url).replace("tokens_per_second: 1000", "tokens_per_second: 60")


def figures(tandem) -> dict:
    """The fast target in `/tandem/stats`, without its cache of a few milliseconds."""
    return draw(tandem.house.state.live, dict(tandem.house.plan.targets), tandem.house.clock())["spark"]


@pytest.mark.parametrize("tells_usage", [True, False])
async def test_an_engines_speed_and_tokens_are_its_own_where_the_caller_did_not_ask(upstream, tmp_path, tells_usage):
    upstream.scripts = [engine(tells_usage=tells_usage)]
    async with running(config_of(upstream), tmp_path) as tandem:
        before = figures(tandem)
        reply = await call(tandem.port, "/v1/chat/completions", chat(stream=True, model="fast"))
        after = figures(tandem)
        (entry,) = await tandem.entries()

    assert (before["tokens_per_second"], before["figures_from"]["tokens_per_second"]) == (60.0, "config")
    assert (after["tokens_per_second"], after["figures_from"]["tokens_per_second"]) == (664.4, "learned")
    assert [entry[name] for name in ("input_tokens", "cached_tokens", "output_tokens", "tokens_estimated")] == [38, 24, 300, 0]
    assert b'"usage"' not in reply.body


async def test_what_was_learned_holds_after_a_restart_for_the_same_model(upstream, tmp_path):
    upstream.scripts = [engine(tells_usage=True)]
    config = config_of(upstream)
    async with running(config, tmp_path) as tandem:
        await call(tandem.port, "/v1/chat/completions", chat(stream=True, model="fast"))
        await tandem.entries()

    speeds = []
    for each in (config, config.replace("fast-model", "another-model")):
        async with running(each, tmp_path) as tandem:
            Built(tandem.house).learn(tandem.loaded.ledger_path)
            speeds.append(figures(tandem)["tokens_per_second"])

    assert speeds == [pytest.approx(664.4, rel=0.01), 60.0]


async def test_the_second_stream_of_an_engine_with_timings_is_not_touched(upstream, tmp_path):
    upstream.scripts = [engine(tells_usage=True)]
    async with running(config_of(upstream), tmp_path) as tandem:
        first, second = [await call(tandem.port, "/v1/chat/completions", chat(stream=True, model="fast")) for _ in range(2)]

    assert (b"timings" in first.body, b"timings" in second.body) == (True, True)
    assert (b'"usage"' in first.body, b'"choices":[]' in first.body) == (False, False)
    assert ["stream_options" in seen.json for seen in upstream.seen] == [True, False]


async def test_a_callers_stream_has_no_nulls_of_a_host_that_was_asked_by_the_router(upstream, tmp_path):
    pieces = [chat_frame(text) for text in "abc"]
    finish = chat_frame(finish="stop")
    upstream.scripts = [stream(*(piece.replace(b"]}", b'],"usage":null}') for piece in (*pieces, finish)), CHAT_USAGE, DONE)]
    async with running(config_of(upstream), tmp_path) as tandem:
        reply = await call(tandem.port, "/v1/chat/completions", chat(stream=True, model="fast"))

    assert reply.body == b"".join((*pieces, finish, DONE))
