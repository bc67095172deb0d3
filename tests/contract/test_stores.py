"""What every store must do, whatever it keeps things in: nobody edits this to let a newcomer in."""

import asyncio
import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from router.contract.caller import LOCAL
from router.contract.errors import StoreUnavailable
from router.contract.facts import StateRefused
from router.contract.stores import StoreUnusable, Versioned
from router.contract.words import Tier
from router.sessions.memory import SessionMemory
from router.sessions.turns import read_turn
from router.stores.memory.entries import MemoryEntries, NoSessions
from router.stores.memory.responses import MemoryResponses
from router.stores.responses import Responses
from tests.tools.kept import (
    ANN,
    BOB,
    Failures,
    explain_shortly,
    make_entry,
    make_response,
    open_entries,
    open_responses,
    open_sessions,
    remove_database,
)
from tests.tools.sessions import TARGETS, SharedSessions, chat, finish, look, save, swap, under_way

HALF_A_PAIR = "\ud800"
"""Text that cannot be written as UTF-8."""


@dataclass(frozen=True)
class Kind:
    """One implementation: how it is opened, and what it is for."""

    name: str
    open: Callable[[Path, Failures], Any]
    survives: bool = True
    """Whether what it keeps outlives it."""


def may_be_there(kind: Kind) -> contextlib.AbstractContextManager[object]:
    """What is not found in a broken file is not known to be absent."""
    if not kind.survives:
        return contextlib.nullcontext()
    return pytest.raises((StoreUnusable, StoreUnavailable), match="cannot be")


ENTRIES = [
    Kind("memory", lambda path, failures: MemoryEntries(explain_shortly), survives=False),
    Kind("sqlite", open_entries),
]
SESSIONS = [
    Kind("none", lambda path, failures: NoSessions(), survives=False),
    Kind("sqlite", open_sessions),
]
UNRELIABLE = [
    Kind(fault, partial(lambda fault, path, failures: SharedSessions(fault=fault), fault), survives=False)
    for fault in ("late", "out of order", "twice")
]
"""Stores that several processes share, and that answer as a network lets them."""
RESPONSES = [
    Kind("memory", lambda path, failures: MemoryResponses(), survives=False),
    Kind("sqlite", open_responses),
    Kind("memory before sqlite", lambda path, failures: Responses(MemoryResponses(open_responses(path, failures)))),
]


class Opener:
    """Opens stores of one kind on one file. Each is closed with the test."""

    def __init__(self, kind: Kind, path: Path) -> None:
        self.kind, self.path = kind, path
        self.failures: Failures = []
        self._stores: list[Any] = []

    def __call__(self) -> Any:
        self._stores.append(self.kind.open(self.path, self.failures))
        return self._stores[-1]

    def break_file(self) -> None:
        """Put a folder where the file was: it can be neither read nor written, not even by root."""
        if self.kind.survives:
            remove_database(self.path)
            self.path.mkdir()

    async def close(self) -> None:
        for store in self._stores:
            await store.close()


def opening(kinds: list[Kind]) -> Any:
    """A fixture for each kind."""

    @pytest.fixture(params=kinds, ids=lambda kind: kind.name)
    async def fixture(request, tmp_path):
        opener = Opener(request.param, tmp_path / "kept.db")
        yield opener
        await opener.close()

    return fixture


entries, sessions, responses = opening(ENTRIES), opening(SESSIONS), opening(RESPONSES)
lasting_entries, lasting_sessions, lasting_responses = (
    opening([kind for kind in kinds if kind.survives]) for kinds in (ENTRIES, SESSIONS, RESPONSES)
)
versioned_sessions = opening([SESSIONS[1], *UNRELIABLE])


# Entries.


async def test_a_decision_is_found_at_once_with_what_the_person_typed(entries):
    store = entries()
    store.append(make_entry("req_1"))

    found = await store.find_decision("req_1", LOCAL)

    assert found == {"request_id": "req_1", "because": "a quick edit", "person_text": "typed for req_1"}


async def test_a_decision_is_found_by_its_own_caller_only(entries):
    store = entries()
    store.append(make_entry("req_1", ANN))

    assert await store.find_decision("req_1", ANN) is not None
    assert await store.find_decision("req_1", BOB) is None


async def test_an_admin_finds_any_decision_without_what_the_person_typed(entries):
    store = entries()
    store.append(make_entry("req_1", ANN))

    assert await store.find_decision("req_1", None) == {"request_id": "req_1", "because": "a quick edit", "person_text": None}
    assert await store.find_decision("req_2", None) is None


