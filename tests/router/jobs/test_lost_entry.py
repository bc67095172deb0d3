"""What the ledger says of an attempt whose owner is gone."""

import json

import pytest

from router.contract.job import Job
from router.contract.target import Price
from router.contract.words import Dialect
from router.dialects.responses.background import request_id_of
from router.dialects.responses.logged import LogFrames, count_frames
from router.jobs.runner import write_lost_entry
from tests.tools.background import SPEECH, events_in
from tests.tools.houses import make_house
from tests.tools.jobs import make_job
from tests.tools.scripted import reach
from tests.tools.speech import write_stream
from tests.tools.values import make_target

PRICE = Price(input=1.0, output=2.0)
FRAMES = write_stream("responses", SPEECH)


def attempt_of(log: bytes, **more) -> tuple[Job, LogFrames, int]:
    job = make_job("resp_1", body=b'{"model":"auto","input":"hi","stream":true}', attempt=2, **more)
    (frames := LogFrames("resp_1")).take(log)
    return job, frames, count_frames(log)


@pytest.fixture
async def house():
    return make_house(reach(make_target(speaks=frozenset({Dialect.RESPONSES}), price=PRICE)))


async def test_an_attempt_that_was_interrupted_has_an_estimate_of_its_tokens_and_their_cost(house):
    log = b"".join(FRAMES[:-1])
    entry = await write_lost_entry(house, *attempt_of(log))

    line = entry.line
    assert (line.id, line.job, line.outcome, line.key) == (request_id_of("resp_1", 2), "resp_1", "INTERRUPTED", "k_1")
    assert (line.output_tokens, line.tokens_estimated) == (log.count(b"\n\n"), True)
    assert line.input_tokens > 0
    assert line.cost_usd == pytest.approx((line.input_tokens + 2 * line.output_tokens) / 1e6)
    assert json.loads(entry.attempts)[0]["target"] == line.target
    assert entry.places is None


async def test_an_attempt_that_said_nothing_costs_its_prompt(house):
    entry = await write_lost_entry(house, *attempt_of(b""))

    assert (entry.line.output_tokens, entry.line.cost_usd) == (0, pytest.approx(entry.line.input_tokens / 1e6))


async def test_an_attempt_whose_log_has_its_end_was_served_and_has_the_tokens_that_its_target_told(house):
    entry = await write_lost_entry(house, *attempt_of(b"".join(FRAMES)))

    assert (entry.line.outcome, entry.line.status, entry.line.tokens_estimated) == ("SERVED", 200, False)
    assert entry.line.output_tokens == events_in(b"".join(FRAMES))[-1]["response"]["usage"]["output_tokens"]


async def test_of_a_request_that_cannot_be_decided_any_more_the_cost_is_not_known(house):
    _, *log = attempt_of(b"")

    entry = await write_lost_entry(house, make_job("resp_1", body=b"[", attempt=1), *log)

    assert (entry.line.id, entry.line.outcome, entry.line.target) == ("req_1", "INTERRUPTED", None)
    assert entry.line.cost_usd is None
