"""Sessions sent call by call: what a client writes itself never begins a turn, and a turn keeps its tier to its end."""

import itertools

import pytest

from tests.tools.http import call
from tests.tools.recorded import COMPACT, LONG, LOUD, NOTICES, QUICK, ClaudeCode, Codex

ASKS = pytest.mark.parametrize(("ask", "tier"), [(QUICK, "fast"), (LONG, "deep")], ids=["quick", "long"])
_numbers = itertools.count()


class Sent:
    """What became of one call."""

    def __init__(self, reply, explained: dict) -> None:
        assert reply.status == 200, reply.body
        self.tier, self.because = reply.headers["x-tandem-tier"], reply.headers["x-tandem-because"]
        self.kind, self.words = explained["turn_kind"], explained["person_text"]
        assert explained["tier"] == self.tier


async def send(tandem, client, *more: str) -> Sent:
    body = client.body(*more)
    explained = await call(tandem.port, "/tandem/explain", body, client.headers)
    return Sent(await call(tandem.port, client.path, body, client.headers), explained.json)


def claude_code() -> ClaudeCode:
    return ClaudeCode(f"session-{next(_numbers)}")


@ASKS
@pytest.mark.parametrize("after_answer", [True, False], ids=["after an answer", "after a result"])
async def test_a_message_that_nobody_typed_goes_on_with_the_turn(simulated, ask, tier, after_answer):
    seen = {}
    for name, notice in NOTICES.items():
        client = claude_code()
        client.type("<system-reminder>\nToday is Sunday.\n</system-reminder>", ask)
        first = await send(simulated, client)
        client.work()
        await send(simulated, client)
        if after_answer:
            client.finish()
        client.add(notice)
        noticed = await send(simulated, client)
        client.work()
        seen[name] = [(sent.tier, sent.kind, sent.words) for sent in (first, noticed, await send(simulated, client))]

    assert seen == {name: [(tier, "ask", ask), (tier, "tool_loop", ask), (tier, "tool_loop", ask)] for name in NOTICES}


@ASKS
@pytest.mark.parametrize("keeps_last_call", [True, False])
async def test_a_compaction_inside_a_turn_keeps_the_turn(simulated, ask, tier, keeps_last_call):
    client = claude_code()
    client.type(ask)
    await send(simulated, client)
    client.work()
    await send(simulated, client)
    compaction = await send(simulated, client, COMPACT)

    client.compact(keeps_last_call=keeps_last_call)
    after = await send(simulated, client)
    client.work()
    later = await send(simulated, client)

    assert compaction.kind == "compaction"
    assert [(sent.tier, sent.kind) for sent in (compaction, after, later)][1:] == [(tier, "tool_loop")] * 2
    assert after.words is None
    if not keeps_last_call:
        assert after.because == f"continues, after compaction, a turn on {tier}"


async def test_the_next_ask_after_a_compaction_is_read_by_its_own_words(simulated):
    client = claude_code()
    client.type(LONG)
    await send(simulated, client)
    client.work()
    await send(simulated, client, COMPACT)
    client.compact(keeps_last_call=False)
    await send(simulated, client)
    client.finish()

    client.type("<system-reminder>x</system-reminder>", QUICK)
    sent = await send(simulated, client)

    assert (sent.kind, sent.words) == ("ask", QUICK)


@ASKS
async def test_a_turn_goes_on_over_several_compactions_and_notices(simulated, ask, tier):
    client = claude_code()
    client.type(ask)
    seen = [await send(simulated, client)]
    for number, notice in enumerate(NOTICES.values()):
        client.work()
        client.add(notice)
        seen.append(await send(simulated, client))
        if number % 4 == 3:
            client.work()
            client.compact(keeps_last_call=number % 8 == 3)
            seen.append(await send(simulated, client))

    assert {sent.tier for sent in seen} == {tier}
    assert {sent.kind for sent in seen[1:]} == {"tool_loop"}


@ASKS
async def test_a_codex_turn_goes_on_after_a_compaction_and_is_no_new_ask(simulated, ask, tier):
    client = Codex(f"thread-{next(_numbers)}")
    client.add("<environment_context>\n  <cwd>/demo</cwd>\n</environment_context>")
    client.type(ask)
    first = await send(simulated, client)
    client.work()
    await send(simulated, client)
    client.add("<subagent_notification>\n{}\n</subagent_notification>")
    noticed = await send(simulated, client)
    client.compact()
    after = await send(simulated, client)
    client.finish()
    client.type("Rename divide to div")
    next_ask = await send(simulated, client)

    assert (first.kind, first.words) == ("ask", ask)
    assert [(sent.tier, sent.kind, sent.words) for sent in (noticed, after)] == [(tier, "tool_loop", ask)] * 2
    assert after.because == f"continues, after compaction, a turn on {tier}"
    assert (next_ask.kind, next_ask.words) == ("ask", "Rename divide to div")


async def test_a_command_is_read_by_what_was_typed_and_its_turn_keeps_its_tier(simulated):
    client = claude_code()
    typed = "<command-message>tidy</command-message>\n<command-name>/tidy</command-name>\n<command-args>{}</command-args>"
    client.type(typed.format(QUICK), f"Base directory for this skill: /skills/tidy\n\n{LONG}")
    asked = await send(simulated, client)
    client.work()
    loop = await send(simulated, client)

    assert [(sent.tier, sent.words) for sent in (asked, loop)] == [("fast", f"/tidy {QUICK}")] * 2
    assert (asked.kind, loop.kind) == ("ask", "tool_loop")


@ASKS
async def test_what_a_client_asks_for_its_own_use_in_the_middle_of_a_turn_leaves_the_turn_where_it_is(simulated, ask, tier):
    client, page = claude_code(), claude_code()
    page.session = client.session
    page.type(f"Web page content:\n---\n{LOUD}\n---\n\n{QUICK if tier == 'deep' else LONG}")
    client.type(ask)
    await send(simulated, client)
    client.work()

    aside = await send(simulated, page)
    suggestion = await send(simulated, client, f"[SUGGESTION MODE: Suggest what the user might type next.]\n{LOUD}")
    after = await send(simulated, client)

    assert (aside.kind, aside.words) == (suggestion.kind, suggestion.words) == ("side", None)
    assert (after.tier, after.kind, after.words) == (tier, "tool_loop", ask)


async def test_an_ask_that_was_compacted_before_it_was_sent_does_not_go_on_with_the_turn_before(simulated):
    client = claude_code()
    client.type(QUICK)
    before = await send(simulated, client)
    client.finish()
    client.type(LONG)
    compaction = await send(simulated, client, COMPACT)
    client.compact(keeps_last_call=False)
    after = await send(simulated, client)
    client.work()
    later = await send(simulated, client)

    assert (before.tier, compaction.kind) == ("fast", "compaction")
    assert (after.tier, later.tier) == ("deep", "deep")
