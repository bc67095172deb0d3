"""Requests of tens of thousands of items: whoever sends them waits for them, and nobody else does (rule 7)."""

import asyncio
import json
import time

import pytest

from router.contract.exchange import Arrival
from router.contract.words import Dialect, Operation
from router.dialects.requests import read_request
from router.dispatch.outgoing import prepare
from router.sessions.in_band import heed_lines
from router.sessions.turns import read_turn
from tests.tools.http import call
from tests.tools.running import two_targets
from tests.tools.scripted import reach
from tests.tools.upstream import CHAT_ANSWER, answer_json
from tests.tools.values import make_target

ITEMS = [{"role": "user", "content": "y"}] * 40_000
LINES = [{"role": "user", "content": "tier: fast\nhello"}] * 20_000
PARTS = [{"role": "user", "content": [{"type": "text", "text": "y"}] * 80_000}]
CASES = {
    "items over a bridge": ("/v1/responses", Dialect.RESPONSES, {"model": "auto", "input": ITEMS}),
    "parts over a bridge": ("/v1/messages", Dialect.MESSAGES, {"model": "auto", "max_tokens": 9, "messages": PARTS}),
    "lines that ask for a tier": ("/v1/chat/completions", Dialect.CHAT, {"model": "auto", "messages": LINES}),
}


def work_through(raw: bytes, dialect: Dialect) -> None:
    """What is done with a request until its target is called."""
    view = heed_lines(read_request(Arrival("req_1", dialect, Operation.CREATE, {}, raw)))
    read_turn(view)
    prepare(view, reach(make_target()), 100)


@pytest.mark.parametrize("case", CASES)
async def test_a_heavy_request_does_not_hold_the_loop_for_the_time_that_it_takes(start, upstream, case):
    path, dialect, body = CASES[case]
    raw = json.dumps(body).encode()
    began = time.perf_counter()
    work_through(raw, dialect)
    whole = time.perf_counter() - began
    upstream.scripts = [answer_json(CHAT_ANSWER)]
    large = "window_tokens: 9000000,"
    config = two_targets(upstream.base_url, upstream.base_url, fast_extra=large).replace("window_tokens: 400000", large[:-1])
    tandem = await start(config)
    await call(tandem.port, "/v1/chat/completions", {"model": "auto", "messages": ITEMS[:1]})
    loop, worst = asyncio.get_running_loop(), 0.0

    asking = loop.create_task(call(tandem.port, path, raw))
    while not asking.done():
        asleep = loop.time()
        await asyncio.sleep(0.001)
        worst = max(worst, loop.time() - asleep)

    assert (await asking).status == 200
    assert worst < max(0.05, whole / 2), f"{worst * 1000:.0f} of {whole * 1000:.0f} ms"
