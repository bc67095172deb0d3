"""The page for Prometheus: who may read it, and the state that it shows."""

from types import SimpleNamespace

import pytest

from router.contract.caller import LOCAL, Caller, SessionKey
from router.contract.exchange import Part
from router.contract.keys import KeyRing, digest_of
from router.contract.rights import Rights
from router.contract.shared import SharedTerms
from router.contract.stores import StoreUnusable
from router.contract.target import LimitWindow, Quota
from router.contract.words import AccountFault, Tier
from router.edge.control.metrics import Figures, measure_lag, read_shared, read_state
from router.edge.control.panel import Asked
from router.edge.control.savings import Looks
from router.stores.shared import Shared
from tests.tools.edge import FakePlan, FakeRoad, running_edge
from tests.tools.http import call
from tests.tools.values import ask, make_target


def counting(road: FakeRoad) -> FakeRoad:
    road.state.observers.switch(Part.METRICS, on=True)
    road.state.metrics.follow(["spark", "sage"], callers=False)
    return road


@pytest.fixture
def keyed(road, callers):
    """A router with an admin, another caller and a key for the metrics. What each of them sends."""
    road.plan.metrics_key = digest_of("s3cret")
    return {**callers, "scraper": {"authorization": "Bearer s3cret"}, "wrong": {"authorization": "Bearer s3cre"}, "nobody": {}}


@pytest.mark.parametrize(("who", "status"), [("boss", 200), ("scraper", 200), ("ada", 403), ("wrong", 401), ("nobody", 401)])
async def test_with_keys_an_admin_and_the_key_of_the_metrics_open_them(road, keyed, who, status):
    async with running_edge(counting(road)) as (port, _):
        reply = await call(port, "/metrics", headers=keyed[who])

    assert reply.status == status
    assert (b"tandem_in_flight_requests" in reply.body) is (status == 200)
    assert b"s3cret" not in reply.body


async def test_the_key_of_the_metrics_opens_no_other_page(road, keyed):
    async with running_edge(counting(road)) as (port, _):
        replies = [await call(port, path, headers=keyed["scraper"]) for path in ("/tandem/stats", "/v1/models")]

    assert [reply.status for reply in replies] == [401, 401]


async def test_without_keys_every_program_of_this_machine_may_read_them_and_no_web_page(road):
    async with running_edge(counting(road)) as (port, _):
        own = await call(port, "/metrics")
        others = [
            await call(port, "/metrics", headers=headers)
            for headers in ({"origin": "https://evil.example"}, {"sec-fetch-site": "cross-site"})
        ]

    assert own.status == 200
    assert own.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert [reply.status for reply in others] == [403, 403]


async def test_metrics_that_are_off_are_not_found_and_the_answer_says_how_to_turn_them_on(road):
    async with running_edge(road) as (port, _):
        reply = await call(port, "/metrics")

    assert reply.status == 404
    assert "metrics: {on: true}" in reply.json["error"]["message"]


class Rows:
    """A ledger's writer."""

    waiting_rows, lost = 7, 2


class FakeBudgets:
    """Budgets of which callers have spent a part."""

    def used_part(self, caller):
        return {"ada": 0.25, "bob": 0.75}[caller]


async def test_the_state_of_targets_is_labelled_by_tier_and_target():
    road = FakeRoad()
    quota = Quota(requests_per_minute=2, in_flight=1, max_wait_seconds=5.0)
    targets = {"spark": make_target(quota=quota), "sage": make_target("sage", Tier.DEEP)}
    road.plan = FakePlan(targets=targets)
    live = road.state.live
    windows = [(900.0, 60.0, True), (500.0, 9.0, True), (3.0, 60.0, False), (1.0, -1.0, False)]
    live.limits.told["sage", 0] = tuple(LimitWindow(left, resets_at, of_prompt) for left, resets_at, of_prompt in windows)
    live.limits.told["sage", 42] = (LimitWindow(1.0, 60.0, True),)
    live.of(targets["sage"]).circuit.fail(0.0, fault=AccountFault.KEY)

    queue = live.queues.queue_of(targets["spark"], ask())
    waiters = [queue.hold(SessionKey(LOCAL, "s"), 100) for _ in range(2)]

    state = read_state(road)

    fast, deep = ("fast", "spark"), ("deep", "sage")
    assert [waiter.permit is not None for waiter in waiters] == [True, False]
    assert state["tandem_queue_length"] == {fast: 1, deep: 0}
    assert state["tandem_target_in_flight_requests"] == {fast: 0, deep: 0}
    assert state["tandem_queue_max_wait_seconds"] == {fast: 5.0}
    assert state["tandem_quota_left"] == {(*fast, "requests_per_minute"): 1, (*fast, "in_flight"): 0}
    assert state["tandem_limit_left"] == {(*deep, "prompt_tokens"): 500.0, (*deep, "requests_or_output_tokens"): 3.0}
    assert state["tandem_circuit_open"] == {fast: 0, deep: 1}
    assert state["tandem_queue_wait_seconds"][fast] > state["tandem_queue_wait_seconds"][deep] == 0.0


def test_the_state_of_ledger_and_budgets_is_there_where_they_are():
    road = FakeRoad()
    assert not {"tandem_ledger_queue_rows", "tandem_highest_budget_use_ratio"} & set(read_state(road))

    road.state.files, road.state.budgets = {"ledger": Rows()}, FakeBudgets()
    rights = {"ada": Rights(daily_usd=1.0), "bob": Rights(monthly_usd=1.0), "eve": Rights()}
    road.plan = FakePlan(keys=KeyRing([], rights))
    state = read_state(road)

    assert state["tandem_ledger_queue_rows"] == {(): 7}
    assert state["tandem_ledger_lost_rows_total"] == {(): 2}
    assert state["tandem_highest_budget_use_ratio"] == {(): 0.75}


async def test_lag_is_what_a_timer_is_late_by_and_never_negative():
    assert await measure_lag(iter([0.0, 0.105]).__next__) == pytest.approx(0.1)
    assert await measure_lag(iter([0.0, 0.004]).__next__) == 0.0


SAVINGS = {
    "spent": {"seconds": 90.0, "usd": 1.5},
    "all_deep": {"seconds": 102.5, "usd": 4.0},
    "saved": {"seconds": 12.5, "usd": 2.5},
    "redone": {"seconds": 4.0, "usd": 0.25, "turns": 3},
}


@pytest.mark.parametrize("has_prices", [True, False])
async def test_savings_since_the_start_are_served_without_money_where_no_price_is_known(has_prices):
    asked = []
    found = SAVINGS if has_prices else {name: {**of, "usd": None} for name, of in SAVINGS.items()}

    def look(since, caller):
        asked.append((since, caller))
        return found

    road = counting(FakeRoad())
    answer = await Figures(road, Looks(look)).pages[0].answer(Asked("req_test", Caller("local"), {}, {}, {}, None))

    lines = answer.body.decode().splitlines()
    assert 'tandem_savings_seconds{of="saved"} 12.5' in lines
    assert 'tandem_savings_seconds{of="all_deep"} 102.5' in lines
    assert "tandem_redone_turns 3.0" in lines
    assert ('tandem_savings_usd{of="saved"} 2.5' in lines) is has_prices
    assert asked == [(road.state.metrics.began_at, None)]


async def test_savings_that_cannot_be_read_are_absent():
    def look(since, caller):
        raise StoreUnusable("locked")

    figures = Figures(counting(FakeRoad()), Looks(look))
    answer = await figures.pages[0].answer(Asked("req_test", Caller("local"), {}, {}, {}, None))

    assert "tandem_savings_seconds{" not in answer.body.decode()


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
