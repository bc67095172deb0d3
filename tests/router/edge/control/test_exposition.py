"""The text that Prometheus reads, held against the official parsers."""

import math

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_plain

from router.edge.control.exposition import prefers_openmetrics, write_figures
from router.telemetry.metrics import Buckets, Metrics
from tests.tools.exchanges import make_decided, make_exchange
from tests.tools.kept import make_recorded

OPENMETRICS = "application/openmetrics-text;version=1.0.0"
SAMPLES = {
    "tandem_requests_total": {("fast", "spark", "SERVED"): 3, ("none", "none", "REFUSED"): 1},
    "tandem_queue_length": {("fast", 'odd "name"\\\n'): 2},
    "tandem_ledger_lost_rows_total": {(): 0},
}


def histograms() -> dict[str, Buckets]:
    metrics = Metrics(lambda request_id, error: pytest.fail(str(error)))
    exchange = make_exchange(metrics)
    exchange.note(make_decided())
    exchange.note(make_recorded(duration_ms=400.0))
    exchange.note(make_recorded(duration_ms=90_000.0))
    return metrics.histograms()


def read(accept: str) -> dict[str, dict[tuple, float]]:
    """Every sample by its name and labels, as the official parser of the format reads them."""
    text, media_type = write_figures(SAMPLES, histograms(), accept)
    assert media_type.startswith("application/openmetrics-text" if accept else "text/plain; version=0.0.4")
    families = parse_openmetrics(text.decode()) if accept else parse_plain(text.decode())
    found: dict[str, dict[tuple, float]] = {}
    for sample in (sample for family in families for sample in family.samples):
        found.setdefault(sample.name, {})[tuple(sorted(sample.labels.items()))] = sample.value
    return found


@pytest.mark.parametrize("accept", ["", OPENMETRICS])
def test_both_formats_say_what_was_counted(accept):
    found = read(accept)

    assert found["tandem_requests_total"][("outcome", "SERVED"), ("target", "spark"), ("tier", "fast")] == 3
    assert found["tandem_queue_length"] == {(("target", 'odd "name"\\\n'), ("tier", "fast")): 2}
    assert found["tandem_ledger_lost_rows_total"] == {(): 0}
    assert found["tandem_request_seconds_sum"] == {(("tier", "fast"),): 90.4}


@pytest.mark.parametrize("accept", ["", OPENMETRICS])
def test_buckets_are_cumulated_up_to_infinity_and_agree_with_the_count(accept):
    found = read(accept)
    buckets = {float(dict(labels)["le"]): count for labels, count in found["tandem_request_seconds_bucket"].items()}

    assert (buckets[0.25], buckets[0.5], buckets[60.0], buckets[120.0]) == (0, 1, 1, 2)
    assert buckets[math.inf] == 2
    assert found["tandem_request_seconds_count"] == {(("tier", "fast"),): 2}
    assert [*buckets.values()] == sorted(buckets.values())


def test_what_is_not_measured_here_is_left_out():
    assert "tandem_savings_seconds" not in read("")


@pytest.mark.parametrize(
    ("accept", "is_preferred"),
    [
        ("", False),
        ("*/*", False),
        ("text/plain", False),
        ("application/openmetrics-text", True),
        ("application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.4,*/*;q=0.1", True),
        ("text/plain;version=0.0.4;q=0.5,application/openmetrics-text;version=1.0.0;q=0.4", False),
        ("application/openmetrics-text;q=0", False),
        ("application/openmetrics-text;q=many", False),
        ("application/openmetrics-text;version=odd", True),
        (",;q,;;", False),
    ],
)
def test_the_reader_chooses_the_format(accept, is_preferred):
    assert prefers_openmetrics(accept) is is_preferred
