"""Which wish counts: the newest. By cases, and random conversations against the rules as plain as they can be written."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct, structs

from policies.override import OverridePolicy
from router.contract.errors import UnknownOverride
from router.contract.opinions import Insist
from router.contract.signals import Alias
from router.contract.words import Dialect, Tier
from router.sense.models import ModelNames
from router.sessions.memory import SessionMemory
from router.sessions.turns import read_turn
from router.sessions.wishes import exact_name, kept_name
from router.stores.memory.entries import NoSessions
from tests.tools.sessions import TARGETS, answer, chat, finish, look, step
from tests.tools.values import make_signals, make_view

NAMES = ModelNames({"claude-*": "deep"}, ("spark", "sage"))
OVERRIDE = OverridePolicy(OverridePolicy.Config())


@pytest.mark.parametrize("tier", ["fast", "auto"])
@pytest.mark.parametrize("said", [("hello",), ("hello", "hi", "do it"), ("Generate a title for this conversation: hello",)])
async def test_a_tier_for_a_session_without_a_name_is_refused_with_the_ways_to_name_one(tier, said):
    headers = {"x-tandem-tier": tier, "x-tandem-scope": "session"}
    view = make_view(chat(*said).body, headers=headers)

    with pytest.raises(UnknownOverride) as refused:
        await look(SessionMemory(NoSessions()), view)

    assert refused.value.param == "x-tandem-scope"
    named = [
        ({"x-tandem-session": "s"}, {}),
        ({"x-claude-code-session-id": "s"}, {}),
        ({}, {"prompt_cache_key": "s"}),
        ({}, {"metadata": {"session_id": "s"}}),
    ]
    for more, fields in named:
        memory, again = SessionMemory(NoSessions()), make_view({**view.body, **fields}, headers=more)
        await step(memory, make_view({**view.body, **fields}, headers={**headers, **more}), Tier.DEEP)
        assert (await look(memory, again)).wish.tier is (Tier.FAST if tier == "fast" else None)
    assert all(
        name in refused.value.message for name in ("x-tandem-session", "prompt_cache_key", "metadata.session_id", "tier: ")
    )


def test_a_name_is_a_wish_unless_it_only_matches_a_pattern():
    assert [exact_name(NAMES.resolve(name)) for name in ("auto", "deep", "sage", "claude-x")] == ["auto", "deep", "sage", None]
    assert [kept_name(name) for name in ("auto", "deep", None)] == ["", "deep", ""]
    assert exact_name(Alias("mine")) == "auto"


async def test_a_name_that_changes_inside_a_turn_counts_for_its_request_alone():
    memory, sent = SessionMemory(NoSessions()), {"x-tandem-session": "s"}
    begun = [{"role": "user", "content": "fix it"}]
    view = make_view({"messages": begun}, headers={**sent, "x-tandem-tier": "fast", "x-tandem-scope": "session"})
    await step(memory, view)
    call = {"id": "1", "type": "function", "function": {"name": "ls", "arguments": "{}"}}
    loop = [*begun, {"role": "assistant", "tool_calls": [call]}, {"role": "tool", "tool_call_id": "1", "content": "ok"}]

    async def find(name: str, messages: list[dict]) -> Tier | None:
        asked = make_view({"model": name, "messages": messages}, headers=sent)
        turn = read_turn(asked)
        found = await memory.recall(asked, turn, NAMES.resolve(name))
        finish(answer(memory, found, asked, turn, Tier.FAST, TARGETS["spark"]), TARGETS["spark"], 9)
        return found.wish.tier if found.wish is not None else None

    following = [*loop, {"role": "assistant", "content": "done"}, {"role": "user", "content": "and the docs"}]
    found = [await find("deep", loop), await find("auto", loop), await find("deep", following), await find("auto", following)]
    assert found == [None, Tier.FAST, None, None]


class Said(Struct, frozen=True):
    """One message of the person's, as it is sent."""

    line: str | None
    is_alone: bool
    name: str
    header: str | None
    is_for_session: bool
    calls: int


