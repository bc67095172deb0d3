"""What is served at `/metrics`: each metric's name, kind, labels and description. The reference page is written from this."""

from enum import Enum
from typing import NamedTuple


class Kind(Enum):
    """Prometheus's name for it."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Metric(NamedTuple):
    """One metric. Its labels are in the order in which their values are given."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    help: str


_COUNTER, _GAUGE, _HISTOGRAM = Kind.COUNTER, Kind.GAUGE, Kind.HISTOGRAM

TABLE = (
    Metric(
        "tandem_requests_total",
        _COUNTER,
        ("tier", "target", "outcome"),
        "Admitted requests that are over.",
    ),
    Metric(
        "tandem_request_seconds",
        _HISTOGRAM,
        ("tier",),
        "From arrival to the end of the answer.",
    ),
    Metric(
        "tandem_ttft_seconds",
        _HISTOGRAM,
        ("tier", "target"),
        "From arrival to a stream's first token.",
    ),
    Metric(
        "tandem_overhead_seconds",
        _HISTOGRAM,
        (),
        "From arrival until it first waits for others.",
    ),
    Metric(
        "tandem_output_tokens_per_second",
        _HISTOGRAM,
        ("tier", "target"),
        "How fast an answer was written, as its caller saw it.",
    ),
    Metric(
        "tandem_tokens_total",
        _COUNTER,
        ("kind",),
        "Tokens of last attempts. Input includes cached, output reasoning ones.",
    ),
    Metric(
        "tandem_cost_usd_total",
        _COUNTER,
        ("tier",),
        "Cost in USD of requests, where known.",
    ),
    Metric(
        "tandem_attempts_total",
        _COUNTER,
        ("target", "error"),
        "Attempts, also unsent ones, by error or none.",
    ),
    Metric(
        "tandem_decisions_total",
        _COUNTER,
        ("tier", "decided_by"),
        "Decisions, by chosen tier and policy, estimate or rule_out.",
    ),
    Metric(
        "tandem_hops_total",
        _COUNTER,
        (),
        "Requests of turns on another tier than the session's one before.",
    ),
    Metric(
        "tandem_budget_refusals_total",
        _COUNTER,
        (),
        "Requests refused with budget_spent.",
    ),
    Metric(
        "tandem_savings_seconds",
        _GAUGE,
        ("of",),
        "Time since counting began: spent, all_deep (estimated), saved, redone.",
    ),
    Metric("tandem_savings_usd", _GAUGE, ("of",), "Money in USD, likewise; unknown costs are left out."),
    Metric(
        "tandem_redone_turns",
        _GAUGE,
        (),
        "Turns that began on fast and were redone.",
    ),
    Metric(
        "tandem_caller_requests_total",
        _COUNTER,
        ("caller",),
        "Requests of each caller, with metrics.callers; without a key or after 200, other.",
    ),
    Metric(
        "tandem_caller_tokens_total",
        _COUNTER,
        ("caller", "kind"),
        "Tokens of each caller, with metrics.callers.",
    ),
    Metric(
        "tandem_caller_cost_usd_total",
        _COUNTER,
        ("caller",),
        "Cost in USD of each caller, with metrics.callers.",
    ),
    Metric("tandem_in_flight_requests", _GAUGE, (), "Requests being served."),
    Metric("tandem_target_in_flight_requests", _GAUGE, ("tier", "target"), "Calls to a target under way."),
    Metric("tandem_queue_length", _GAUGE, ("tier", "target"), "Requests waiting for a target's quota."),
    Metric(
        "tandem_queue_wait_seconds",
        _GAUGE,
        ("tier", "target"),
        "Expected wait for a target.",
    ),
    Metric(
        "tandem_queue_max_wait_seconds",
        _GAUGE,
        ("tier", "target"),
        "quota.max_wait_seconds of a target.",
    ),
    Metric(
        "tandem_limit_left",
        _GAUGE,
        ("tier", "target", "of"),
        "What a target last reported is left of its limits.",
    ),
    Metric(
        "tandem_quota_left",
        _GAUGE,
        ("tier", "target", "of"),
        "What is left of a target's quota in the config.",
    ),
    Metric(
        "tandem_circuit_open",
        _GAUGE,
        ("tier", "target"),
        "1 while a target is unavailable after failures.",
    ),
    Metric(
        "tandem_highest_budget_use_ratio",
        _GAUGE,
        (),
        "Spent share of the budget nearest to its end, 0 to 1.",
    ),
    Metric(
        "tandem_jobs",
        _GAUGE,
        ("state",),
        "Background jobs queued or running, up to 1,000 of each.",
    ),
    Metric(
        "tandem_jobs_ended_total",
        _COUNTER,
        ("state",),
        "Background jobs that this router ended.",
    ),
    Metric(
        "tandem_webhooks_dead",
        _GAUGE,
        (),
        "Events of jobs whose delivery was given up.",
    ),
    Metric("tandem_ledger_queue_rows", _GAUGE, (), "Rows waiting to be written to the ledger."),
    Metric("tandem_ledger_lost_rows_total", _COUNTER, (), "Rows that the ledger lost."),
    Metric(
        "tandem_ledger_lag_seconds",
        _GAUGE,
        (),
        "Age of the oldest row not yet in shared.postgres.",
    ),
    Metric("tandem_routers", _GAUGE, (), "Router processes on the same shared.valkey."),
    Metric(
        "tandem_store_up",
        _GAUGE,
        ("store",),
        "1 while a store is available.",
    ),
    Metric(
        "tandem_store_trips_total",
        _COUNTER,
        ("store",),
        "Commands that a shared store answered.",
    ),
    Metric(
        "tandem_store_seconds_total",
        _COUNTER,
        ("store",),
        "How long these answers took.",
    ),
    Metric(
        "tandem_store_losses_total",
        _COUNTER,
        ("store",),
        "Lost connections to a shared store.",
    ),
    Metric(
        "tandem_store_blind_total",
        _COUNTER,
        ("kind",),
        "Things done without the shared store.",
    ),
    Metric(
        "tandem_store_unconfirmed_total",
        _COUNTER,
        ("kind",),
        "Answers sent before the shared store confirmed a write.",
    ),
    Metric(
        "tandem_pulse_ignored_total",
        _COUNTER,
        ("reason",),
        "Ignored messages between routers, by reason.",
    ),
    Metric(
        "tandem_event_loop_lag_seconds",
        _GAUGE,
        (),
        "How late a timer of 5 ms woke.",
    ),
    Metric(
        "tandem_loop_stall_seconds",
        _HISTOGRAM,
        (),
        "Stalls of the event loop over 50 ms.",
    ),
    Metric(
        "tandem_task_restarts_total",
        _COUNTER,
        ("task",),
        "Lasting tasks started again after a bug.",
    ),
    Metric("tandem_resident_memory_bytes", _GAUGE, (), "Memory of the process."),
)
