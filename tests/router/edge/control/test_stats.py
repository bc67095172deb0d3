"""The live picture."""

from msgspec.structs import replace

from router.contract.facts import LimitsTold, Read
from router.contract.target import LimitWindow, Quota
from router.dispatch.live.statistics import LiveStatistics
from router.edge.control.stats import draw
from tests.tools.edge import FakePlan
from tests.tools.exchanges import make_exchange
from tests.tools.http import call
from tests.tools.values import ask, make_target


async def test_the_live_picture_has_every_target(road, port):
    reply = await call(port, "/tandem/stats")

    assert reply.status == 200
    assert set(reply.json["targets"]) == set(road.plan.targets)
    assert all(target["wait_seconds"] == 0.0 for target in reply.json["targets"].values())


async def test_quotas_are_shown_with_what_is_used_and_how_many_wait(road, port):
    assert (await call(port, "/tandem/stats")).json["quotas"] == {}
    road.plan = FakePlan(targets={"spark": make_target(quota=Quota(requests_per_minute=60))})

    shown = await call(port, "/tandem/stats")

    assert shown.json["quotas"]["spark"]["requests_per_minute"] == {"used": 0, "limit": 60}
    assert shown.json["quotas"]["spark"]["waiting"] == 0


async def test_a_caller_sees_its_own_use_and_the_state_of_targets_and_nothing_of_others(road, port, callers):
    shown = (await call(port, "/tandem/stats", headers=callers["ada"])).json

    assert shown["caller"] == "ada"
    assert shown["rights"] == {"tiers": ["deep", "fast"], "may_force": ["fast"], "admin": False} | dict.fromkeys(
        ("may_delegate", "may_combine"), True
    )
    assert shown["limits"] == {"requests_per_minute": {"used": 0, "limit": 9, "left": 9}}
    assert shown["budget"] == {"day": {"spent_usd": 1.5, "of": "ada"}}
    assert set(shown) == {"caller", "rights", "in_flight", "limits", "budget", "targets", "jobs", "savings"}
    assert set(shown["targets"]) == set(road.plan.targets)
    assert not {"in_flight", "limits", "callers_with_limits"} & set(shown["targets"]["spark"])


async def test_an_admin_sees_the_use_of_every_caller(port, callers):
    shown = (await call(port, "/tandem/stats", headers=callers["boss"])).json

    assert set(shown) == {"targets", "quotas", "callers", "jobs", "savings", "chain"}
    assert set(shown["callers"]) == {"ada", "boss"}
    assert shown["callers"]["ada"]["limits"] == {"requests_per_minute": {"used": 0, "limit": 9, "left": 9}}
    assert shown["targets"]["spark"]["in_flight"] == 0


async def test_where_keys_are_needed_nobody_sees_figures_without_one(port, callers):
    assert (await call(port, "/tandem/stats")).status == 401


SPARK = make_target(quota=Quota(max_wait_seconds=2.0))


def test_a_target_that_nobody_called_is_as_typical():
    (found,) = draw(LiveStatistics(), {"spark": SPARK}, 0.0).values()

    assert (found["tier"], found["in_flight"], found["wait_seconds"], found["wait_because"]) == ("fast", 0, 0.0, None)
    assert (found["ttft_seconds"], found["tokens_per_second"], found["limits"]) == (0.2, 1000, [])


def test_a_queue_is_shown_with_what_it_is_held_against():
    live = LiveStatistics()
    live.statuses({"spark": SPARK}, 0.0)
    live._live["spark"].queue.lateness.begin_late(8.0, 0.0, 8.2)

    found = draw(live, {"spark": SPARK}, 8.2)["spark"]

    assert (found["wait_seconds"], found["wait_because"], found["max_wait_seconds"]) == (8.0, "a queue", 2.0)
    assert (found["is_over_max_wait"], found["left_alone_seconds"]) == (True, 0.0)


def test_limits_are_shown_until_they_are_whole_again_and_those_of_callers_keys_only_counted():
    live, own = LiveStatistics(), replace(SPARK, name="owl", takes_callers_key=True)
    targets = {"spark": SPARK, "owl": own}
    for target in targets.values():
        exchange = make_exchange()
        exchange.note(Read(ask(headers={"authorization": "Bearer sk-canary"})))
        windows = (LimitWindow(-3, 40.0, True, 60_000, 0.0), LimitWindow(5, 9.0, False))
        live.limits.note(exchange, LimitsTold(target, windows))

    found = draw(live, targets, 10.0)

    assert found["spark"]["limits"] == [{"of": "prompt tokens", "left": 0.0, "limit": 60_000, "resets_in_seconds": 30.0}]
    assert (found["owl"]["limits"], found["owl"]["callers_with_limits"]) == ([], 1)
    assert "canary" not in repr(found)


def test_where_each_figure_comes_from_is_shown():
    live = LiveStatistics()
    live.statuses({"spark": SPARK}, 0.0)
    pace, config = live._live["spark"].pace, {"ttft_seconds": "config", "prefill_tokens_per_second": "config"}

    assert draw(live, {"spark": SPARK}, 0.0)["spark"]["figures_from"] == {**config, "tokens_per_second": "config"}
    pace.add_speed(40.0, 1.0, is_counted=True)
    assert draw(live, {"spark": SPARK}, 2.0)["spark"]["figures_from"] == {**config, "tokens_per_second": "estimated"}
    pace.add_speed(640.0, 3.0, is_counted=False)

    found = draw(live, {"spark": SPARK}, 4.0)["spark"]
    assert found["figures_from"] == {**config, "tokens_per_second": "learned"}
    assert found["tokens_per_second"] == 640


def test_how_many_calls_a_target_serves_at_once_is_shown_as_configured():
    live, targets = LiveStatistics(), {"spark": make_target(), "owl": make_target("owl", quota=Quota(in_flight=2))}

    assert [found["serves_at_once"] for found in draw(live, targets, 0.0).values()] == [None, 2]
