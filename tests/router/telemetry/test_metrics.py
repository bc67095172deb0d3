"""Counting finished requests: what each adds, and that no number of them adds series without end."""

import pytest

from router.contract.entry import Attempt
from router.contract.session import SessionState
from router.contract.words import Tier
from router.telemetry.metrics import MAX_CALLERS, Metrics
from tests.tools.exchanges import make_decided, make_decision, make_exchange, make_snapshot
from tests.tools.kept import UNDECIDED, make_recorded


class Counting:
    """Metrics that a test feeds with finished requests, and the defects that were reported."""

    def __init__(self, targets=("spark", "sage"), *, callers: bool = False) -> None:
        self.defects: list[tuple[str, str]] = []
        self.metrics = Metrics(lambda request_id, error: self.defects.append((request_id, type(error).__name__)))
        self.metrics.follow(targets, callers=callers)

    def finish(self, *attempts: Attempt, decided=None, **changed) -> None:
        exchange = make_exchange(self.metrics)
        if decided is not None:
            exchange.note(decided)
        exchange.note(make_recorded(*attempts, **changed))

    def __getitem__(self, name: str):
        return self.metrics.counts()[f"tandem_{name}"]

    def series(self) -> int:
        counted = self.metrics.counts().values()
        return sum(map(len, counted)) + sum(len(own.rows) for own in self.metrics.histograms().values())


@pytest.fixture
def counting():
    return Counting()


def test_a_served_request_adds_to_each_figure_that_it_has(counting):
    counting.finish(decided=make_decided())

    assert counting["requests_total"] == {("fast", "spark", "SERVED"): 1}
    assert counting["attempts_total"] == {("spark", "none"): 1}
    assert counting["decisions_total"] == {("fast", "estimate"): 1}
    assert counting["tokens_total"] == {("input",): 100, ("cached",): 40, ("output",): 20, ("reasoning",): 5}
    assert counting["cost_usd_total"] == {("fast",): 0.0012, ("deep",): 0.0}
    assert counting["hops_total"] == {(): 0}


@pytest.mark.parametrize(
    ("name", "labels", "total"),
    [
        ("tandem_request_seconds", ("fast",), 1.5),
        ("tandem_ttft_seconds", ("fast", "spark"), 0.2),
        ("tandem_overhead_seconds", (), 0.0003),
        ("tandem_output_tokens_per_second", ("fast", "spark"), 120.0),
    ],
)
def test_a_value_falls_into_the_bucket_whose_bound_it_does_not_pass(counting, name, labels, total):
    counting.finish()

    buckets = counting.metrics.histograms()[name]
    *counts, summed = buckets.rows[labels]

    assert summed == pytest.approx(total)
    assert sum(counts) == 1
    place = counts.index(1)
    assert buckets.bounds[place - 1] < total <= buckets.bounds[place]


def test_a_value_over_the_last_bound_is_counted_as_infinite(counting):
    counting.finish(duration_ms=10_000_000.0)

    assert counting.metrics.histograms()["tandem_request_seconds"].rows["fast",][-2:] == [1, 10_000.0]


def test_the_buckets_of_our_own_time_begin_at_10_microseconds(counting):
    assert counting.metrics.histograms()["tandem_overhead_seconds"].bounds[0] == 1e-5


def test_a_request_that_was_refused_before_a_decision_is_counted_without_tier_and_target(counting):
    counting.finish(**UNDECIDED, outcome="REFUSED")

    assert counting["requests_total"] == {("none", "none", "REFUSED"): 1}
    assert counting["attempts_total"] == counting["decisions_total"] == {}
    assert counting.metrics.histograms()["tandem_ttft_seconds"].rows == {}


def test_each_attempt_is_counted_at_its_own_target_by_its_error(counting):
    counting.finish(Attempt("spark", 503, "upstream_refused", 0.1), Attempt("sage", 200, None, 2.0), tier="deep", target="sage")
    counting.finish(Attempt("spark", None, "upstream_timeout", 9.0), outcome="FAILED")

    assert counting["attempts_total"] == {
        ("spark", "upstream_refused"): 1,
        ("sage", "none"): 1,
        ("spark", "upstream_timeout"): 1,
    }


def test_a_decision_is_counted_for_the_tier_that_was_chosen_and_not_for_the_one_that_served(counting):
    counting.finish(decided=make_decided(decision=make_decision(Tier.FAST, decided_by="rules")), tier="deep", target="sage")

    assert counting["decisions_total"] == {("fast", "rules"): 1}


@pytest.mark.parametrize(
    ("before", "changed", "hops"),
    [
        (Tier.DEEP, {}, 1),
        (Tier.FAST, {}, 0),
        (None, {}, 0),
        (Tier.DEEP, {"turn_kind": "side"}, 0),
        (Tier.DEEP, {"turn_kind": "tool_loop"}, 1),
        (Tier.DEEP, {"outcome": "FAILED"}, 0),
        (Tier.DEEP, {"outcome": "ABANDONED"}, 1),
    ],
)
def test_a_call_of_a_person_that_another_tier_answers_is_a_hop(counting, before, changed, hops):
    decided = make_decided(session=make_snapshot(SessionState(tier=before)))

    counting.finish(decided=decided, **changed)

    assert counting["hops_total"] == {(): hops}


