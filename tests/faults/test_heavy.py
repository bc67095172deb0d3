"""Requests of tens of thousands of items delay only their sender (rule 7)."""

import asyncio
import gc
import json
import time

import orjson
import pytest

from router.cli.serving import _COLLECT_AFTER
from router.contract.exchange import Arrival
from router.contract.words import Dialect, Operation
from router.dialects.requests import read_request
from router.dispatch.outgoing import prepare
from router.sessions.turns import read_turn
from tests.tools.http import call
from tests.tools.running import two_targets
from tests.tools.scripted import reach
from tests.tools.upstream import CHAT_ANSWER, answer_json
from tests.tools.values import make_target
from tests.tools.work import cpu_seconds

ITEMS = [{"role": "user", "content": "y"}] * 40_000
LINES = [{"role": "user", "content": "tier: fast\nhello"}] * 20_000
PARTS = [{"role": "user", "content": [{"type": "text", "text": "y"}] * 80_000}]
CASES = {
    "items over a bridge": ("/v1/responses", Dialect.RESPONSES, {"model": "auto", "input": ITEMS}),
    "parts over a bridge": ("/v1/messages", Dialect.MESSAGES, {"model": "auto", "max_tokens": 9, "messages": PARTS}),
    "lines that ask for a tier": ("/v1/chat/completions", Dialect.CHAT, {"model": "auto", "messages": LINES}),
}


def work_through(raw: bytes, dialect: Dialect) -> None:
    """All work on a request before its target is called."""
    view = read_request(Arrival("req_1", dialect, Operation.CREATE, {}, raw))
    read_turn(view)
    prepare(view, reach(make_target()), 100)


@pytest.mark.parametrize("case", CASES)
async def test_a_heavy_request_does_not_hold_the_loop_for_the_time_that_it_takes(start, upstream, case):
    path, dialect, body = CASES[case]
    raw = json.dumps(body).encode()
    whole = cpu_seconds(lambda: work_through(raw, dialect), repeats=1)
    upstream.scripts = [answer_json(CHAT_ANSWER)]
    large = "window_tokens: 9000000,"
    config = two_targets(upstream.base_url, upstream.base_url, fast_extra=large).replace("window_tokens: 400000", large[:-1])
    tandem = await start(config)
    await call(tandem.port, "/v1/chat/completions", {"model": "auto", "messages": ITEMS[:1]})
    worst = await held_up_while(tandem.port, path, raw)

    assert worst < whole / 2, f"{worst * 1000:.0f} of {whole * 1000:.0f} ms"


async def held_up_while(port: int, path: str, raw: bytes) -> float:
    """The longest CPU time of the loop's thread in one step while a request is served.

    Not wall time, which a busy machine stretches.
    """
    loop, worst = asyncio.get_running_loop(), 0.0
    asking = loop.create_task(call(port, path, raw))
    while not asking.done():
        before = time.thread_time()
        await asyncio.sleep(0.001)
        worst = max(worst, time.thread_time() - before)
    assert (await asking).status == 200
    return worst


@pytest.fixture
def _collects_as_serve():
    """The collector as `tandem serve` sets it: it skips what lives as long as the process."""
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(_COLLECT_AFTER, 20, 50)
    yield
    gc.set_threshold(*before)
    gc.unfreeze()


@pytest.mark.usefixtures("_collects_as_serve")
@pytest.mark.parametrize(
    ("path", "more"),
    [
        ("/v1/chat/completions", {"messages": []}),
        ("/v1/responses", {"input": []}),
        ("/v1/messages", {"messages": [], "max_tokens": 9}),
    ],
)
async def test_sixty_thousand_messages_hold_others_up_for_no_more_than_three_times_their_parse(start, upstream, path, more):
    """The best of three, to exclude the machine's other work."""
    upstream.scripts = [answer_json(CHAT_ANSWER)]
    large = "window_tokens: 9000000"
    config = two_targets(upstream.base_url, upstream.base_url, fast_extra=f"{large},").replace("window_tokens: 400000", large)
    tandem = await start(config)
    times = []
    for turn in range(3):
        items = [{"role": "user", "content": f"{turn} {number}"} for number in range(60_000)]  # never read before
        raw = json.dumps({"model": "auto", **{name: items if value == [] else value for name, value in more.items()}}).encode()
        parse = cpu_seconds(lambda raw=raw: orjson.loads(raw), repeats=1)
        times.append(await held_up_while(tandem.port, path, raw) / parse)

    assert min(times) < 3, times
