"""Sessions that change routers with every request, in short: see `wandering`."""

import contextlib

import pytest

pytest.importorskip("hiredis")

from tests.faults.wandering import CONFIG, SECRET, SHARED, Trial, hosts_of, routers_here
from tests.tools.waiting import until

SESSIONS, STEPS = 8, 6


@pytest.fixture
async def walking(tmp_path, monkeypatch):
    async with contextlib.AsyncExitStack() as stack:

        async def begin(server, count: int, timeout_ms: int = 250) -> Trial:
            monkeypatch.setenv("TANDEM_VALKEY_URL", server.url())
            monkeypatch.setenv("TANDEM_SHARED_SECRET", SECRET)
            addresses = await stack.enter_async_context(hosts_of(trial := Trial()))
            config = CONFIG.format(*addresses) + SHARED.format(timeout_ms=timeout_ms)
            trial.routers = await stack.enter_async_context(routers_here(count, tmp_path, config))
            return trial

        yield begin


def link_of(router):
    return router.house.state.shared.link


async def test_sessions_that_wander_between_routers_go_on_as_if_there_were_one(valkey, walking, patient_answers):
    trial = await walking(valkey, 3, timeout_ms=10_000)

    await trial.run(trial.routers, SESSIONS, STEPS)

    assert trial.faults == []
    assert trial.requests > SESSIONS * STEPS
    assert not any(link_of(router).blind for router in trial.routers)


async def test_requests_are_served_while_the_store_hangs_and_sessions_go_on_when_it_is_back(own_valkey, walking):
    trial = await walking(own_valkey, 1)
    await trial.run(trial.routers, 2, STEPS)
    own_valkey.pause()
    await trial.run(trial.routers, 4, STEPS)
    own_valkey.resume()
    await until(lambda: link_of(trial.routers[0]).is_up)
    await trial.run(trial.routers, 2, STEPS)

    assert trial.faults == [], "a router that is alone knows its sessions itself"
    assert link_of(trial.routers[0]).blind["sessions"] > 0
