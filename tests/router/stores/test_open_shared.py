"""What is opened for routers that share something, and what is said where that cannot be."""

import sys

import pytest

from router.contract.secret import Secret
from router.contract.shared import SharedTerms, ValkeyTerms
from router.contract.stores import SharedUnusable
from router.stores.open_shared import Shared, open_shared


def test_a_router_that_shares_nothing_opens_nothing():
    assert open_shared(None) is None


def test_a_missing_package_is_named_with_the_command_that_installs_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "hiredis", None)
    for name in [name for name in sys.modules if name.startswith("router.stores.valkey")]:
        monkeypatch.delitem(sys.modules, name)

    with pytest.raises(SharedUnusable, match=r"not installed: hiredis\n  hint: pip install 'tandem-router\[shared\]'"):
        open_shared(SharedTerms("one", ValkeyTerms(Secret("redis://h"))))


async def test_a_server_that_refuses_is_named_by_its_setting(valkey):
    shared = Shared(SharedTerms("one", valkey.terms(url=valkey.url("locked", "wrong"))))

    with pytest.raises(SharedUnusable, match=r"shared\.valkey: the server refused the user name or the password"):
        await shared.connect()
    await shared.close()
