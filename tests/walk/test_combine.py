"""Both tiers on one task: what is on for a request, by config, rights and across a reload."""

import json

import pytest

from tests.tools.http import call, chat
from tests.tools.keyed import KEYS, Callers, swap
from tests.tools.running import two_targets
from tests.tools.sockets import open_socket
from tests.tools.speech import Speech, speak
from tests.tools.upstream import CHAT_ANSWER, answer_json

PATH, COMBINE = "/v1/chat/completions", "x-tandem-combine"
SESSION = {"x-tandem-session": "mine"}
ON = "combine: {plan: on, look: always}"


@pytest.fixture
def config(upstream, other_upstream):
    upstream.scripts = other_upstream.scripts = [answer_json(CHAT_ANSWER)]
    return lambda extra="": two_targets(upstream.base_url, other_upstream.base_url, extra=extra)


def tool_loop(*results: str) -> dict:
    messages: list[dict] = [{"role": "user", "content": "fix the typo in calc.py"}]
    for name in results:
        made = {"id": name, "type": "function", "function": {"name": "shell", "arguments": "{}"}}
        messages += [{"role": "assistant", "tool_calls": [made]}, {"role": "tool", "tool_call_id": name, "content": "ok"}]
    return {"model": "auto", "messages": messages}


async def combining(tandem, count: int) -> list[str]:
    return [json.loads(row["decision"]).get("combining", "") for row in await tandem.entries(count)]


@pytest.mark.parametrize(("extra", "words"), [("", ""), (ON, "plan,look:always"), ("combine: {look: auto}", "look:auto")])
async def test_the_config_decides_what_is_on(start, config, extra, words):
    tandem = await start(config(extra))

    reply = await call(tandem.port, PATH, chat())
    explained = await call(tandem.port, "/tandem/explain", chat())

    assert reply.status == 200
    assert await combining(tandem, 1) == [words]
    assert explained.json["combining"] == (words or None)
    assert [explained.json[name] for name in ("combined", "look", "look_before")] == [None, None, None]


async def test_a_key_without_the_right_is_not_given_what_the_config_has_on(start, config, tmp_path):
    callers = Callers(tmp_path, ann={"may_combine": False}, bob={})
    tandem = await start(KEYS + config(ON))

    for name in ("ann", "bob"):
        await call(tandem.port, PATH, chat(), callers[name])

    assert await combining(tandem, 2) == ["", "plan,look:always"]


@pytest.mark.parametrize(("before", "after"), [("", ON), (ON, "")], ids=["switched on", "switched off"])
async def test_a_turn_keeps_what_it_began_with_when_a_reload_comes_in_the_middle_of_it(start, config, before, after):
    tandem = await start(config(before))
    await call(tandem.port, PATH, tool_loop(), SESSION)

    swap(tandem, config(after))
    await call(tandem.port, PATH, tool_loop("a"), SESSION)
    await call(tandem.port, PATH, tool_loop("a", "b"), SESSION)
    await call(tandem.port, PATH, chat("fix the typo in main.py"), SESSION)

    old, new = ("plan,look:always" if terms else "" for terms in (before, after))
    assert await combining(tandem, 4) == [old, old, old, new]


@pytest.mark.parametrize(
    ("extra", "header", "words"),
    [
        ("", None, ""),
        ("", "plan", "plan"),
        ("", "Plan, look", "plan,look:auto"),
        (ON, None, "plan,look:always"),
        (ON, "look", "look:always"),
        (ON, "off", ""),
    ],
)
async def test_the_header_decides_for_a_request_and_else_the_config(start, config, upstream, extra, header, words):
    tandem = await start(config(extra))

    reply = await call(tandem.port, PATH, chat(), {COMBINE: header} if header else None)

    assert reply.status == 200
    assert await combining(tandem, 1) == [words]
    assert [name for name in upstream.seen[0].headers if name.startswith("x-tandem")] == []


@pytest.mark.parametrize("value", ["both", "plan;look", "plan,", "off,plan", ""])
async def test_an_unknown_word_is_refused_over_http_and_on_a_socket(start, config, upstream, value):
    tandem = await start(config())

    reply = await call(tandem.port, PATH, chat(), {COMBINE: value})
    async with open_socket(tandem.port) as socket:
        await socket.say(client_metadata={COMBINE: value})
        refused = await socket.answer()

    for error in (reply.json["error"], refused["error"]):
        assert error["code"] == "unknown_override"
        assert "off, plan, look" in error["message"]
    assert (reply.status, refused["status"], upstream.seen) == (400, 400, [])


async def test_a_socket_takes_it_by_its_handshake_and_by_the_metadata_of_a_request(start, config, upstream):
    tandem = await start(config())
    upstream.scripts = [speak("chat", Speech("done"))]

    async with open_socket(tandem.port, **{COMBINE: "plan"}) as socket:
        await socket.ask()
        await socket.ask(client_metadata={COMBINE: "look"})

    assert await combining(tandem, 2) == ["plan", "look:auto"]
    assert not any(COMBINE.encode() in seen.body or COMBINE in seen.headers for seen in upstream.seen)


async def test_a_key_without_the_right_is_refused_the_header_and_not_given_what_the_config_has_on(
    start, config, upstream, tmp_path
):
    callers = Callers(tmp_path, ann={"may_combine": False}, bob={})
    tandem = await start(KEYS + config(ON))

    refused = await call(tandem.port, PATH, chat(), callers["ann"] | {COMBINE: "plan"})
    called = [*upstream.seen]
    allowed = [
        await call(tandem.port, PATH, chat(), headers) for headers in (callers["ann"] | {COMBINE: "off"}, callers["ann"])
    ]
    await call(tandem.port, PATH, chat(), callers["bob"])

    assert (refused.status, refused.json["error"]["code"], called) == (403, "not_permitted", [])
    assert "may_combine" in refused.json["error"]["message"]
    assert [reply.status for reply in allowed] == [200, 200]
    rows = [row for row in await tandem.entries(4) if row["decision"]]
    assert [json.loads(row["decision"]).get("combining", "") for row in rows] == ["", "", "plan,look:always"]


async def test_explain_says_what_is_on_for_a_request(start, config):
    tandem = await start(config())

    plain, asked = [await call(tandem.port, "/tandem/explain", chat(), headers) for headers in ({}, {COMBINE: "plan"})]

    assert (plain.json["combining"], asked.json["combining"]) == (None, "plan")
    assert [plain.json[name] for name in ("combined", "look", "look_before")] == [None, None, None]