def test_only_a_request_that_no_budget_could_pay_is_a_refusal_for_a_budget(counting):
    counting.finish(**{**UNDECIDED, "tier": "fast"}, outcome="REFUSED", error="budget_spent")
    for another in ("rate_limited", "budget_held"):
        counting.finish(**{**UNDECIDED, "tier": "fast"}, outcome="REFUSED", error=another)

    assert counting["budget_refusals_total"] == {(): 1}


def test_costs_are_added_up_to_the_last_unit(counting):
    for _ in range(1_000):
        counting.finish(cost_usd=0.00000011)

    assert counting["cost_usd_total"]["fast",] == 0.00011


def test_5_000_names_that_callers_send_add_no_series(counting):
    for changed in ({}, {**UNDECIDED, "outcome": "REFUSED", "error": "model_not_found"}):
        counting.finish(**changed)
    before = counting.series()

    for number in range(2_500):
        name = f"typo-{number}"
        counting.finish(model=name, session=name, caller=name, client=name)
        counting.finish(**UNDECIDED, outcome="REFUSED", error="model_not_found", model=name, caller=name)

    assert counting.series() == before
    assert sum(counting["requests_total"].values()) == 5_002


def test_of_callers_with_keys_200_have_a_label_and_all_others_share_one():
    counting = Counting(callers=True)
    for number in range(MAX_CALLERS + 50):
        counting.finish(caller=f"caller-{number}", key=f"{number:08x}")
    counting.finish(caller="key-of-a-stranger")

    requests = counting["caller_requests_total"]

    assert len(requests) == MAX_CALLERS + 1
    assert requests["caller-0",] == 1
    assert requests["other",] == 51
    assert counting["caller_cost_usd_total"]["other",] == pytest.approx(51 * 0.0012)
    assert counting["caller_tokens_total"]["other", "input"] == 51 * 100


def test_callers_are_counted_only_while_the_config_says_so():
    counting = Counting(callers=True)
    counting.finish(caller="ada", key="00000001")

    counting.metrics.follow(["spark", "sage"], callers=False)

    assert "tandem_caller_requests_total" not in counting.metrics.counts()
    counting.metrics.follow(["spark", "sage"], callers=True)
    assert counting["caller_requests_total"] == {}


def test_a_target_that_a_reload_removed_keeps_its_figures(counting):
    counting.finish()

    counting.metrics.follow(["sage"], callers=False)

    assert counting["requests_total"] == {("fast", "spark", "SERVED"): 1}


def test_targets_that_come_and_go_do_not_add_series_without_end(counting):
    sizes = []
    for number in range(400):
        counting.metrics.follow([f"target-{number}"], callers=False)
        counting.finish(target=f"target-{number}")
        counting.finish(Attempt(f"target-{number}", 500, "upstream_refused", 0.1), target=f"target-{number}", outcome="FAILED")
        sizes.append(counting.series())

    assert len(set(sizes[150:])) == 1
    newest = {labels[1] for labels in counting["requests_total"]}
    assert {"target-399", "target-300"} <= newest
    assert "target-0" not in newest


def test_nobody_need_ask_for_the_list_of_finished_requests_to_stay_short(counting):
    for _ in range(1_000):
        counting.finish()

    assert len(counting.metrics._waiting) < 64
    assert counting["requests_total"] == {("fast", "spark", "SERVED"): 1_000}


def test_a_request_that_cannot_be_counted_is_reported_and_costs_the_others_nothing(counting):
    counting.finish(id="req_odd", duration_ms=None)
    counting.finish()

    assert counting["tokens_total"]["input",] == 100
    assert counting.defects == [("req_odd", "TypeError")]


def test_what_is_read_does_not_change_while_more_is_counted(counting):
    counting.finish()
    counts, histograms = counting.metrics.counts(), counting.metrics.histograms()

    counting.finish()
    counting.metrics.counts()

    assert counts["tandem_requests_total"] == {("fast", "spark", "SERVED"): 1}
    assert histograms["tandem_request_seconds"].rows["fast",][-1] == 1.5


def test_metrics_that_are_switched_on_again_count_from_zero(counting):
    counting.finish()
    before = sum(counting["requests_total"].values())

    counting.metrics.start_again()

    assert (before, sum(counting["requests_total"].values())) == (1, 0)
    counting.finish()
    assert sum(counting["requests_total"].values()) == 1


def test_a_defect_in_counting_is_logged_once_and_not_for_every_request(listen):
    logged, metrics = listen(), Metrics()
    for _ in range(200):
        make_exchange(metrics).note(make_recorded(duration_ms=None))
    metrics.counts()

    assert [(line["event"], line["kind"]) for line in logged()] == [("fault.caught", "TypeError")]


def test_a_caller_without_a_key_has_no_label_of_its_own():
    counting = Counting(callers=True)

    counting.finish(caller="digest-of-a-foreign-key")

    assert counting["caller_requests_total"] == {("other",): 1}
