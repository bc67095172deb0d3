"""The decision of a request that is over, with what became of it: as `/tandem/decisions` and the ledger have it."""

from router.contract.entry import Entry
from router.contract.request import JsonObject
from router.decide.explain import explain


def explain_entry(entry: Entry) -> JsonObject:
    """The whole decision as JSON. Only for an entry that has one."""
    assert entry.decision is not None
    return {
        "request_id": entry.id,
        **explain(entry.decision),
        "outcome": str(entry.outcome),
        "served_by": entry.target,
        "attempts": [attempt._asdict() for attempt in entry.attempts],
        "ttft_ms": entry.ttft_ms,
        "duration_ms": entry.duration_ms,
        "overhead_ms": entry.overhead_ms,
        "cost_usd": entry.cost_usd,
        "dropped": list(entry.dropped),
    }
