"""The figures of several workers as one page: each series with the number of its worker.

They are not summed up: a worker that is started again counts from 0, which Prometheus understands of a series, not of a sum.
"""

from collections.abc import Mapping

import msgspec
from msgspec import Struct

from router.telemetry.metrics import Buckets, Labels, Samples

WORKER = "worker"


class _Packed(Struct):
    """Figures as one process sends them to another. JSON has no keys of several words."""

    samples: dict[str, list[tuple[Labels, float]]]
    histograms: dict[str, tuple[tuple[float, ...], list[tuple[Labels, list[float]]]]]


_encode, _decode = msgspec.json.Encoder().encode, msgspec.json.Decoder(_Packed).decode


def pack(samples: Mapping[str, Samples], histograms: Mapping[str, Buckets]) -> bytes:
    """The figures of this worker, for another."""
    return _encode(
        _Packed(
            {name: list(own.items()) for name, own in samples.items()},
            {name: (own.bounds, list(own.rows.items())) for name, own in histograms.items()},
        )
    )


def join(found: Mapping[str, bytes]) -> tuple[dict[str, Samples], dict[str, Buckets]]:
    """The figures of all workers, by their numbers. Those of each have its number as their last label."""
    samples: dict[str, dict[Labels, float]] = {}
    histograms: dict[str, Buckets] = {}
    for worker, packed in found.items():
        figures = _decode(packed)
        for name, own in figures.samples.items():
            samples.setdefault(name, {}).update({(*labels, worker): value for labels, value in own})
        for name, (bounds, rows) in figures.histograms.items():
            histograms.setdefault(name, Buckets(bounds, {})).rows.update({(*labels, worker): row for labels, row in rows})
    return dict(samples), histograms
