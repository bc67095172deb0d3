"""Which wish counts: the newest. By cases, and random conversations against the rules as plain as they can be written."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct, structs

from router.contract.errors import UnknownOverride
from router.contract.request import InBand
from router.contract.session import SessionState, Wish
from router.contract.signals import Alias
from router.contract.words import Dialect, Tier
from router.sense.models import ModelNames
from router.sessions.in_band import apply_tier_lines
from router.sessions.memory import SessionMemory
from router.sessions.turns import read_turn
from router.sessions.wishes import Channel, Naming, exact_name, kept_name, newest_channel, read_naming
from router.stores.memory.entries import NoSessions
from tests.tools.sessions import TARGETS, answer, chat, finish, look, step
from tests.tools.values import make_view

NAMES = ModelNames({"claude-*": "deep"}, ("spark", "sage"))
ASKED = Wish(Tier.DEEP, at=4, line="known")


@pytest.mark.parametrize(
    ("line", "wish", "naming", "channel"),
    [
        (None, None, None, None),
        (None, None, Naming("deep"), Channel.NAME),
        (InBand(Tier.FAST, 0), None, Naming("deep"), Channel.LINE),
        (InBand(Tier.FAST, -1), None, Naming("deep"), Channel.LINE),
        (InBand(Tier.FAST, 2, is_newest=False), None, Naming("deep", 4), Channel.NAME),
        (InBand(Tier.FAST, 4, is_newest=False), None, Naming("deep", 4), Channel.LINE),
        (None, ASKED, Naming("deep"), Channel.SESSION),
        (None, ASKED, Naming("deep", 4), Channel.SESSION),
        (None, ASKED, Naming("deep", 6), Channel.NAME),
        (None, ASKED, Naming("auto", 2, is_new=True), Channel.NAME),
        (InBand(Tier.FAST, 2, is_newest=False), ASKED, None, Channel.SESSION),
        (InBand(Tier.FAST, 6, is_newest=False), ASKED, None, Channel.LINE),
        (InBand(Tier.FAST, 0, mark="new"), ASKED, Naming("auto", 0, is_new=True), Channel.LINE),
        (InBand(Tier.FAST, 4, mark="known"), ASKED, None, Channel.SESSION),
    ],
)
def test_the_newest_wish_counts_and_in_one_message_header_then_line_then_name(line, wish, naming, channel):
    assert newest_channel(line, wish, naming) is channel


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
        assert (await look(memory, again)).override is (Tier.FAST if tier == "fast" else None)
    assert all(
        name in refused.value.message for name in ("x-tandem-session", "prompt_cache_key", "metadata.session_id", "tier: ")
    )


def test_a_name_is_a_wish_unless_it_only_matches_a_pattern():
    assert [exact_name(NAMES.resolve(name)) for name in ("auto", "deep", "sage", "claude-x")] == ["auto", "deep", "sage", None]
    assert [kept_name(name) for name in ("auto", "deep", None)] == ["", "deep", ""]
    assert exact_name(Alias("mine")) == "auto"


def test_a_name_counts_from_the_start_or_from_the_turn_at_which_it_changed():
    known = SessionState(messages=5, name="deep", name_at=2)

    def read(name, state, *, is_first=False, begins_turn=True):
        return read_naming(name, state, 8, is_first=is_first, begins_turn=begins_turn)

    assert read("deep", SessionState()) == Naming("deep")
    assert read("deep", known) == Naming("deep", 2)
    assert read("fast", known) == Naming("fast", 8, is_new=True)
    assert read("auto", known) == Naming("auto", 8, is_new=True)
    assert read("fast", known, begins_turn=False) == Naming("fast", 2)
    assert read("fast", known, is_first=True) == Naming("fast")
    assert read("deep", SessionState(messages=5)) == Naming("deep", 8, is_new=True)


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


def is_answered_here(turn: Said) -> bool:
    return turn.line is not None and turn.is_alone and not (turn.header is not None and turn.is_for_session)


def expected(conversation: list[Said], *, has_id: bool) -> str:
    """The rules, for the last message: walk through all that was said, and keep what was asked for last."""
    wish, by_name, name = "auto", True, None
    for turn in conversation:
        is_exact = not turn.name.startswith("claude")
        is_first = name is None
        if is_exact and turn.name != name and (by_name or not is_first):
            wish, by_name = turn.name, True
        if is_first and not has_id and is_answered_here(turn):
            wish, by_name = turn.line, False
            continue  # no target ever hears of it: such a session begins with its first message that one does
        # A session whose first names matched patterns is as good as one that began with "auto".
        name = turn.name if is_exact else name or "auto"
        if turn.line is not None:
            wish, by_name = turn.line, False
        if turn.header is not None and turn.is_for_session:
            wish, by_name = turn.header, False
    last = conversation[-1]
    # A name counts while it is sent.
    return last.header or ("auto" if by_name and last.name.startswith("claude") else wish)


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
        self.messages.append(
            {"role": "assistant", "content": f"answer {self.count}" if found else f"This session is set to {turn.line}."}
        )
        return found

    async def _send(self, turn: Said) -> str | None:
        headers = {"x-tandem-session": self.session} if self.session else {}
        if turn.header is not None:
            headers["x-tandem-tier"] = turn.header
            headers["x-tandem-scope"] = "session" if turn.is_for_session else "request"
        view = apply_tier_lines(make_view({"model": turn.name, "messages": self.messages}, Dialect.CHAT, headers))
        alias, line = NAMES.resolve(turn.name), view.overrides.line
        if line is not None and line.is_alone:
            await self.memory.set_tier(view, alias)
            return None
        known = await self.memory.recall(view, read_turn(view), alias)
        told = known.annotate(read_turn(view), view)
        target = TARGETS["sage"]
        finish(answer(self.memory, known, view, told, Tier.DEEP, target), target, 9)
        if turn.header is not None:
            return turn.header
        if told.heeds_line and line is not None:
            return str(line.tier or "auto")
        if told.session_override is not None:
            return str(told.session_override)
        return turn.name if told.heeds_name and not alias.is_pattern else "auto"


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
                assert tier == expected(so_far, has_id=has_id)

    asyncio.run(walk())
