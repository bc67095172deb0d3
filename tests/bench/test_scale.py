"""The simulated routers behave as real ones on a small case, and the page is filled in from figures."""

import asyncio

import pytest

pytest.importorskip("hiredis")

from router.contract.allowance import Use
from router.contract.job import JobTerms
from router.contract.shared import OnStoreOutage
from router.jobs.endings import LEASE_SECONDS
from router.stores.sqlite.jobs import MemoryJobs
from router.stores.valkey.allowance import ValkeyAllowance
from router.stores.valkey.link import Link
from tests.bench.scale_tables import PAGE, fill
from tests.bench.simulated import Load, Network, SimulatedLink, SimulatedLoop, report_targets, share_limits
from tests.bench.simulated_jobs import take_over
from tests.tools.jobs import make_job
from tests.tools.waiting import until

LIMIT = 60


class Member:
    """A router with a part of a limit, of which it uses what it is told to."""

    def __init__(self, link: Link) -> None:
        self.link, self.used = link, 0
        self.allowance = ValkeyAllowance(link, OnStoreOutage.SHARE, "router")

    async def start(self) -> None:
        await self.link.open()
        self.part = self.allowance.part(("caller", "ann"), LIMIT, lambda: Use(self.used), lambda: None)
        await until(lambda: not self.allowance.is_blind)

    async def take(self, units: int) -> None:
        """Use this many more, or all that can be had within four questions."""
        for _ in range(4):
            self.used += (taken := min(units, self.part.allowed - self.used))
            units -= taken
            if not units:
                return
            self.part.ask(1, units - 1)
            await self.part.answered()

    async def wait_for(self, units: int) -> None:
        """Ask until this much is held, as a request that waits does."""

        def has_enough() -> bool:
            self.part.ask(units - self.part.held)
            return self.part.held >= units

        await until(has_enough)


async def share_one_limit(make_link) -> list[tuple[int, int]]:
    """What two routers hold of a limit, step by step: one takes two thirds, the other the rest; then the first uses less."""
    one, other = Member(make_link()), Member(make_link())
    held = []
    for member in (one, other):
        await member.start()
    await asyncio.sleep(2.0)  # a new server grants nothing at first
    await one.take(40)
    held.append((one.part.held, other.part.held))
    await other.take(40)
    held.append((one.part.held, other.part.held))
    one.used = 10
    await other.wait_for(45)
    held.append((one.part.held, other.part.held))
    for member in (one, other):
        await member.allowance.close()
        await member.link.close()
    return held


async def test_two_simulated_routers_share_a_limit_step_by_step_as_two_real_ones_do(valkey):
    terms = valkey.terms()
    real = await share_one_limit(lambda: Link(terms))

    def simulate() -> list[tuple[int, int]]:
        network = Network(valkey)
        with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
            held = runner.run(share_one_limit(lambda: SimulatedLink(network)))
        network.close()
        return held

    simulated = await asyncio.to_thread(simulate)

    assert simulated == real
    assert real[1] == (40, 20)
    assert real[2][1] >= 45
    assert sum(real[2]) <= LIMIT


def test_a_simulation_keeps_to_the_limit_and_repeats_itself_by_its_seed(valkey):
    loads = (Load(60, 2.0), Load(60, 0.5))

    first, again, other = (share_limits(valkey, 3, loads, deaths=1, seed=seed) for seed in (1, 1, 2))

    assert (first.served, first.asks) == (again.served, again.asks) != (other.served, other.asks)
    assert first.served[0].most_of_limit == 1.0
    assert 0.2 < first.served[0].lost_after_deaths < 0.5  # a third of the limit is nobody's
    assert first.served[1].lost == 0.0


def test_a_simulated_router_hears_of_a_closed_target_within_a_tick(valkey):
    pulses = report_targets(valkey, 3)

    assert 0.0 < pulses.median_seconds < pulses.last_seconds < 0.6
    assert pulses.median_seconds == report_targets(valkey, 3).median_seconds


async def test_a_simulated_take_over_waits_for_the_lease_that_the_real_store_keeps():
    now = 1_800_000_000.0
    store, terms = MemoryJobs(keep_seconds=3_600.0, clock=lambda: now), JobTerms()
    await store.add(make_job(), terms)
    await store.claim("one", LEASE_SECONDS, terms)
    now += LEASE_SECONDS - 0.1
    assert await store.claim("other", LEASE_SECONDS, terms) is None
    now += 0.2
    assert (await store.claim("other", LEASE_SECONDS, terms)).is_unrecorded
    await store.close()

    found = await asyncio.to_thread(take_over, 4)

    assert found == await asyncio.to_thread(take_over, 4)
    assert 10.0 <= found.median_seconds <= found.last_seconds <= LEASE_SECONDS + 6.0


def test_the_page_has_a_place_for_every_table():
    served = {"most_of_limit": 1.0, "lost": 0.01, "lost_after_deaths": 0.1, "lost_later": 0.0}
    store = {"trips": 2.0, "bytes": 900.0, "cpu_us": 100.0, "idle": {"trips": 5.0, "bytes": 600.0, "cpu_us": 900.0}}
    of_stores = {"valkey": store, "postgres": store}
    figures = {
        "core": {name: {"alone": 500.0, "shared": 700.0} for name in ("small", "fresh", "agent", "piece")},
        "stores": {"plain": of_stores, "agent": of_stores, "keyed": of_stores},
        "limits": {"2": {"served": [served], "asks": 0.1, "idle_share": 0.001, "busy_share": 0.01}},
        "pulses": {"2": {"median_seconds": 0.2, "last_seconds": 0.5, "cpu_share": 0.001, "kb_a_second": 2.0}},
        "jobs": {"2": {"median_seconds": 15.0, "last_seconds": 16.0, "claims": 13.0, "idle_claims": 0.4}},
        "day": {"calls": 10.0, "body_bytes": 80_000.0},
    }

    page = fill(PAGE.read_text(), figures)

    assert "40 turns with 10.0 calls each: 400 calls of 20,000 prompt tokens" in page
    assert "| 100,000 | 2,222 | 18,519 |" in page
    assert fill(page, figures) == page
