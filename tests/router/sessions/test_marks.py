"""Marks: the same for what is the same conversation, however it was read."""

import pytest

from router.contract.words import Dialect, Tier
from router.dialects import json_body
from router.dialects.histories import NO_HISTORIES, Histories
from router.sessions.memory import SessionMemory
from router.stores.memory.entries import NoSessions
from tests.tools.sessions import look, step, tool_loop
from tests.tools.values import make_view


@pytest.fixture(autouse=True)
def _remembers_short_bodies(monkeypatch):
    monkeypatch.setattr(json_body, "_SHORT_BYTES", 0)


@pytest.mark.parametrize("remembers", [True, False])
async def test_a_long_tool_loop_is_found_again_by_what_is_kept_of_its_beginning_as_by_reading_it(remembers):
    calls, known, memory = (
        [f"call {number}" for number in range(12)],
        Histories(remembers=remembers),
        SessionMemory(NoSessions()),
    )

    await step(memory, tool_loop(*calls[:10], known=known), Tier.DEEP)
    found = (await look(memory, tool_loop(*calls[:11], known=known))).state
    await step(memory, tool_loop(*calls[:11], known=known), Tier.DEEP)
    later = (await look(memory, tool_loop(*calls, known=known))).state

    assert (found.messages, later.messages) == (21, 23)
    assert found.last != later.last


async def test_what_clients_change_in_a_long_history_does_not_hide_a_session_and_another_end_does():
    def noted(note: str, *calls: str):
        view = tool_loop(*calls)
        messages = [*view.body["messages"]]
        messages[-1] = {**messages[-1], "content": f"ok{note}"}
        return make_view({"messages": messages})

    memory = SessionMemory(NoSessions())
    calls = [f"call {number}" for number in range(12)]
    await step(memory, noted(" <note>", *calls[:10]), Tier.DEEP)

    assert (await look(memory, noted("", *calls[:10], "more"))).state.tier is Tier.DEEP
    assert (await look(memory, noted(" <another>", *calls[:10]))).state.tier is Tier.DEEP
    assert (await look(memory, noted("", *calls[:9], "another", "more"))).state.tier is None


@pytest.mark.parametrize("length", [3, 13, 31])
@pytest.mark.parametrize("dialect", [Dialect.CHAT, Dialect.MESSAGES])
async def test_the_mark_that_is_kept_is_the_one_that_reading_gives(length, dialect):
    known = Histories()
    said = [{"role": ("user", "assistant")[index % 2], "content": f"say {index}"} for index in range(length)]
    body = {"messages": said, "max_tokens": 9}
    marks = []
    for _ in range(2):
        memory = SessionMemory(NoSessions())
        await step(memory, make_view(body, dialect, known=known))
        marks += [(await look(memory, make_view(body, dialect, known=each))).state.last for each in (known, NO_HISTORIES)]

    assert len(set(marks)) == 1
    assert marks[0]
