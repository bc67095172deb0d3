"""Stores of responses that several routers share do what every store does, and more: what one of them did, all of them know."""

from contextlib import suppress
from functools import partial
from importlib import import_module
from types import SimpleNamespace

import pytest

pytest.importorskip("asyncpg")
pytest.importorskip("hiredis")

from router.contract.stores import StoreUnusable
from tests.contract.test_stores import (  # noqa: F401  the same claims, about other stores
    test_a_deletion_is_never_overtaken_by_the_write_that_it_undoes,
    test_a_response_is_found_at_once_by_its_own_caller_only,
    test_a_response_that_cannot_be_written_costs_no_other,
    test_a_response_that_is_kept_again_is_the_newer,
    test_an_id_is_denied_to_whoever_did_not_make_it,
    test_an_item_is_found_as_long_as_one_response_that_holds_it_is_kept,
    test_any_text_of_a_response_comes_back_as_it_was,
    test_items_are_found_after_a_restart,
    test_items_are_found_in_the_newest_response_that_holds_one_by_their_own_caller_only,
    test_keeping_never_raises_with_a_broken_file_or_after_the_close,
    test_only_its_caller_can_delete_a_response_and_only_once,
    test_responses_outlive_their_store_for_their_caller,
    test_two_callers_may_have_a_response_of_one_id,
)
from tests.tools.kept import ANN, BOB, SharedPlace, make_response
from tests.tools.postgres import make_terms
from tests.tools.unreliable import DATABASE_FAULTS, FAULTS, UnreliableDatabase, UnreliableLink, insist
from tests.tools.waiting import until

pytestmark = pytest.mark.stores
PLACES = ["valkey", "postgres", "both", *(f"valkey, {fault}" for fault in FAULTS), "postgres, late"]


@pytest.fixture(params=PLACES)
async def place(request, monkeypatch):
    """Where the routers of a test keep their responses."""
    valkey = postgres = None
    request.param, _, fault = request.param.partition(", ")
    monkeypatch.setattr(import_module("router.stores.valkey.link"), "Link", partial(UnreliableLink, fault=fault))
    monkeypatch.setattr(import_module("router.stores.postgres.link"), "Link", partial(UnreliableDatabase, fault=fault))
    if request.param != "postgres":
        valkey = request.getfixturevalue("valkey").terms()
    if request.param != "valkey":
        postgres = make_terms(await request.getfixturevalue("postgres").create_used())
    shared = SharedPlace(valkey, postgres)
    yield shared
    await shared.close()


@pytest.fixture
async def responses(place):
    """Hands out stores that were opened before, each as if by another router."""
    stores = [await place.open() for _ in range(2)]

    def take():
        return stores.pop()

    take.kind, take.break_file = SimpleNamespace(survives=False), lambda: None
    return take


@pytest.fixture
async def lasting_responses(responses):
    return responses


async def test_a_response_of_one_router_is_found_at_another_once_it_is_written(place):
    one, other = await place.open(), await place.open()
    kept = make_response(item_ids=["msg_a"])

    await one.keep(kept, for_long=True)

    assert (await other.find("resp_1", ANN)).raw == kept.raw
    assert (await other.find_holder(["msg_a"], ANN)).id == "resp_1"
    assert await other.find("resp_1", BOB) is None
    assert await other.is_denied("resp_1", BOB)
    assert not await other.is_denied("resp_1", ANN)


async def test_a_response_that_was_deleted_at_one_router_is_served_by_none_and_goes_to_no_target(place):
    one, other = await place.open(), await place.open()
    await one.keep(make_response(item_ids=["msg_a"]), for_long=True)

    assert await other.forget("resp_1", ANN)

    for store in (one, other):
        assert await store.find("resp_1", ANN) is None
        assert await store.find_holder(["msg_a"], ANN) is None
        assert await store.is_denied("resp_1", ANN)
        assert not await store.forget("resp_1", ANN)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("fault", DATABASE_FAULTS)
async def test_over_an_unreliable_link_a_response_is_found_at_each_router_until_it_is_deleted(
    postgres, monkeypatch, fault, seed
):
    monkeypatch.setattr("router.stores.postgres.link.Link", partial(UnreliableDatabase, fault=fault, seed=seed))
    monkeypatch.setattr("router.stores.outbox._RETRY_SECONDS", 0.01)
    place = SharedPlace(None, make_terms(await postgres.create_used()))
    one, other = await place.open(), await place.open()
    names = [f"resp_{number}" for number in range(6)]
    for name in names:
        with suppress(StoreUnusable):
            await one.keep(make_response(name, text=name), for_long=True)

    async def is_everywhere(name: str) -> bool:
        found = [await insist(store.find, name, ANN) for store in (one, other)]
        return all(response is not None and response.read()[0].items == [name] for response in found)

    for name in names:
        await until(partial(is_everywhere, name))
        await insist(other.forget, name, ANN)
    monkeypatch.setattr(UnreliableDatabase, "is_calm", True)
    for store in (one, other, await place.open()):
        assert [await store.find(name, ANN) for name in names] == [None] * 6
        assert all([await store.is_denied(name, ANN) for name in names])
    await place.close()