async def test_a_request_that_was_never_decided_or_never_came_has_no_decision(entries):
    store = entries()
    store.append(make_entry("req_1", decision=None))

    assert await store.find_decision("req_1", LOCAL) is None
    assert await store.find_decision("req_2", LOCAL) is None


async def test_a_decision_outlives_its_store_without_what_the_person_typed_for_its_own_caller(lasting_entries):
    store = lasting_entries()
    store.append(make_entry("req_1", ANN))
    await store.close()

    again = lasting_entries()

    assert await again.find_decision("req_1", ANN) == {"request_id": "req_1", "because": "a quick edit", "person_text": None}
    assert await again.find_decision("req_1", BOB) is None


async def test_what_the_person_typed_outlives_the_store_where_texts_are_kept(lasting_entries):
    store = lasting_entries()
    store.append(make_entry("req_1", prompt_text="{}"))
    await store.close()

    assert (await lasting_entries().find_decision("req_1", LOCAL))["person_text"] == "typed for req_1"


@pytest.mark.parametrize("text", ["naïve 漢字 🜁", "nul\0byte", "x" * 3_000_000], ids=["unicode", "nul", "large"])
async def test_any_text_of_a_decision_comes_back_as_it_was(entries, text):
    store = entries()
    store.append(make_entry("req_1", because=text))
    assert (await store.find_decision("req_1", LOCAL))["because"] == text

    if entries.kind.survives:
        await store.close()
        assert (await entries().find_decision("req_1", LOCAL))["because"] == text


@pytest.mark.parametrize("bad", [{"because": HALF_A_PAIR}, {"model": HALF_A_PAIR}, {"status": 1 << 70}, {"name": HALF_A_PAIR}])
async def test_an_entry_that_cannot_be_written_costs_no_other(entries, bad):
    store = entries()
    store.append(make_entry("req_1"))
    store.append(make_entry(**{"name": "req_bad", **bad}))
    store.append(make_entry("req_2"))
    assert await store.find_decision(HALF_A_PAIR, BOB) is None
    await store.close()

    if entries.kind.survives:
        again = entries()
        found = [await again.find_decision(name, LOCAL) is not None for name in ("req_1", "req_2")]
        assert found == [True, True]
        assert entries.failures[-1][1] == 1


async def test_many_entries_are_kept_every_one(lasting_entries):
    store = lasting_entries()
    for number in range(1_300):
        store.append(make_entry(f"req_{number}"))
    await store.close()

    again = lasting_entries()

    assert all([await again.find_decision(f"req_{number}", LOCAL) for number in range(1_300)])


async def test_appending_never_raises_with_a_broken_file_or_after_the_close(entries):
    store = entries()
    entries.break_file()
    store.append(make_entry("req_1"))
    with may_be_there(entries.kind):
        assert await store.find_decision("req_none", BOB) is None
    await store.close()

    store.append(make_entry("req_2"))
    await store.close()

    if entries.kind.survives:
        assert entries.failures[-1][1] == 2


# Sessions.


async def test_of_several_records_the_newest_is_loaded_written_or_not(lasting_sessions):
    store = lasting_sessions()
    now = time.time()
    for number in range(20):
        await save(store, "key", now, b"%d" % number)
        assert (await store.load("key")).state == b"%d" % number
    await save(store, "other", now, b"other")

    assert [(await store.load(key)).state for key in ("key", "other", "none")] == [b"19", b"other", None]


async def test_records_outlive_their_store_and_the_newest_wins(lasting_sessions):
    now = time.time()
    for number in range(3):
        store = lasting_sessions()
        await save(store, "key", now, b"older")
        await save(store, "key", now, b"%d" % number)
        await store.close()

    assert (await lasting_sessions().load("key")).state == b"2"


@pytest.mark.parametrize("state", [b"", b"\0\xff", b"x" * 3_000_000], ids=["empty", "bytes", "large"])
async def test_any_record_comes_back_as_it_was(lasting_sessions, state):
    store = lasting_sessions()
    await save(store, "naïve 漢字", time.time(), state)
    await store.close()

    assert (await lasting_sessions().load("naïve 漢字")).state == state


async def test_a_record_that_cannot_be_written_costs_no_other(sessions):
    store = sessions()
    now = time.time()
    for key in ("a", HALF_A_PAIR, "b"):
        await save(store, key, now, b"state")
    await store.load(HALF_A_PAIR)
    await store.close()

    if sessions.kind.survives:
        again = sessions()
        assert [(await again.load(key)).state for key in ("a", HALF_A_PAIR, "b")] == [b"state", None, b"state"]
        assert sessions.failures == [("UnicodeEncodeError", 1)]


