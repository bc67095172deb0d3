"""What a router answers while a place that it shares cannot be asked, and what it does when that is back."""

import asyncio

import pytest
from structlog.testing import capture_logs

from router.contract.errors import StoreUnavailable
from router.contract.stores import StoreUnusable
from router.loop.tasks import spawn
from router.stores.memory.responses import MemoryResponses
from router.stores.places import DELETED, OTHERS, UNKNOWN, Known
from router.stores.responses import Responses
from tests.tools.kept import ANN, BOB, make_response
from tests.tools.waiting import later, some_turns

pytestmark = pytest.mark.jumping_clock


class FakePlace:
    """A place that can be away."""

    def __init__(self) -> None:
        self.kept, self.is_away, self.is_read_only, self.late = {}, False, False, []
        self.changed = asyncio.Event()

    def _check(self) -> None:
        if self.is_away:
            raise StoreUnusable("away")

    async def keep(self, response, *, is_late=False) -> None:
        self._check()
        if is_late:
            self.late.append(response.id)
        if not (self._has(response) and self.kept[response.caller, response.id] is None):
            self.kept[response.caller, response.id] = response
        self.changed.set()

    def _has(self, response) -> bool:
        return (response.caller, response.id) in self.kept

    async def find(self, response_id, caller) -> Known:
        self._check()
        if (caller, response_id) in self.kept:
            found = self.kept[caller, response_id]
            return Known(found) if found is not None else DELETED
        return OTHERS if any(name == response_id for _, name in self.kept) else UNKNOWN

    async def find_holder(self, item_ids, caller):
        self._check()
        held = [one for one in self.kept.values() if one and one.caller == caller and not one.item_ids.isdisjoint(item_ids)]
        return max(held, key=lambda one: one.at, default=None)

    async def sort_out(self, keys):
        self._check()
        deleted = [key for key in keys if key in self.kept and self.kept[key] is None]
        return [key for key in keys if key not in self.kept], deleted

    async def delete(self, response_id, caller) -> None:
        self._check()
        if self.is_read_only:
            raise StoreUnusable("read-only")
        self.kept[caller, response_id] = None


class FakeLink:
    def __init__(self) -> None:
        self.blind, self._on_back = {"responses": 0}, []

    def on_back(self, begin, restore) -> None:
        self._on_back.append((begin, restore))

    def come_back(self) -> None:
        for begin, restore in self._on_back:
            begin()
            spawn(restore(), name="restore")


class FakeValkey(FakePlace):
    """The same as a server that routers are connected to."""

    def __init__(self) -> None:
        super().__init__()
        self.link, self.on_gone, self.is_full, self.listeners = FakeLink(), None, False, []

    def send(self, response):
        self._check()
        sent = asyncio.get_running_loop().create_future()
        if self.is_full:
            sent.set_exception(StoreUnusable("full"))
        else:
            self.kept[response.caller, response.id] = response
            sent.set_result(1)
        return sent

    async def keep(self, response, *, is_late=False) -> None:
        if self.is_full:
            raise StoreUnusable("full")
        await super().keep(response, is_late=is_late)

    @property
    def on_unwritten(self):
        return self.listeners[-1]

    @on_unwritten.setter
    def on_unwritten(self, listener) -> None:
        self.listeners.append(listener)

    def report_unwritten(self) -> None:
        for listener in self.listeners:
            listener()

    def is_over(self, response) -> bool:
        return False

    def takes(self, response) -> bool:
        return True


class FakeDisk(MemoryResponses):
    """Survives its router."""

    async def list_rows(self, after, limit):
        rows = [(number, (one.caller, one.id)) for number, one in enumerate(self.list_kept(), 1)]
        return rows[after : after + limit]

    async def load(self, response_id, caller):
        return await self.find(response_id, caller)

    async def close(self) -> None:
        pass


@pytest.fixture
def valkey():
    return FakeValkey()


@pytest.fixture
def postgres():
    return FakePlace()


async def test_while_a_home_is_away_a_router_serves_what_it_made_itself(valkey, postgres):
    store = Responses(MemoryResponses(), valkey, postgres)
    kept = make_response(item_ids=["msg_a"])
    store.keep(kept, for_long=False)

    valkey.is_away = True

    assert await store.find("resp_1", ANN) == kept
    assert await store.find_holder(["msg_a"], ANN) == kept


