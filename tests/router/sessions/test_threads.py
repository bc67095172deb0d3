"""Which message threads began alike."""

import pytest

from router.sessions.threads import ThreadBeginnings


class Store:
    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}

    async def load(self, key: str) -> bytes | None:
        return self.kept.get(key)

    def save(self, key: str, at: float, state: bytes) -> None:
        self.kept[key] = state

    async def close(self) -> None: ...


async def test_threads_that_began_alike_are_found_the_newest_first_and_after_a_restart():
    store = Store()
    before = ThreadBeginnings(store)
    for name in ("a", "b", "a"):
        before.add("begun", name, 1.0)

    assert await before.find("begun") == await ThreadBeginnings(store).find("begun") == ("a", "b")
    assert await before.find("other") == ()


async def test_of_many_that_began_alike_the_newest_are_kept():
    beginnings = ThreadBeginnings(Store())
    for number in range(20):
        beginnings.add("begun", str(number), 1.0)

    assert await beginnings.find("begun") == tuple(str(number) for number in range(19, 11, -1))


async def test_the_longest_unused_beginning_is_forgotten_at_hand_and_found_in_the_store():
    store = Store()
    beginnings = ThreadBeginnings(store)
    for number in range(1_100):
        beginnings.add(f"begun {number}", "a", 1.0)

    assert len(beginnings._known) == 1_024
    assert await beginnings.find("begun 0") == ("a",)
    assert len(beginnings._known) == 1_024


@pytest.mark.parametrize("stored", [b"{", b"{}", b"7", b"[1]"])
async def test_a_record_that_is_none_counts_as_nothing(stored):
    store = Store()
    store.save("begun", 1.0, stored)

    assert await ThreadBeginnings(store).find("begun") == ()