async def test_saving_never_raises_with_a_broken_file_or_after_the_close(sessions):
    store = sessions()
    sessions.break_file()
    await save(store, "key", time.time(), b"state")
    assert (await store.load("none")).state is None
    await store.close()

    await save(store, "other", time.time(), b"state")
    assert (await store.load("none")).state is None
    await store.close()

    if sessions.kind.survives:
        assert sessions.failures[-1][1] == 2


async def test_a_record_is_replaced_only_by_who_knows_its_version(versioned_sessions):
    store = versioned_sessions()
    nothing = await store.load("key")
    assert nothing == Versioned(None, 0)
    assert await swap(store, "key", 0, 1.0, b"one")

    first = await store.load("key")
    found = [await swap(store, "key", version, 1.0, b"stale") for version in (0, first.version + 1)]
    assert await swap(store, "key", first.version, 1.0, b"two")

    assert found == [False, False]
    assert await store.load("key") == Versioned(b"two", first.version + 1)
    assert not await swap(store, "key", first.version, 1.0, b"again")


async def test_a_version_that_was_forgotten_is_never_given_to_another_state(versioned_sessions):
    store = versioned_sessions()
    await store.load("key")
    assert await swap(store, "key", 0, 1.0, b"one")
    before = await store.load("key")
    for number in range(9_000):
        await store.load(f"other {number}")
    await save(store, "key", 1.0, b"two")

    for version in range(before.version + 1):
        assert not await swap(store, "key", version, 1.0, b"stale")
    assert (await store.load("key")).state == b"two"


async def test_of_many_changes_at_once_none_is_lost(versioned_sessions):
    store = versioned_sessions()

    async def add(number: int) -> None:
        while True:
            found = await store.load("key")
            if await swap(store, "key", found.version, 1.0, bytes([*(found.state or b""), number])):
                return

    await asyncio.gather(*map(add, range(50)))

    assert sorted((await store.load("key")).state) == list(range(50))


async def test_two_memories_on_one_store_lose_nothing_of_what_either_was_told(versioned_sessions):
    store = versioned_sessions()
    view = chat("begin", prompt_cache_key="s")
    memories = [SessionMemory(store), SessionMemory(store)]

    async def refuse(number: int) -> None:
        memory = memories[number % 2]
        exchange = under_way(memory, await look(memory, view), view, read_turn(view), Tier.FAST)
        exchange.note(StateRefused(TARGETS["spark"], (f"piece {number}",)))
        finish(exchange, TARGETS["spark" if number % 2 else "sage"], 9)

    await asyncio.gather(*map(refuse, range(40)))
    for memory in memories:
        memory._store_ended()
        await memory._known.sessions.close()

    state = (await look(SessionMemory(store), view)).state
    assert sorted(state.origins) == sorted(f"piece {number}" for number in range(40))
    assert sorted(state.warm) == ["sage", "spark"]


# Responses.


async def test_a_response_is_found_at_once_by_its_own_caller_only(responses):
    store = responses()
    kept = make_response()
    store.keep(kept, for_long=True)

    assert await store.find("resp_1", ANN) == kept
    assert await store.find("resp_1", BOB) is None
    assert await store.find("resp_2", ANN) is None


async def test_two_callers_may_have_a_response_of_one_id(responses):
    store = responses()
    store.keep(make_response(text="hers"), for_long=True)
    store.keep(make_response(caller=BOB, text="his"), for_long=True)

    assert [(await store.find("resp_1", caller)).read()[0].items for caller in (ANN, BOB)] == [["hers"], ["his"]]


async def test_a_response_that_is_kept_again_is_the_newer(responses):
    store = responses()
    for text in ("one", "two", "three"):
        store.keep(make_response(text=text), for_long=True)

    assert (await store.find("resp_1", ANN)).read()[0].items == ["three"]


async def test_an_id_is_denied_to_whoever_did_not_make_it(responses):
    store = responses()
    store.keep(make_response(), for_long=True)

    assert await store.is_denied("resp_1", BOB)
    assert not await store.is_denied("resp_1", ANN)
    assert not await store.is_denied("resp_unknown", ANN)


