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
        "Admitted requests that are over. Tier and target are those that served or were tried last, or none.",
    ),
    Metric(
        "tandem_request_seconds",
        _HISTOGRAM,
        ("tier",),
        "Time from the complete request to the end of its answer.",
    ),
    Metric(
        "tandem_ttft_seconds",
        _HISTOGRAM,
        ("tier", "target"),
        "Time from the complete request to the first token of a streamed answer, waits and failed attempts included.",
    ),
    Metric(
        "tandem_overhead_seconds",
        _HISTOGRAM,
        (),
        "Tandem's own time: from the complete request to the first call to a target, or to queueing for one.",
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
        "Tokens of the answers that callers got. Input includes the cached ones, output the reasoning ones.",
    ),
    Metric(
        "tandem_cost_usd_total",
        _COUNTER,
        ("tier",),
        "Cost of requests in USD, all attempts included. A request whose cost is not known adds nothing.",
    ),
    Metric(
        "tandem_attempts_total",
        _COUNTER,
        ("target", "error"),
        "Calls to targets, by the code of the error that ended them, or none. Second opinions are included.",
    ),
    Metric(
        "tandem_decisions_total",
        _COUNTER,
        ("tier", "decided_by"),
        "Decisions, by the tier that was chosen and by the policy that decided, or estimate.",
    ),
    Metric(
        "tandem_hops_total",
        _COUNTER,
        (),
        "Calls of a person's turn that another tier answered than the session's call before.",
    ),
    Metric(
        "tandem_budget_refusals_total",
        _COUNTER,
        (),
        "Requests that were refused because the budget of their caller is spent.",
    ),
    Metric(
        "tandem_savings_seconds",
        _GAUGE,
        ("of",),
        "Time since this router began to count: spent, what all_deep would have taken (an estimate), saved (the difference),"
        " and what fast had worked on turns that were redone. Read from the ledger at most once a minute.",
    ),
    Metric(
        "tandem_savings_usd", _GAUGE, ("of",), "Money in USD, as tandem_savings_seconds. Calls of unknown cost are left out."
    ),
    Metric(
        "tandem_redone_turns",
        _GAUGE,
        (),
        "Turns on fast since this router began to count that were marked, moved up, asked again, or followed by a wish for"
        " deep.",
    ),
    Metric(
        "tandem_caller_requests_total",
        _COUNTER,
        ("caller",),
        "Requests of each caller with a key, with metrics.callers. The first 200 callers have a label; the rest is other.",
    ),
    Metric(
        "tandem_caller_tokens_total",
        _COUNTER,
        ("caller", "kind"),
        "Input and output tokens of each caller with a key, with metrics.callers.",
    ),
    Metric(
        "tandem_caller_cost_usd_total",
        _COUNTER,
        ("caller",),
        "Cost in USD of each caller with a key, with metrics.callers.",
    ),
    Metric("tandem_in_flight_requests", _GAUGE, (), "Requests that are being served."),
    Metric("tandem_target_in_flight_requests", _GAUGE, ("tier", "target"), "Calls to a target that are under way."),
    Metric("tandem_queue_length", _GAUGE, ("tier", "target"), "Requests that wait for the quota of a target."),
    Metric(
        "tandem_queue_wait_seconds",
        _GAUGE,
        ("tier", "target"),
        "How long a request that came now would be expected to wait for a target: in a queue, for a limit, or for its rest.",
    ),
    Metric(
        "tandem_queue_max_wait_seconds",
        _GAUGE,
        ("tier", "target"),
        "quota.max_wait_seconds of a target, where the config sets it.",
    ),
    Metric(
        "tandem_limit_left",
        _GAUGE,
        ("tier", "target", "of"),
        "What a target's last answer said is left of its rate limits, the least of each kind, until they reset."
        " Not where callers bring their own keys.",
    ),
    Metric(
        "tandem_quota_left",
        _GAUGE,
        ("tier", "target", "of"),
        "What is left of a target's quota in the config. Not where callers bring their own keys.",
    ),
    Metric(
        "tandem_circuit_open",
        _GAUGE,
        ("tier", "target"),
        "1 while a target rests after failures, or is tried by one request alone; else 0.",
    ),
    Metric(
        "tandem_highest_budget_use_ratio",
        _GAUGE,
        (),
        "How much of its budget for the day or the month the caller has spent who has spent most of it, 0 to 1.",
    ),
    Metric(
        "tandem_jobs",
        _GAUGE,
        ("state",),
        "Background jobs that are queued or running, in the store; of each at most 1,000 are counted. From the first job on.",
    ),
    Metric(
        "tandem_jobs_ended_total",
        _COUNTER,
        ("state",),
        "Background jobs that this router ended: completed, failed, incomplete or cancelled.",
    ),
    Metric(
        "tandem_webhooks_dead",
        _GAUGE,
        (),
        "Events of background jobs that no webhook took within 72 hours, while they are kept.",
    ),
    Metric("tandem_ledger_queue_rows", _GAUGE, (), "Rows that wait to be written to the ledger."),
    Metric("tandem_ledger_lost_rows_total", _COUNTER, (), "Rows that the ledger lost since the start."),
    Metric(
        "tandem_ledger_lag_seconds",
        _GAUGE,
        (),
        "How long ago the oldest row was finished that is not copied to shared.postgres yet; 0 where all are.",
    ),
    Metric(
        "tandem_routers", _GAUGE, (), "Processes of routers that use the same shared.valkey. While it is away, how many did."
    ),
    Metric(
        "tandem_store_up",
        _GAUGE,
        ("store",),
        "1 while a store can be used, 0 while it is away: ledger, responses, jobs (from the first job on), keys, personal; and "
        "valkey, which is also 0 for a minute after it refused a command.",
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
        "How long these answers took in all. Divided by the trips, the latency of the store.",
    ),
    Metric(
        "tandem_store_losses_total",
        _COUNTER,
        ("store",),
        "How often the connection to a shared store was lost.",
    ),
    Metric(
        "tandem_store_blind_total",
        _COUNTER,
        ("kind",),
        "How often something was done without the shared store, because it could not be asked, by what it was.",
    ),
    Metric(
        "tandem_store_unconfirmed_total",
        _COUNTER,
        ("kind",),
        "Answers that left before the shared store had confirmed what was written, by what that was.",
    ),
    Metric(
        "tandem_pulse_ignored_total",
        _COUNTER,
        ("reason",),
        "Messages on the channel of the shared routers that were ignored: of another version, unreadable, or too_large.",
    ),
    Metric(
        "tandem_event_loop_lag_seconds",
        _GAUGE,
        (),
        "How late the event loop woke a timer of 5 ms. Measured once, for this answer.",
    ),
    Metric(
        "tandem_loop_stall_seconds",
        _HISTOGRAM,
        (),
        "How long the event loop was held up, where that was over 50 ms. The log names the cause (loop.stalled).",
    ),
    Metric(
        "tandem_task_restarts_total",
        _COUNTER,
        ("task",),
        "How often a task that runs as long as the router was started again after a bug had ended it.",
    ),
    Metric("tandem_resident_memory_bytes", _GAUGE, (), "Memory of the process that is in RAM."),
)