@pytest.mark.parametrize("away", ["valkey", "postgres", "both"])
async def test_while_a_home_is_away_an_unknown_id_is_neither_gone_nor_a_targets(valkey, postgres, away):
    store = Responses(MemoryResponses(), valkey, postgres)
    valkey.is_away, postgres.is_away = away != "postgres", away != "valkey"

    for asking in (
        store.find("resp_1", ANN),
        store.is_denied("resp_1", ANN),
        store.find_holder(["msg_a"], ANN),
        store.forget("resp_1", ANN),
    ):
        with pytest.raises(StoreUnavailable) as raised:
            await asking
        assert raised.value.retry_after_seconds == 1.0
    assert valkey.link.blind["responses"] == 3


async def test_a_stored_response_is_found_in_the_database_while_the_server_is_away(valkey, postgres):
    one, other = (Responses(MemoryResponses(), valkey, postgres) for _ in range(2))
    await one.keep(make_response(), for_long=True)

    valkey.is_away = True

    assert (await other.find("resp_1", ANN)).id == "resp_1"
    with pytest.raises(StoreUnavailable):
        await other.forget("resp_1", ANN)
    assert (await other.find("resp_1", ANN)).id == "resp_1"


async def test_what_the_database_could_not_take_is_on_the_routers_disk_and_written_later(postgres):
    disk = MemoryResponses()
    store = Responses(MemoryResponses(disk), None, postgres)
    postgres.is_away = True
    with pytest.raises(StoreUnusable):
        await store.keep(make_response(), for_long=True)
    assert (await disk.find("resp_1", ANN)).id == "resp_1"
    assert (await store.find("resp_1", ANN)).id == "resp_1"

    postgres.is_away = False
    await postgres.changed.wait()

    assert postgres.late == ["resp_1"]
    assert (await Responses(MemoryResponses(), None, postgres).find("resp_1", ANN)).id == "resp_1"


async def test_what_the_database_could_not_take_is_written_from_the_disk_after_a_restart(postgres):
    disk = FakeDisk()
    store = Responses(MemoryResponses(disk), None, postgres, disk)
    postgres.is_away = True
    for name in ("resp_1", "resp_2"):
        with pytest.raises(StoreUnusable):
            await store.keep(make_response(name, item_ids=[f"msg_of_{name}"]), for_long=True)
    await store.close()
    postgres.is_away = False
    await postgres.delete("resp_2", ANN)

    store = Responses(MemoryResponses(disk), None, postgres, disk)
    store.start()
    await postgres.changed.wait()

    assert postgres.late == ["resp_1"]
    assert (await postgres.find_holder(["msg_of_resp_1"], ANN)).id == "resp_1"
    await asyncio.sleep(0)
    assert [kept.id for kept in disk.list_kept()] == ["resp_1"], "the other was deleted while this router was away"
    await store.close()


async def test_what_is_too_much_to_wait_in_memory_is_written_from_the_disk(postgres):
    disk = FakeDisk(max_bytes=1 << 30)
    store = Responses(MemoryResponses(disk), None, postgres, disk)
    postgres.is_away = True
    for name in ("resp_1", "resp_2"):
        with pytest.raises(StoreUnusable):
            await store.keep(make_response(name)._replace(raw=bytes(40 << 20)), for_long=True)

    postgres.is_away = False
    while len(postgres.kept) < 2:
        postgres.changed.clear()
        await postgres.changed.wait()

    await store.close()


async def test_a_router_that_stops_tries_once_more_and_reports_what_is_lost(postgres):
    store = Responses(MemoryResponses(), None, postgres)
    postgres.is_away = True
    for name in ("resp_1", "resp_2"):
        with pytest.raises(StoreUnusable):
            await store.keep(make_response(name), for_long=True)

    with capture_logs() as logs:
        await store.close()
        postgres.is_away = False
        await store.close()

    assert [(line["event"], line["count"]) for line in logs] == [("responses.lost", 2)]
    assert set(postgres.kept) == {(ANN, "resp_1"), (ANN, "resp_2")}


