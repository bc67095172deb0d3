"""What would be decided, and what was."""

import pytest

from router.contract.caller import LOCAL, Caller
from router.contract.words import Dialect
from tests.tools.http import call, chat


@pytest.mark.parametrize(
    ("query", "body", "headers", "dialect"),
    [
        ("", chat(), {}, Dialect.CHAT),
        ("", {"model": "auto", "input": "x"}, {}, Dialect.RESPONSES),
        ("", chat(), {"anthropic-version": "2023-06-01"}, Dialect.MESSAGES),
        ("?dialect=messages", chat(), {}, Dialect.MESSAGES),
    ],
)
async def test_explain_gives_the_road_the_request_as_a_create_call_would(road, port, query, body, headers, dialect):
    reply = await call(port, f"/tandem/explain{query}", body, headers)

    (arrival,) = road.explained
    assert (reply.status, reply.json["tier"]) == (200, "fast")
    assert (arrival.dialect, arrival.caller) == (dialect, LOCAL)
    assert reply.headers["x-tandem-request-id"] == arrival.id


@pytest.mark.parametrize(("query", "body"), [("?dialect=latin", chat()), ("", b"{"), ("", b"[]")])
async def test_explain_refuses_what_it_cannot_read(road, port, query, body):
    assert (await call(port, f"/tandem/explain{query}", body)).status == 400
    assert road.explained == []


async def test_explain_refuses_a_body_of_too_many_values_before_it_is_parsed(road, port):
    road.use(max_body_bytes=8 << 20)
    crowded = b'{"model":"auto","messages":[%s]}' % b",".join([b"[]"] * 1_000_000)

    assert b"too many values" in (await call(port, "/tandem/explain", crowded)).body
    assert road.explained == []


async def test_explain_takes_no_more_than_the_plan_that_counts_now_allows(road, port):
    road.use(max_body_bytes=2_048)
    chunks = b"".join(b"400\r\n" + b" " * 1024 + b"\r\n" for _ in range(4)) + b"0\r\n\r\n"

    assert (await call(port, "/tandem/explain", chunks, {"transfer-encoding": "chunked"})).status == 413


async def test_a_decision_is_shown_to_its_own_caller_alone(road, port):
    road.state.entries.kept = {("req_mine", LOCAL): {"tier": "deep"}, ("req_theirs", Caller("other")): {"tier": "fast"}}

    mine = await call(port, "/tandem/decisions/req_mine")
    theirs = await call(port, "/tandem/decisions/req_theirs")

    assert (mine.status, mine.json) == (200, {"tier": "deep"})
    assert theirs.status == 404
