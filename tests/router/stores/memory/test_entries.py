"""Without a ledger the last decisions can still be asked for."""

from router.contract.caller import LOCAL
from router.contract.stores import Versioned
from router.stores.memory.entries import MemoryEntries, NoSessions
from tests.tools.kept import explain_shortly, make_entry


async def test_a_decision_is_remembered_and_one_that_cannot_be_read_is_none():
    store = MemoryEntries(explain_shortly)
    store.append(make_entry("req_1"))
    store.append(make_entry("req_2", decision="{"))

    assert (await store.find_decision("req_1", LOCAL))["because"] == "a quick edit"
    assert await store.find_decision("req_2", LOCAL) is None


async def test_nothing_is_kept_whatever_was_swapped():
    store = NoSessions()

    assert store.swap("a", 0, 1.0, b"state")
    assert await store.load_all(["a", "b"]) == [Versioned(), Versioned()]
