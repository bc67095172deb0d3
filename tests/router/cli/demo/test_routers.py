import asyncio
import socket

import pytest

from router.cli.demo.afternoon import write_config
from router.cli.demo.routers import CannotStart, run_routers
from tests.tools.http import call, chat
from tests.tools.running import read_entries


def port_of(router) -> int:
    return int(router.url.rsplit(":", 1)[1])


async def test_each_router_has_its_own_port_and_ledger_and_is_gone_afterwards(tmp_path):
    async with run_routers(tmp_path, write_config(10.0), ("one", "other")) as routers:
        await call(port_of(routers["one"]), "/v1/chat/completions", chat())

    assert len(read_entries(routers["one"].ledger)) == 1
    assert read_entries(routers["other"].ledger) == []
    for router in routers.values():
        with pytest.raises(ConnectionRefusedError):
            await asyncio.to_thread(socket.create_connection, ("127.0.0.1", port_of(router)))


async def test_a_router_that_does_not_start_is_said_with_its_own_words(tmp_path):
    with pytest.raises(CannotStart, match="(?s)did not start.*tiers: must be a block"):
        async with run_routers(tmp_path, "tiers: 7", ("one",)):
            pass
