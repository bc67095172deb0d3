"""Both tiers on one task: what is on for a request, by config, rights and across a reload."""

import json

import pytest

from tests.tools.http import call, chat
from tests.tools.keyed import KEYS, Callers, swap
from tests.tools.running import two_targets
from tests.tools.upstream import CHAT_ANSWER, answer_json

PATH = "/v1/chat/completions"
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
