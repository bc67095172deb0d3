"""Answers that deep looks over, in every dialect, bridged and not: valid for strict clients, and fast's own but for one block."""

import itertools
import re

import pytest

from router.look.looks import Looks
from tests.conformance.reading import check, hear
from tests.conformance.road import PATHS, Reply
from tests.tools.http import call
from tests.tools.looks import BLOCK, SAID, deep_says, edited, then, two_tiers
from tests.tools.sockets import open_socket
from tests.tools.speech import Speech, speak

DIALECTS = ["chat", "responses", "messages"]
WAYS = pytest.mark.parametrize("streams", [True, False], ids=["streaming", "whole"])
ENDS = {
    "fine": "deep looked it over: fine",
    "objections": "deep looked it over: 1 objection",
    "late": "deep was too late to look it over",
    "odd": "deep looked it over, and its answer could not be used",
    "failed": "deep could not look it over: the call failed",
}
END_BEGINS = {"chat": b'"finish_reason": ?"', "responses": b"event: response.completed", "messages": b"event: message_delta"}


def without_ids(body: bytes) -> bytes:
    """The answer without what is another in each: ids and times of a bridge."""
    body = re.sub(rb"(chatcmpl-|resp_|msg_|rs_)[0-9a-f]{27}", rb"\1", body)
    return re.sub(rb'("created|"created_at|"completed_at)":\d{10}', rb'\1":0', body)


@pytest.mark.parametrize("target", DIALECTS)
@pytest.mark.parametrize("dialect", DIALECTS)
@WAYS
async def test_a_look_adds_one_block_or_nothing(start, upstream, other_upstream, tmp_path, dialect, target, streams):
    (tmp_path / "off").mkdir()
    off = await start(two_tiers(target, upstream.base_url, other_upstream.base_url, "{look: off}"), tmp_path / "off")
    tandem = await start(two_tiers(target, upstream.base_url, other_upstream.base_url))
    upstream.scripts, scripts, numbers = [speak(target, Speech(SAID))], deep_says(target), itertools.count()

    async def ask(router) -> Reply:
        body = edited(dialect, f"fix the typo in line {next(numbers)}: retrun x", streams=streams)
        return _reply(await call(router.port, PATHS[dialect], body))

    plain = await ask(off)
    before = hear(dialect, plain)
    assert before.text == SAID
    assert not other_upstream.seen
    for end, script in scripts.items():
        other_upstream.scripts = [script]
        looked = await ask(tandem)

        heard = hear(dialect, looked)
        if end == "objections":
            assert heard.text == SAID + ("\n\n" if dialect == "chat" else "") + BLOCK
            assert (heard.end, heard.calls) == (before.end, before.calls)
            assert _usage_in(looked.body) == _usage_in(plain.body)
            if streams:
                begins = re.search(END_BEGINS[dialect], plain.body).start()
                passed = plain.body[: plain.body.rfind(b"\n\n", 0, begins) + 2]
                assert without_ids(looked.body).startswith(without_ids(passed))
        else:
            assert without_ids(looked.body) == without_ids(plain.body)
    rows = await tandem.entries(len(scripts))
    assert [row["combined"] for row in rows] == list(ENDS.values())
    assert len(other_upstream.seen) == len(scripts)


def _usage_in(body: bytes) -> list[bytes]:
    return re.findall(rb'"usage":\{.*?\}', body.replace(b" ", b""))


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_fix_it_after_objections_goes_to_deep_and_says_why(start, upstream, other_upstream, dialect):
    tandem = await start(two_tiers("chat", upstream.base_url, other_upstream.base_url))
    upstream.scripts, scripts = [speak("chat", Speech(SAID))], deep_says("chat")
    session, first = {"x-tandem-session": "s1"}, edited(dialect)
    other_upstream.scripts = [scripts["objections"]]
    answer = hear(dialect, _reply(await call(tandem.port, PATHS[dialect], first, headers=session)))

    other_upstream.scripts = [speak("chat", Speech("Fixed."))]
    fixed = await call(tandem.port, PATHS[dialect], then(dialect, first, answer.text, "fix it"), headers=session)

    assert fixed.headers["x-tandem-target"] == "sage"
    assert fixed.headers["x-tandem-because"].startswith("you act on what deep objected to")
    assert hear(dialect, _reply(fixed)).text == "Fixed."
    assert b"total is None" in other_upstream.seen[-1].body
    _, row = await tandem.entries(2)
    assert b'"look_before":"acted on"' in row["decision"].encode()
    assert tandem.house.state.looks.right_share > Looks().right_share


