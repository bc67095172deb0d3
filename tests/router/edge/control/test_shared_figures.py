"""What `/metrics` says of the server that routers share."""

from types import SimpleNamespace

import pytest

pytest.importorskip("hiredis")

from router.contract.shared import SharedTerms
from router.contract.stores import StoreUnusable
from router.edge.control.shared_figures import read_shared
from router.stores.shared import Shared


def test_the_lag_of_the_ledgers_copy_is_there_where_it_is_copied():
    shared = Shared(SharedTerms("one"))
    shared.forwarder = SimpleNamespace(lag_seconds=2.5)

    assert read_shared(shared) == {"tandem_ledger_lag_seconds": {(): 2.5}}


def test_a_router_that_shares_no_server_has_no_figures_of_one():
    assert read_shared(Shared(SharedTerms("one"))) == {}


async def test_trips_and_what_was_done_without_the_server_are_counted(valkey):
    shared = Shared(SharedTerms("one", valkey.terms()))
    await shared.connect()
    trips = shared.link.trips

    await shared.link.ask("PING")
    shared.link.blind["session"] += 2
    found = read_shared(shared)

    assert found["tandem_store_up"] == {("valkey",): 1}
    assert found["tandem_store_trips_total"][("valkey",)] > trips
    assert found["tandem_store_blind_total"] == {("session",): 2}
    assert found["tandem_routers"] == {(): 1}
    await shared.close()
    assert read_shared(shared)["tandem_store_up"] == {("valkey",): 0}


async def test_a_server_that_refuses_a_command_is_not_up(own_valkey):
    shared = Shared(SharedTerms("one", own_valkey.terms()))
    await shared.connect()
    own_valkey.send("CONFIG", "SET", "maxmemory", "1")

    with pytest.raises(StoreUnusable):
        await shared.link.ask("SET", "a", "b")

    assert read_shared(shared)["tandem_store_up"] == {("valkey",): 0}
    await shared.close()
