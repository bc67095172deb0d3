"""One look at the server."""

import asyncio

import pytest

pytest.importorskip("hiredis")

from router.contract.stores import StoreUnusable
from router.stores.valkey.look import look_at_valkey


async def test_a_look_names_the_server_and_counts_the_routers_that_were_there_lately(valkey):
    terms = valkey.terms()
    seconds = int(valkey.send("TIME").split(b"\r\n")[2])
    valkey.send("ZADD", f"{terms.prefix}:x", str(seconds), "one", str(seconds), "two", str(seconds - 60), "gone")

    look = await asyncio.to_thread(look_at_valkey, terms)

    assert look.version.startswith(("redis ", "valkey "))
    assert look.latency_ms > 0
    assert int(look.clock_ahead_seconds) == 0
    assert look.routers == 2


@pytest.mark.parametrize(
    ("url", "problem"),
    [("unix:///nowhere/at/all", "cannot be reached"), ("locked", "refused the user name or the password")],
)
async def test_a_server_that_cannot_be_used_says_why(valkey, url, problem):
    terms = valkey.terms(url=valkey.url("locked", "wrong") if url == "locked" else url)

    with pytest.raises(StoreUnusable, match=problem):
        await asyncio.to_thread(look_at_valkey, terms)


async def test_a_server_that_is_full_cannot_be_used(own_valkey):
    own_valkey.send("CONFIG", "SET", "maxmemory", "1")

    with pytest.raises(StoreUnusable, match="its memory is full"):
        await asyncio.to_thread(look_at_valkey, own_valkey.terms())