async def test_responses_that_too_many_others_push_out_are_reported(postgres):
    store = Responses(MemoryResponses(), None, postgres)
    postgres.is_away = True

    with capture_logs() as logs:
        for name in ("resp_1", "resp_2"):
            with pytest.raises(StoreUnusable):
                await store.keep(make_response(name)._replace(raw=bytes(40 << 20)), for_long=True)

    assert [(line["event"], line["count"]) for line in logs] == [("responses.lost", 1)]
    await store.close()


async def test_a_response_that_was_deleted_meanwhile_is_not_written_later(valkey, postgres):
    store = Responses(MemoryResponses(), valkey, postgres)
    postgres.is_away = True
    with pytest.raises(StoreUnusable):
        await store.keep(make_response(), for_long=True)
    postgres.is_away = False

    assert await store.forget("resp_1", ANN)
    store.keep(make_response("resp_2"), for_long=True)
    await postgres.changed.wait()

    assert postgres.kept[ANN, "resp_1"] is None


async def test_without_a_server_that_tells_of_deletions_no_copy_of_a_stored_response_stays_here(postgres):
    one, other = (Responses(MemoryResponses(), None, postgres) for _ in range(2))
    await one.keep(make_response(), for_long=True)
    await other.forget("resp_1", ANN)

    postgres.is_away = True

    with pytest.raises(StoreUnavailable):
        await one.find("resp_1", ANN)


async def test_a_response_that_is_not_stored_stays_with_its_router_where_only_a_database_is_shared(postgres):
    one, other = (Responses(MemoryResponses(), None, postgres) for _ in range(2))

    assert one.keep(make_response(), for_long=False) is None

    assert (await one.find("resp_1", ANN)).id == "resp_1"
    assert await other.find("resp_1", ANN) is None


async def test_a_deletion_that_was_heard_of_holds_while_the_server_is_away(valkey):
    store = Responses(MemoryResponses(), valkey, None)
    store.keep(make_response(), for_long=False)
    await valkey.delete("resp_1", ANN)

    valkey.on_gone("resp_1", ANN)
    await asyncio.sleep(0)
    valkey.is_away = True

    with pytest.raises(StoreUnavailable):
        await store.find("resp_1", ANN)


async def test_when_the_server_is_back_it_gets_what_it_lacks_and_deletions_are_made_up_for(valkey):
    store = Responses(own := MemoryResponses(), valkey, None)
    for name in ("resp_1", "resp_2"):
        store.keep(make_response(name), for_long=False)
    del valkey.kept[ANN, "resp_1"]
    await valkey.delete("resp_2", ANN)

    valkey.link.come_back()
    await valkey.changed.wait()
    await asyncio.sleep(0)

    assert valkey.late == ["resp_1"]
    assert [kept.id for kept in own.list_kept()] == ["resp_1"]


async def test_right_after_the_server_is_back_an_unknown_id_may_still_be_on_its_way_there(valkey):
    store = Responses(MemoryResponses(), valkey, None)
    assert await store.find("resp_1", ANN) is None

    valkey.link.come_back()

    with pytest.raises(StoreUnavailable):
        await store.find("resp_1", ANN)


async def test_what_was_kept_before_the_server_was_first_there_is_written_to_it_then(valkey):
    store = Responses(MemoryResponses(), valkey, None)
    valkey.is_away = True
    store.keep(make_response(), for_long=False)

    valkey.is_away = False
    valkey.link.come_back()
    with pytest.raises(StoreUnavailable):
        await store.find("resp_2", ANN)
    await valkey.changed.wait()

    assert valkey.late == ["resp_1"]


async def test_an_id_of_somebody_else_is_denied_and_nothing_of_it_is_shown(valkey, postgres):
    store = Responses(MemoryResponses(), valkey, postgres)
    await store.keep(make_response(), for_long=True)

    assert await store.find("resp_1", BOB) is None
    assert await store.is_denied("resp_1", BOB)
    assert not await store.forget("resp_1", BOB)


async def test_an_id_that_another_caller_has_in_one_home_alone_is_denied(valkey, postgres):
    one, other = (Responses(MemoryResponses(), valkey, postgres) for _ in range(2))
    await one.keep(make_response(), for_long=False)

    assert await other.is_denied("resp_1", BOB)


