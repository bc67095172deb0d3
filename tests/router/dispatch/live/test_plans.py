"""The state of each login's plan."""

import pytest

from router.contract.entry import Attempt
from router.contract.errors import UpstreamAuth, UpstreamRefused, UpstreamUnreachable
from router.contract.facts import AttemptEnded, AttemptOpened, PlanTold, Read
from router.contract.plan_use import PlanWindow, UsedUp, UseUpTo
from router.contract.signals import SessionPosition
from router.contract.target import Price
from router.contract.words import AccountFault, Dialect, Tier, Vendor
from router.dispatch.live.plans import Plans
from router.dispatch.live.statistics import LiveStatistics
from tests.tools.exchanges import make_exchange
from tests.tools.logins import claude_login
from tests.tools.values import make_signals, make_target, make_view, stand

NOW = 1_790_000_000.0
LISTED = Price(10.0, 50.0, cached_input=1.0)
PLAN = make_target(
    "claude",
    Tier.DEEP,
    speaks=frozenset({Dialect.MESSAGES}),
    takes_callers_key=True,
    accepts_keys_of=frozenset({Vendor.ANTHROPIC}),
    is_plan=True,
    price=Price(0.0, 0.0),
    list_price=LISTED,
)
HELD = make_target(
    "claude",
    Tier.DEEP,
    speaks=PLAN.speaks,
    takes_callers_key=True,
    accepts_keys_of=PLAN.accepts_keys_of,
    is_plan=True,
    price=PLAN.price,
    list_price=LISTED,
    use_up_to=UseUpTo(five_hours=90),
)


