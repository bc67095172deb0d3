"""No store of sessions keeps nothing, and says so for every key."""

from router.contract.stores import Versioned
from router.stores.memory.sessions import NoSessions


async def test_nothing_is_kept_whatever_was_swapped():
    store = NoSessions()

    assert store.swap("a", 0, 1.0, b"state")
    assert await store.load_all(["a", "b"]) == [Versioned(), Versioned()]