async def test_items_are_found_in_the_newest_response_that_holds_one_by_their_own_caller_only(responses):
    store = responses()
    for number, held in enumerate((["msg_a"], ["msg_a", "msg_b"], ["msg_c"])):
        store.keep(make_response(f"resp_{number}", item_ids=held), for_long=True)

    holders = [await store.find_holder(names, ANN) for names in (["msg_a"], ["msg_b", "msg_x"], ["msg_c"])]

    assert [holder.id for holder in holders] == ["resp_1", "resp_1", "resp_2"]
    assert await store.find_holder(["msg_a"], BOB) is None
    assert await store.find_holder(["msg_x"], ANN) is None


async def test_an_item_is_found_as_long_as_one_response_that_holds_it_is_kept(responses):
    store = responses()
    store.keep(make_response("resp_1", item_ids=["msg_a"]), for_long=True)
    store.keep(make_response("resp_2", item_ids=["msg_a", "msg_b"]), for_long=True)

    await store.forget("resp_2", ANN)

    assert (await store.find_holder(["msg_a"], ANN)).id == "resp_1"
    assert await store.find_holder(["msg_b"], ANN) is None


async def test_items_are_found_after_a_restart(lasting_responses):
    store = lasting_responses()
    written = store.keep(make_response(item_ids=["msg_a"]), for_long=True)
    if written is not None:  # another router's connection may be quicker
        await written
    await store.close()

    assert (await lasting_responses().find_holder(["msg_a"], ANN)).id == "resp_1"


async def test_only_its_caller_can_delete_a_response_and_only_once(responses):
    store = responses()
    store.keep(make_response(), for_long=True)

    assert not await store.forget("resp_1", BOB)
    assert await store.find("resp_1", ANN) is not None
    assert await store.forget("resp_1", ANN)
    assert await store.find("resp_1", ANN) is None
    assert not await store.forget("resp_1", ANN)


async def test_a_deletion_is_never_overtaken_by_the_write_that_it_undoes(responses):
    store, names = responses(), [f"resp_{number}" for number in range(50)]
    for name in names:
        store.keep(make_response(name), for_long=True)

        assert await store.forget(name, ANN)
        assert await store.find(name, ANN) is None

    await store.close()
    after = responses()
    assert [name for name in names[:3] + names[-3:] if await after.find(name, ANN)] == []


async def test_responses_outlive_their_store_for_their_caller(lasting_responses):
    store = lasting_responses()
    kept = make_response()
    store.keep(kept, for_long=True)
    store.keep(make_response("resp_2"), for_long=True)
    await store.forget("resp_2", ANN)
    await store.close()

    again = lasting_responses()

    assert await again.find("resp_1", ANN) == kept
    assert await again.find("resp_1", BOB) is None
    assert await again.is_denied("resp_1", BOB)
    assert await again.find("resp_2", ANN) is None


@pytest.mark.parametrize("text", ["naïve 漢字 🜁", "nul\0byte", "x" * 3_000_000], ids=["unicode", "nul", "large"])
async def test_any_text_of_a_response_comes_back_as_it_was(responses, text):
    store = responses()
    store.keep(make_response("resp_漢", text=text), for_long=True)
    assert (await store.find("resp_漢", ANN)).read()[0].items == [text]

    if responses.kind.survives:
        await store.close()
        assert (await responses().find("resp_漢", ANN)).read()[0].items == [text]


async def test_a_response_that_cannot_be_written_costs_no_other(responses):
    store = responses()
    store.keep(make_response("resp_1"), for_long=True)
    store.keep(make_response("resp_bad")._replace(id=HALF_A_PAIR), for_long=True)
    store.keep(make_response("resp_2"), for_long=True)
    await store.find(HALF_A_PAIR, BOB)
    await store.forget(HALF_A_PAIR, BOB)
    await store.close()

    if responses.kind.survives:
        again = responses()
        assert [await again.find(name, ANN) is not None for name in ("resp_1", "resp_2", HALF_A_PAIR)] == [True, True, False]
        assert not await again.forget(HALF_A_PAIR, ANN)
        assert not await again.is_denied(HALF_A_PAIR, ANN)
        assert responses.failures == [("UnicodeEncodeError", 1)]


async def test_keeping_never_raises_with_a_broken_file_or_after_the_close(responses):
    store = responses()
    responses.break_file()
    store.keep(make_response("resp_1"), for_long=True)
    with may_be_there(responses.kind):
        assert await store.find("resp_none", ANN) is None
    with may_be_there(responses.kind):
        assert not await store.is_denied("resp_none", ANN)
    await store.close()

    store.keep(make_response("resp_2"), for_long=True)
    with may_be_there(responses.kind):
        assert await store.find("resp_none", ANN) is None
    await store.close()

    if responses.kind.survives:
        assert responses.failures[-1][1] == 2
