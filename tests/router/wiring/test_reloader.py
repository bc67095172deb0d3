"""Reloads: whole or not at all, one at a time."""

import asyncio
import gc
import threading
import weakref

import pytest

from router.config.faults import ConfigError, Fault
from tests.conftest import SIMULATED
from tests.tools.http import call, chat
from tests.tools.waiting import later, until

FAULTY = SIMULATED.replace("adapter: simulated", "adapter: simulatd").replace("window_tokens", "window_tokns")


@pytest.fixture
async def tandem(start, tmp_path):
    (tmp_path / "config.yaml").write_text(SIMULATED)
    return await start(SIMULATED)


@pytest.fixture
def write(tmp_path):
    return (tmp_path / "config.yaml").write_text


async def test_a_config_is_taken_and_said_what_changed(tandem, write, listen):
    heard = listen()
    write(SIMULATED.replace("window_tokens: 400000", "window_tokens: 200000") + "server: {port: 4001}\n")
    before = tandem.house.plan.rules.config_fingerprint

    done = await tandem.built.reloader.reload()

    assert done.changes.applied == ("tiers.deep (simulated-deep)",)
    assert done.changes.needs_restart == ("server.port",)
    assert tandem.house.plan.targets["simulated-deep"].window_tokens == 200_000
    assert (done.before, done.after) == (before, tandem.house.plan.rules.config_fingerprint)
    (event,) = heard()
    assert (event["event"], event["changed"]) == ("config.reloaded", list(done.changes.applied))


async def test_what_else_follows_a_config_does_so_when_its_plan_is_in_use(tandem, write):
    seen, reloader = [], tandem.built.reloader
    reloader.applies.insert(0, lambda loaded: seen.append((tandem.house.plan.rules.config_fingerprint, reloader.loaded)))
    write(SIMULATED.replace("window_tokens: 400000", "window_tokens: 200000"))

    done = await reloader.reload()

    assert seen == [(done.after, reloader.loaded)]


async def test_a_faulty_config_changes_nothing_and_every_fault_is_said(tandem, write, listen):
    heard, plan = listen(), tandem.house.plan
    write(FAULTY)

    with pytest.raises(ConfigError) as refused:
        await tandem.built.reloader.reload()

    assert len(refused.value.faults) == 3
    assert tandem.house.plan is plan
    (event,) = heard()
    assert (event["event"], len(event["faults"])) == ("config.kept", 3)
    assert (await call(tandem.port, "/v1/chat/completions", chat())).status == 200


async def test_a_check_that_fails_changes_nothing(tandem):
    def refuse(_):
        raise ConfigError("test", [Fault("server.tls", "no certificate")])

    plan = tandem.house.plan
    tandem.built.reloader.checks.append(refuse)

    with pytest.raises(ConfigError):
        await tandem.built.reloader.reload()

    assert tandem.house.plan is plan


async def test_reloads_run_one_at_a_time_and_those_who_wait_share_one(tandem):
    reloader, gate, loads, at_once = tandem.built.reloader, threading.Event(), [], []
    load = reloader.load

    def load_slowly():
        loads.append(len(at_once))
        at_once.append(1)
        gate.wait(20)
        at_once.pop()
        return load()

    reloader.load = load_slowly
    tasks = [later(reloader.reload())]
    await until(lambda: loads)
    tasks += [later(reloader.reload()) for _ in range(5)]
    await asyncio.sleep(0)
    gate.set()
    await asyncio.gather(*tasks)

    assert loads == [0, 0]


async def test_a_caller_who_leaves_does_not_stop_a_reload(tandem, write):
    gate, load = threading.Event(), tandem.built.reloader.load
    tandem.built.reloader.load = lambda: gate.wait(20) and load()
    write(SIMULATED.replace("window_tokens: 400000", "window_tokens: 200000"))
    asking = later(tandem.built.reloader.reload())
    await asyncio.sleep(0)
    asking.cancel()
    gate.set()

    await until(lambda: tandem.house.plan.targets["simulated-deep"].window_tokens == 200_000)
    assert asking.cancelled()


async def test_old_plans_are_freed_while_connections_and_pages_live_on(tandem, write):
    _, writer = await asyncio.open_connection("127.0.0.1", tandem.port)
    await call(tandem.port, "/v1/models")
    await call(tandem.port, "/v1/chat/completions", chat())
    plans = []
    for number in range(3):
        plans.append(weakref.ref(tandem.house.plan.dispatcher))  # each plan has its own
        write(SIMULATED.replace("window_tokens: 400000", f"window_tokens: {300_000 + number}"))
        await tandem.built.reloader.reload()

    gc.collect()

    assert [plan() for plan in plans] == [None, None, None]
    writer.close()


async def test_the_keys_in_use_stay_where_the_config_has_none_any_more(start, tmp_path):
    key_file = tmp_path / "keys.yaml"
    key_file.write_text("callers: {}\n")
    key_file.chmod(0o600)
    tandem = await start(f"keys: {{file: keys.yaml}}\n{SIMULATED}")
    (tmp_path / "config.yaml").write_text(SIMULATED)

    done = await tandem.built.reloader.reload()

    assert done.changes.needs_restart == ("keys",)
    assert (await call(tandem.port, "/v1/chat/completions", chat())).status == 401


async def test_a_reload_switches_links_of_the_chain_and_keeps_what_those_that_stay_on_have_counted(tandem, write):
    async def switch(more: str) -> tuple[dict[str, bool], float, int]:
        """Take a config, and serve a request. Returns the chain, the requests counted, and the rows of the page."""
        write(SIMULATED + more)
        await tandem.built.reloader.reload()
        await call(tandem.port, "/v1/chat/completions", chat())
        chain = (await call(tandem.port, "/tandem/stats")).json["chain"]
        state = tandem.house.state
        state.entries.write()
        counted = sum(state.metrics.counts()["tandem_requests_total"].values())
        return {link["name"]: link["on"] for link in chain}, counted, len(state.ring.rows)

    on = "metrics: {on: true}\n"
    first, again, off, anew = [await switch(more) for more in (on, on, "page: off\nmetrics: {on: false}\n", on)]

    always = ["sessions", "targets", "superseding", "responses", "records", "log"]
    assert list(first[0]) == [*always, "traces", "metrics", "page", "jobs", "alerts"]
    assert [name for name, is_on in first[0].items() if not is_on] == ["traces", "alerts"]
    assert [name for name, is_on in off[0].items() if not is_on] == ["traces", "metrics", "page", "alerts"]
    assert [taken[1:] for taken in (first, again, off, anew)] == [(1, 1), (2, 2), (0, 0), (1, 1)]