def says(**fixed):
    tiers = st.sampled_from(["fast", "deep", "auto"])
    return st.builds(
        Said,
        line=st.one_of(st.none(), st.none(), tiers),
        is_alone=st.booleans(),
        name=st.sampled_from(["auto", "auto", "deep", "fast", "sage", "claude-opus"]),
        header=st.one_of(st.none(), st.none(), tiers),
        is_for_session=st.booleans(),
        calls=st.integers(0, 2),
    )


def expected(conversation: list[Said]) -> str:
    """The rules, for the last message."""
    last, before = conversation[-1], conversation[-2] if len(conversation) > 1 else None
    if last.header is not None:
        return last.header
    if last.line is not None:
        return last.line
    if before is not None and before.is_alone and before.line is not None:
        return before.line
    wish = name_then = None
    for turn in conversation:
        is_for_session = turn.header is not None and turn.is_for_session
        if turn.line is not None and turn.is_alone and not is_for_session:
            continue  # answered here: nothing is remembered
        is_exact = not turn.name.startswith("claude")
        name = turn.name if is_exact else "auto"
        if is_for_session:
            wish, name_then = turn.header, name
        elif is_exact and name != name_then:
            wish = None
    if wish is not None:
        return wish
    return "auto" if last.name.startswith("claude") else last.name


class Talk:
    """A client that sends a conversation, message by message, with the calls of its tools."""

    def __init__(self, session: str | None) -> None:
        self.memory = SessionMemory(NoSessions())
        self.session, self.messages, self.count = session, [], 0

    async def say(self, turn: Said) -> list[str]:
        """What each request of the turn would be served by; nothing where the router answers it itself."""
        line = f"tier: {turn.line}" if turn.line else ""
        self.count += 1
        words = "" if line and turn.is_alone else f"do {self.count}"
        self.messages.append({"role": "user", "content": "\n".join(filter(None, (line, words)))})
        found = []
        for number in range(turn.calls + 1):
            tier = await self._send(turn)
            if tier is None:
                break
            found.append(tier)
            if number < turn.calls:
                call = {"id": f"{self.count}-{number}", "type": "function", "function": {"name": "ls", "arguments": "{}"}}
                self.messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
                self.messages.append({"role": "tool", "tool_call_id": call["id"], "content": "ok"})
        self.messages.append({"role": "assistant", "content": f"answer {self.count}"})
        return found

    async def _send(self, turn: Said) -> str | None:
        headers = {"x-tandem-session": self.session} if self.session else {}
        if turn.header is not None:
            headers["x-tandem-tier"] = turn.header
            headers["x-tandem-scope"] = "session" if turn.is_for_session else "request"
        view = make_view({"model": turn.name, "messages": self.messages}, Dialect.CHAT, headers)
        alias, read = NAMES.resolve(turn.name), read_turn(view)
        if read.line is not None and read.line.is_answered_here:
            return None
        known = await self.memory.recall(view, read, alias)
        told = known.annotate(read)
        target = TARGETS["sage"]
        finish(answer(self.memory, known, view, told, Tier.DEEP, target), target, 9)
        opinions = OVERRIDE.judge(view, make_signals(alias=alias, line=told.line, wish=told.wish))
        insists = [opinion for opinion in opinions if isinstance(opinion, Insist)]
        first = max(insists, key=lambda insist: insist.rank, default=None)
        return "auto" if first is None else str(first.tier or first.target)


@settings(max_examples=300, deadline=None)
@given(st.lists(says(), min_size=1, max_size=7), st.booleans())
def test_random_conversations_are_served_by_the_newest_wish(conversation, has_id):
    async def walk() -> None:
        talk = Talk("mine" if has_id else None)
        so_far: list[Said] = []
        for said in conversation:
            # Only a session with a name can be set to a tier by a header.
            turn = said if has_id else structs.replace(said, is_for_session=False)
            so_far.append(turn)
            for tier in await talk.say(turn):
                assert tier == expected(so_far)

    asyncio.run(walk())
