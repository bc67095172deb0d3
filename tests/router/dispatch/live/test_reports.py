"""What several routers know of targets together: each by its own calls, and for a few seconds by those of the others."""

import pytest

from router.contract.errors import UpstreamRefused, UpstreamUnreachable
from router.contract.messages import FORGOTTEN_SECONDS, MAX_CLOSED_SECONDS, SpeedSeen, TargetReport, TargetReports
from router.contract.words import Tier
from router.dispatch.live.statistics import LiveStatistics
from router.dispatch.live.target import RESTED_WAIT_SECONDS
from tests.router.dispatch.live.test_statistics import SAGE, SPARK, TARGETS, Call
from tests.tools.allowances import Channel
from tests.tools.values import ask, make_signals, make_target


class Router:
    def __init__(self, channel, name):
        self.now = 1_000.0
        self.messages = channel.join(name)
        self.live = LiveStatistics(lambda: self.now)
        self.live.share(self.messages)
        self.live.statuses(TARGETS, self.now)

    def status(self, name="spark"):
        return self.live.statuses(TARGETS, self.now)[name]

    def call(self, target=SPARK):
        return Call(self.live, at=self.now, target=target)


@pytest.fixture
def routers():
    channel = Channel()
    return Router(channel, "a"), Router(channel, "b")


def refused(seconds):
    return UpstreamRefused(SPARK.name, 429, b"{}", "application/json", retry_after_seconds=seconds)


def later(routers, seconds):
    for router in routers:
        router.now += seconds


def test_a_time_that_a_target_named_to_one_router_holds_at_the_others(routers):
    one, other = routers

    one.call().end(one.now, error=refused(30.0))
    one.messages.beat()

    assert other.status().closed_seconds == 30.0
    assert not other.status().may_probe
    assert other.status("sage").closed_seconds == 0.0


def say_closed(router, seconds=1e7):
    router.messages.publish(TargetReports({"spark": TargetReport(closed_seconds=seconds, wait_seconds=seconds)}))


def test_anothers_word_closes_a_target_for_a_minute_at_most_however_often_it_is_repeated(routers):
    one, other = routers

    say_closed(one)
    assert other.status().closed_seconds == MAX_CLOSED_SECONDS
    assert other.status().wait_seconds == MAX_CLOSED_SECONDS
    for _ in range(15):
        later(routers, 4.0)
        say_closed(one)

    assert other.status().closed_seconds == 0.0


def test_a_target_may_be_closed_again_once_others_have_said_that_it_is_open(routers):
    one, other = routers
    say_closed(one)
    later(routers, 3_600.0)

    say_closed(one, 30.0)

    assert other.status().closed_seconds == 30.0


def test_a_limit_of_one_callers_key_is_not_reported():
    channel = Channel()
    one, target = Router(channel, "a"), make_target(takes_callers_key=True)
    one.live.statuses({"spark": target}, one.now)

    Call(one.live, at=one.now, target=target).end(one.now, error=refused(30.0))
    one.messages.beat()

    assert one.messages.told == []


def test_a_target_that_rests_at_one_router_is_waited_for_at_the_others(routers):
    one, other = routers

    for _ in range(5):
        one.call().end(one.now, error=UpstreamUnreachable("spark", "refused"))
    one.messages.beat()

    assert other.status().wait_seconds == RESTED_WAIT_SECONDS
    assert other.status().wait_because == "spark rests after 5 failures in a row at another router"


def test_a_target_that_serves_here_does_not_rest_because_another_router_cannot_reach_it(routers):
    one, other = routers
    (call := other.call()).begin(other.now)
    call.end(other.now)

    for _ in range(5):
        one.call().end(one.now, error=UpstreamUnreachable("spark", "refused"))
    one.messages.beat()

    assert not other.status().is_resting


def test_where_every_target_rests_somewhere_none_is_worth_waiting_for(routers):
    one, other = routers
    for _ in range(5):
        one.call().end(one.now, error=UpstreamUnreachable("spark", "refused"))
        other.call(SAGE).end(other.now, error=UpstreamUnreachable("sage", "refused"))

    one.messages.beat()

    assert (other.status("spark").wait_seconds, other.status("sage").wait_seconds) == (0.0, 0.0)


def test_calls_of_all_routers_count_as_in_flight_and_order_targets_alike(routers):
    one, other = routers
    calls = [one.call(), one.call(), other.call(SAGE)]
    one.messages.beat()

    assert other.status().in_flight == 2
    assert one.live.least_busy_first(["spark", "sage"]) == ["sage", "spark"]
    assert other.live.least_busy_first(["spark", "sage"]) == ["sage", "spark"]

    for call in calls[:2]:
        call.end(one.now)
    one.messages.beat()
    assert other.status().in_flight == 0


def test_the_newest_speed_counts_wherever_it_was_seen(routers):
    one, other = routers
    other.call().end(other.now, 50.0)
    later(routers, 2.0)

    one.call().end(one.now, 300.0)
    one.messages.beat()
    assert other.status().speed.tokens_per_second == 300.0

    later(routers, 1.0)
    other.call().end(other.now, 70.0)
    assert other.status().speed.tokens_per_second == pytest.approx(60.0)  # its own two


def test_the_longest_wait_of_all_routers_counts_and_runs_down(routers):
    one, other = routers

    one.call()  # a stream without its first token
    later(routers, 5.0)
    one.messages.beat()

    wait = one.live.statuses(TARGETS, one.now)["spark"].wait_seconds
    assert wait > 4.0
    assert other.status().wait_seconds == pytest.approx(wait, abs=0.01)
    other.now += 1.0
    assert other.status().wait_seconds == pytest.approx(wait - 1.0, abs=0.01)
    assert not other.live.is_sooner(SPARK, make_signals(), ask(), 2.0, other.now)
    assert other.live.is_sooner(SAGE, make_signals(), ask(), 2.0, other.now)


def test_what_a_router_reported_is_forgotten_five_seconds_after_its_last_word(routers):
    one, other = routers
    one.call().end(one.now, error=refused(300.0))
    one.messages.beat()

    other.now += FORGOTTEN_SECONDS - 0.1
    assert other.status().closed_seconds > 0
    other.now += 0.2
    assert other.status().closed_seconds == 0.0
    assert other.status() == Router(Channel(), "alone").status()


def test_what_was_heard_is_not_passed_on(routers):
    one, other = routers
    one.call().end(one.now, error=refused(300.0))
    one.messages.beat()
    assert other.status().closed_seconds

    other.messages.beat()

    assert other.messages.told == []


def test_a_router_says_once_that_it_has_nothing_more_to_say(routers):
    one, _ = routers
    call = one.call()
    one.messages.beat()
    call.leave(one.now)

    for _ in range(3):
        one.messages.beat()

    assert one.messages.told == [TargetReports({"spark": TargetReport(in_flight=1)}), TargetReports({})]


def test_a_target_that_this_router_does_not_have_changes_nothing(routers):
    one, other = routers
    before = other.status()

    one.messages.publish(TargetReports({"of another config": TargetReport(in_flight=9, speed=SpeedSeen(1.0, 1.0, 1.0, 0.0))}))

    assert other.status() == before
    assert set(other.live.statuses(TARGETS, other.now)) == {"spark", "sage"}
    assert TARGETS["sage"].tier is Tier.DEEP