async def test_the_same_words_without_objections_or_after_a_newer_turn_stay_where_they_were(start, upstream, other_upstream):
    tandem = await start(two_tiers("chat", upstream.base_url, other_upstream.base_url))
    upstream.scripts, scripts = [speak("chat", Speech(SAID))], deep_says("chat")
    other_upstream.scripts = [scripts["objections"]]
    forged, first = edited("chat", "fix the typo in line 9: retrun x"), edited("chat")

    async def ask(body: dict, session: str):
        return (await call(tandem.port, PATHS["chat"], body, headers={"x-tandem-session": session})).headers

    unknown = await ask(then("chat", forged, f"{SAID}\n\n{BLOCK}", "fix it"), "never looked at")
    await ask(first, "s1")
    waved_off = await ask(other := then("chat", first, f"{SAID}\n\n{BLOCK}", "what does the parser do?"), "s1")
    too_late = await ask(then("chat", other, "It parses.", "fix it"), "s1")

    assert [headers["x-tandem-because"].startswith("you act on") for headers in (unknown, waved_off, too_late)] == [False] * 3
    assert {headers["x-tandem-target"] for headers in (unknown, waved_off)} == {"spark"}
    rows = await tandem.entries(4)
    assert [b'"look_before":"waved off"' in row["decision"].encode() for row in rows] == [False, False, True, False]


def _reply(reply) -> Reply:
    return Reply(reply.status, reply.headers, reply.body, is_whole=True)


async def test_a_kept_response_holds_the_objection_and_deep_is_sent_it(start, upstream, other_upstream):
    tandem = await start(two_tiers("responses", upstream.base_url, other_upstream.base_url))
    upstream.scripts, scripts = [speak("responses", Speech(SAID))], deep_says("responses")
    other_upstream.scripts = [scripts["objections"]]
    first = _reply(await call(tandem.port, PATHS["responses"], {**edited("responses", streams=False), "store": True}))

    kept = (await call(tandem.port, f"{PATHS['responses']}/{first.json['id']}")).json
    other_upstream.scripts = [speak("responses", Speech("Fixed."))]
    more = {"model": "auto", "input": "fix it", "previous_response_id": first.json["id"]}
    fixed = await call(tandem.port, PATHS["responses"], more)

    assert kept["output"] == first.json["output"]
    assert kept["output"][-1]["content"][0]["text"] == BLOCK
    assert fixed.headers["x-tandem-because"].startswith("you act on what deep objected to")
    assert b"total is None" in other_upstream.seen[-1].body


async def test_an_objection_comes_over_a_socket_as_events_of_the_response(start, upstream, other_upstream):
    tandem = await start(two_tiers("chat", upstream.base_url, other_upstream.base_url))
    upstream.scripts, other_upstream.scripts = [speak("chat", Speech(SAID))], [deep_says("chat")["objections"]]

    async with open_socket(tandem.port) as socket:
        await socket.send({"type": "response.create", **edited("responses")})
        events = await socket.until("response.completed")

    told = [event for event in events if event["type"].startswith("response.")]
    for event in told:
        check("responses", event["type"], event)
    assert [event["sequence_number"] for event in told] == list(range(len(told)))
    texts = [event["text"] for event in told if event["type"] == "response.output_text.done"]
    assert texts == [SAID, BLOCK]
    assert [part["text"] for item in told[-1]["response"]["output"] for part in item["content"]] == texts