def view_of(person: str):
    body = {"max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
    return make_view(body, Dialect.MESSAGES, claude_login(person))


def exchange_of(person: str, *observers):
    exchange = make_exchange(*observers, name=f"req_{person}", dialect=Dialect.MESSAGES)
    exchange.note(Read(view_of(person)))
    return exchange


def refused(until: float) -> UpstreamRefused:
    error = UpstreamRefused("claude", 429, b"{}", "application/json")
    error.used_up = UsedUp(until, "5-hour window")
    return error


class Wall:
    """A time of day that a test moves."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def wall():
    return Wall()


@pytest.fixture
def plans(wall):
    return Plans(wall)


def look(plans, person="ada", target=PLAN, now=0.0, **turn):
    signals = plans.apply(make_signals(stand(target), **turn), ["claude"], view_of(person), now)
    return signals.statuses["claude"], signals.shadow.get("claude", 0.0)


def test_a_plan_is_used_up_for_its_own_login_until_the_time_that_its_vendor_named(plans, wall):
    assert plans.refuse(exchange_of("ada"), PLAN, refused(NOW + 5_400), 0.0)

    status, _ = look(plans)
    assert (status.closed_seconds, status.may_probe) == (5_400.0, False)
    assert status.used_up.startswith("your plan's 5-hour window is used up until ")
    assert look(plans, "bob")[0] == stand(PLAN)
    wall.now += 5_401
    assert look(plans)[0] == stand(PLAN)


def test_a_weeks_refusal_is_believed_for_the_week(plans, wall):
    plans.refuse(exchange_of("ada"), PLAN, refused(NOW + 500_000), 0.0)

    wall.now += 400_000

    assert look(plans)[0].closed_seconds == 100_000


def test_a_request_that_only_the_plan_can_serve_asks_once_a_minute(plans, wall):
    exchange = exchange_of("ada")
    plans.refuse(exchange, PLAN, first := refused(NOW + 5_400), 0.0)

    wall.now += 59
    assert (look(plans)[0].may_probe, look(plans)[0].refusal) == (False, first)
    wall.now += 1
    assert look(plans)[0].may_probe
    plans.refuse(exchange, PLAN, refused(NOW + 5_400), 60.0)
    assert not look(plans)[0].may_probe


def test_an_answer_opens_a_plan_before_its_time(plans):
    exchange = exchange_of("ada")
    plans.refuse(exchange, PLAN, refused(NOW + 5_400), 0.0)

    plans.serve(exchange, PLAN, 1.0)

    assert look(plans)[0] == stand(PLAN)
    assert not plans.has_trouble("claude")


def test_what_a_vendor_refuses_to_one_login_rests_for_that_login_alone(plans):
    error = UpstreamAuth("claude", "no", AccountFault.REGION)

    assert plans.refuse(exchange_of("ada"), PLAN, error, 0.0)

    assert look(plans, now=0.5)[0].is_resting
    assert not look(plans, "bob", now=0.5)[0].is_resting
    assert not look(plans, now=1.5)[0].is_resting


def test_a_lost_connection_concerns_everyone(plans):
    assert not plans.refuse(exchange_of("ada"), PLAN, UpstreamUnreachable("claude", "gone"), 0.0)
    assert len(plans) == 0


def test_a_plan_ahead_of_the_clock_has_a_share_of_its_list_price(plans):
    windows = (PlanWindow(0.75, NOW + 9_000),)  # half of its time is left
    plans.note(exchange_of("ada"), PlanTold(PLAN, windows))

    status, share = look(plans)

    assert share == 0.5
    assert status.target.price == Price(5.0, 25.0, cached_input=0.5)
    assert look(plans, "bob") == (stand(PLAN), 0.0)


def test_a_plan_in_step_with_the_clock_costs_nothing(plans):
    plans.note(exchange_of("ada"), PlanTold(PLAN, (PlanWindow(0.4, NOW + 9_000),)))

    assert look(plans) == (stand(PLAN), 0.0)


def test_use_up_to_keeps_the_rest_of_a_window_but_lets_a_running_turn_end_where_it_is(plans):
    plans.note(exchange_of("ada"), PlanTold(HELD, (PlanWindow(0.91, NOW + 9_000),)))

    status, _ = look(plans, target=HELD)
    assert (status.closed_seconds, status.may_probe, status.refusal) == (9_000.0, True, None)
    assert status.used_up.startswith("91 % of your plan's 5-hour window is used (use_up_to) until ")
    running = SessionPosition(Tier.DEEP, is_running=True, warm={"claude": 9_000})
    assert not look(plans, target=HELD, position=running)[0].closed_seconds


def test_memory_is_bounded_and_the_login_that_was_silent_longest_is_forgotten(plans):
    for number in range(1_200):
        plans.refuse(exchange_of(f"person-{number}"), PLAN, refused(NOW + 5_400), 0.0)

    assert len(plans) == 1_000
    assert not look(plans, "person-199")[0].used_up
    assert look(plans, "person-200")[0].used_up


def test_nothing_that_is_kept_holds_a_login(plans):
    plans.refuse(exchange_of("ada"), PLAN, refused(NOW + 5_400), 0.0)

    (place, state), *_ = plans._states.items()

    kept = [place, *(getattr(state, name) for name in state.__slots__ if name != "circuit")]
    assert "canary" not in repr(kept)


def test_a_notice_is_for_the_person_and_begins_with_the_first_refusal(plans, wall):
    exchange = exchange_of("ada")
    plans.refuse(exchange, PLAN, refused(NOW + 5_400), 0.0)
    wall.now += 60
    plans.refuse(exchange, PLAN, refused(NOW + 5_400), 60.0)

    (notice,) = plans.find_troubles({"claude": PLAN})

    assert (notice.kind, notice.subject, notice.since) == ("plan_used_up", "local", NOW)
    assert [*plans.find_troubles({})] == []
    wall.now = NOW + 5_401
    assert [*plans.find_troubles({"claude": PLAN})] == []


def test_two_logins_of_one_caller_have_notices_of_their_own(plans):
    for person in ("ada", "bob"):
        plans.refuse(exchange_of(person), PLAN, refused(NOW + 5_400), 0.0)

    found = [*plans.find_troubles({"claude": PLAN})]

    assert [notice.subject for notice in found] == ["local", "local"]
    assert len({notice.place for notice in found}) == 2
    assert [notice.place for notice in plans.find_troubles({"claude": PLAN})] == [notice.place for notice in found]
    assert "canary" not in repr(found)


def test_one_persons_refusals_never_rest_the_target_of_all():
    live = LiveStatistics()
    live.statuses({"claude": PLAN}, 0.0)
    for at, error in enumerate([refused(NOW * 2), *[UpstreamRefused("claude", 529, b"", "")] * 6], 1):
        exchange = exchange_of("ada", live)
        exchange.note(AttemptOpened(float(at), PLAN, "", ()))
        exchange.note(AttemptEnded(at + 0.1, PLAN, Attempt("claude", error.status, error.code, 0.1), error, None, None))

    everyones = live.statuses({"claude": PLAN}, 8.0)
    signals = make_signals(*everyones.values())

    assert (everyones["claude"].is_resting, everyones["claude"].closed_seconds) == (False, 0.0)
    assert live.apply_limits(signals, view_of("ada"), 8.0).statuses["claude"].used_up
    of_bob = live.apply_limits(signals, view_of("bob"), 8.0)
    assert (of_bob.statuses, of_bob.own_plans) == (signals.statuses, {"claude"})


def test_a_refusal_that_is_too_large_to_keep_is_not_kept(plans):
    error = refused(NOW + 5_400)
    error.body = b"x" * 20_000

    plans.refuse(exchange_of("ada"), PLAN, error, 0.0)

    assert look(plans)[0].used_up
    assert look(plans)[0].refusal is None