class SlowPlace(FakePlace):
    """Writes when it is let."""

    def __init__(self, *gates: asyncio.Event) -> None:
        super().__init__()
        self._gates = iter(gates)

    async def keep(self, response, *, is_late=False) -> None:
        await next(self._gates).wait()
        await super().keep(response, is_late=is_late)


async def test_a_response_that_is_kept_again_while_it_is_written_is_found_as_the_newer():
    first, second = asyncio.Event(), asyncio.Event()
    store = Responses(MemoryResponses(), None, SlowPlace(first, second))
    older, _ = (store.keep(make_response(text=text), for_long=True) for text in ("old", "new"))
    first.set()
    await older

    finding = later(store.find("resp_1", ANN))
    await some_turns()
    second.set()

    assert (await finding).read()[0].items == ["new"]


async def test_a_deletion_that_the_database_refuses_leaves_the_response_where_it_was(valkey, postgres):
    store = Responses(MemoryResponses(), valkey, postgres)
    await store.keep(make_response(), for_long=True)
    postgres.is_read_only = True

    with pytest.raises(StoreUnavailable):
        await store.forget("resp_1", ANN)

    assert await store.find("resp_1", ANN) is not None


@pytest.mark.parametrize("refusing", ["valkey", "postgres"])
async def test_a_deletion_that_one_home_refuses_is_done_by_the_next_try(valkey, postgres, refusing):
    store = Responses(MemoryResponses(), valkey, postgres)
    await store.keep(make_response(), for_long=True)
    place = valkey if refusing == "valkey" else postgres
    place.is_read_only = True
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            await store.forget("resp_1", ANN)

    place.is_read_only = False

    assert await store.forget("resp_1", ANN)
    assert valkey.kept == postgres.kept == {(ANN, "resp_1"): None}


async def test_a_deletion_waits_for_a_home_that_is_away_even_if_another_knows_of_it(valkey, postgres):
    store = Responses(MemoryResponses(), valkey, postgres)
    await store.keep(make_response(), for_long=True)
    await postgres.delete("resp_1", ANN)
    valkey.is_away = True

    with pytest.raises(StoreUnavailable):
        await store.forget("resp_1", ANN)


async def test_items_of_a_response_that_was_deleted_in_another_home_are_not_found(valkey, postgres):
    store = Responses(MemoryResponses(), valkey, postgres)
    await store.keep(make_response(item_ids=["msg_a"]), for_long=True)

    await valkey.delete("resp_1", ANN)

    assert await store.find_holder(["msg_a"], ANN) is None


async def test_what_a_full_server_refused_is_not_gone_at_other_routers_and_written_once_there_is_room(valkey):
    one, other = (Responses(MemoryResponses(), valkey, None) for _ in range(2))
    valkey.is_full = True
    with pytest.raises(StoreUnusable):
        await one.keep(make_response(), for_long=False)
    for _ in range(20):  # seconds, in which the router that made it says again and again that it has it
        with pytest.raises(StoreUnavailable):
            await other.find("resp_1", ANN)
        await asyncio.sleep(1)
    assert (await one.find("resp_1", ANN)).id == "resp_1"

    valkey.is_full = False
    await valkey.changed.wait()

    assert (await other.find("resp_1", ANN)).id == "resp_1"


async def test_a_newer_response_of_the_same_id_is_not_replaced_by_one_that_was_refused(valkey):
    store, valkey.is_full = Responses(MemoryResponses(), valkey, None), True
    with pytest.raises(StoreUnusable):
        await store.keep(make_response(text="old"), for_long=False)

    valkey.is_full = False
    await store.keep(make_response(text="new"), for_long=False)
    await asyncio.sleep(0)
    await store.close()

    assert valkey.kept[ANN, "resp_1"].read()[0].items == ["new"]


async def test_a_router_that_stops_tries_once_more_to_write_what_the_server_refused(valkey):
    store, valkey.is_full = Responses(MemoryResponses(), valkey, None), True
    with pytest.raises(StoreUnusable):
        await store.keep(make_response(), for_long=False)
    await asyncio.sleep(0)

    valkey.is_full = False
    await store.close()

    assert (ANN, "resp_1") in valkey.kept
