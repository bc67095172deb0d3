"""What an operator sees of the targets."""

from dataclasses import replace

from router.contract.facts import LimitsTold, Read
from router.contract.target import LimitWindow, Quota
from router.dispatch.live.picture import draw
from router.dispatch.live.statistics import LiveStatistics
from tests.tools.exchanges import make_exchange
from tests.tools.values import ask, make_target

SPARK = make_target(quota=Quota(max_wait_seconds=2.0))


def test_a_target_that_nobody_called_is_as_typical():
    (found,) = draw(LiveStatistics(), {"spark": SPARK}, 0.0).values()

    assert (found["tier"], found["in_flight"], found["wait_seconds"], found["wait_because"]) == ("fast", 0, 0.0, None)
    assert (found["ttft_seconds"], found["tokens_per_second"], found["limits"]) == (0.2, 1000, [])


def test_a_queue_is_shown_with_what_it_is_held_against():
    live = LiveStatistics()
    live.statuses({"spark": SPARK}, 0.0)
    live._live["spark"].lateness.begin_late(8.0, 0.0, 8.2)

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
    spark, config = live._live["spark"], {"ttft_seconds": "config", "prefill_tokens_per_second": "config"}

    assert draw(live, {"spark": SPARK}, 0.0)["spark"]["figures_from"] == {**config, "tokens_per_second": "config"}
    spark.add_speed(40.0, 1.0, is_counted=True)
    assert draw(live, {"spark": SPARK}, 2.0)["spark"]["figures_from"] == {**config, "tokens_per_second": "estimated"}
    spark.add_speed(640.0, 3.0, is_counted=False)

    found = draw(live, {"spark": SPARK}, 4.0)["spark"]
    assert found["figures_from"] == {**config, "tokens_per_second": "learned"}
    assert found["tokens_per_second"] == 640


def test_how_many_calls_a_target_serves_at_once_is_shown_as_learned_or_as_configured():
    live, targets = LiveStatistics(), {"spark": make_target(), "owl": make_target("owl", quota=Quota(in_flight=2))}
    live.statuses(targets, 0.0)
    assert [found["serves_at_once"] for found in draw(live, targets, 0.0).values()] == [None, 2]

    live._live["spark"].slots.count = 1

    assert draw(live, targets, 0.1)["spark"]["serves_at_once"] == 1
