"""Figures as Prometheus reads them. It loads `prometheus_client`, so it is itself loaded with the first scrape."""

from collections.abc import Iterator, Mapping
from itertools import accumulate

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.utils import floatToGoString

from router.telemetry.metric_table import TABLE, Kind, Metric
from router.telemetry.metrics import Buckets, Samples

_OPENMETRICS, _PLAIN = "application/openmetrics-text", "text/plain"
_OPENMETRICS_TYPE = f"{_OPENMETRICS}; version=1.0.0; charset=utf-8"


def write_figures(
    samples: Mapping[str, Samples], histograms: Mapping[str, Buckets], accept: str, more_labels: tuple[str, ...] = ()
) -> tuple[bytes, str]:
    """The text of all figures, and its content type. OpenMetrics where the reader prefers it, else the format 0.0.4.

    `more_labels` are those that every series has after its own.
    """
    figures = _Figures(samples, histograms, more_labels)
    if prefers_openmetrics(accept):
        text: bytes = openmetrics.generate_latest(figures, version="1.0.0")  # type: ignore[no-untyped-call]  # of the library
        return text, _OPENMETRICS_TYPE
    return generate_latest(figures), CONTENT_TYPE_PLAIN_0_0_4


def prefers_openmetrics(accept: str) -> bool:
    """Whether a reader's `Accept` names OpenMetrics, and not after plain text."""
    wishes: dict[str, float] = {}
    for wish in accept.split(","):
        kind, *parameters = (part.strip().lower() for part in wish.split(";"))
        weight = next((value.removeprefix("q=") for value in parameters if value.startswith("q=")), "1")
        wishes.setdefault(kind, _read_weight(weight))
    return wishes.get(_OPENMETRICS, 0.0) > 0 and wishes[_OPENMETRICS] >= wishes.get(_PLAIN, 0.0)


def _read_weight(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


class _Figures:
    """A collector, as the library calls what it reads."""

    def __init__(self, samples: Mapping[str, Samples], histograms: Mapping[str, Buckets], more_labels: tuple[str, ...]) -> None:
        self._samples, self._histograms, self._more_labels = samples, histograms, more_labels

    def collect(self) -> Iterator[Family]:
        for known in TABLE:
            metric = known._replace(labels=(*known.labels, *self._more_labels))
            if metric.kind is Kind.HISTOGRAM:
                yield _write_histogram(metric, self._histograms.get(metric.name) or Buckets((), {}))
            elif (samples := self._samples.get(metric.name)) is not None:
                yield _write_samples(metric, samples)


def _write_samples(metric: Metric, samples: Samples) -> Family:
    kind = CounterMetricFamily if metric.kind is Kind.COUNTER else GaugeMetricFamily
    family = kind(metric.name, metric.help, labels=metric.labels)
    for labels in sorted(samples):
        family.add_metric(labels, samples[labels])
    return family


def _write_histogram(metric: Metric, buckets: Buckets) -> Family:
    family = HistogramMetricFamily(metric.name, metric.help, labels=metric.labels)
    bounds = [*map(floatToGoString, buckets.bounds), "+Inf"]
    for labels in sorted(buckets.rows):
        *counts, total = buckets.rows[labels]
        family.add_metric(labels, [*zip(bounds, accumulate(counts), strict=True)], total)
    return family
