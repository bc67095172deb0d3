"""What is opened for routers that share something, and what is said where that cannot be."""

import re
import sys
from types import SimpleNamespace

import pytest

from router import stores
from router.contract.extras import how_to_install
from router.contract.notices import Notice, Trouble
from router.contract.secret import Secret
from router.contract.shared import SharedTerms, ValkeyTerms
from router.contract.stores import SharedUnusable
from router.stores.shared import Shared, find_troubles, open_shared
from router.stores.valkey.link import Refusals
from router.stores.valkey.wire import Refused


def test_a_router_that_shares_nothing_opens_nothing():
    assert open_shared(None) is None


def test_a_missing_package_is_named_with_the_command_that_installs_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "hiredis", None)
    monkeypatch.setattr(stores, "valkey", None, raising=False)  # the import below sets another, which later tests must not get
    for name in [name for name in sys.modules if name.startswith("router.stores.valkey")]:
        monkeypatch.delitem(sys.modules, name)

    with pytest.raises(SharedUnusable, match=rf"not installed: hiredis\n  hint: {re.escape(how_to_install('shared'))}$"):
        open_shared(SharedTerms("one", ValkeyTerms(Secret("redis://h"))))


async def test_a_server_that_refuses_is_named_by_its_setting(valkey):
    shared = Shared(SharedTerms("one", valkey.terms(url=valkey.url("locked", "wrong"))))

    with pytest.raises(SharedUnusable, match=r"shared\.valkey: the server refused the user name or the password"):
        await shared.connect()
    await shared.close()


def test_a_router_that_shares_no_server_has_no_such_trouble():
    assert find_troubles(Shared(SharedTerms("one")), 1_000.0) == []


@pytest.mark.parametrize(("waiting_since", "is_told"), [(None, False), (995.0, False), (980.0, True)])
def test_rows_of_the_ledger_that_wait_for_ten_seconds_to_be_copied_are_a_notice(waiting_since, is_told):
    shared = Shared(SharedTerms("one"))
    shared.forwarder = SimpleNamespace(waiting_since=waiting_since)

    found = find_troubles(shared, 1_000.0)

    assert [(notice.kind, notice.subject, notice.since) for notice in found] == (
        [(Trouble.STORE_AWAY, "postgres", 980.0)] if is_told else []
    )


async def test_a_server_that_is_away_is_a_notice_since_it_was_lost_until_it_is_back(valkey):
    shared = Shared(SharedTerms("one", valkey.terms()))
    await shared.connect()
    assert find_troubles(shared, 1_000.0) == []

    shared.link.lost_at = 50.0

    assert find_troubles(shared, 1_000.0, lambda: 60.0) == [
        Notice(
            Trouble.STORE_AWAY,
            "valkey",
            990.0,
            "the shared Valkey server is away: this router serves by what it knows itself, and limits are its own share",
            "tandem check --live",
        )
    ]
    await shared.close()


async def test_a_server_that_refuses_commands_is_a_notice_since_the_first_of_them(valkey):
    shared = Shared(SharedTerms("one", valkey.terms()))
    await shared.connect()
    shared.link.refusals = Refusals(lambda: 50.0)

    shared.link.refusals.note(Refused("OOM"))

    assert [
        (notice.kind, notice.subject, notice.since, notice.text) for notice in find_troubles(shared, 1_000.0, lambda: 60.0)
    ] == [
        (
            Trouble.STORE_AWAY,
            "valkey",
            990.0,
            "the shared Valkey server refuses commands (OOM: its memory is full): what it refuses is known to this router alone",
        )
    ]
    await shared.close()
