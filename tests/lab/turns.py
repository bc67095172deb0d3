"""The sum of a later turn, fitted to recorded turns with what came before them, and to replies and remarks."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from policies.learned import LEAST_POINTING, MAX_LOG_ODDS, SURE_POINTING
from policies.reading import COLUMNS, Weights
from router.contract.features import Features, Offer
from router.contract.request import JsonObject
from router.sense.features import read_features
from router.sense.offers import read_offer
from tests.lab.items import Reply, Row
from tests.lab.labelled import ASKS, MEANING
from tests.lab.libraries import load_libraries

_ASK_WEIGHT, _REPLY_WEIGHT, _REMARK_WEIGHT = 0.3, 0.5, 3.0
"""What written asks, replies and remarks count next to a recorded turn."""
_QUICK_REPLIES = 2.5
"""How much more a reply that sets off quick work counts: half of those in the data are long, and a fifth of recorded turns."""


class Example(NamedTuple):
    values: tuple[float, ...]
    is_long: float
    weight: float
    is_written: tuple[float, float] = (0.0, 0.0)
    """Whether it is a written ask, or a remark: what these have in common is not served."""


def fit_sum(
    rows: Sequence[Row], replies: Sequence[Reply], folds: tuple[Sequence[int], Sequence[int]], parts: Sequence[Weights]
) -> JsonObject:
    """Each example's columns are read by weights that were fitted without its group."""
    found = [*_read_rows(rows, folds[0], parts), *_read_replies(replies, folds[1], parts)]
    if len({example.is_long for example in found}) < 2:
        return {"start": 0.0, "columns": {name: float(name == "words") for name in COLUMNS}}
    learn, _, numpy = load_libraries()
    model = learn.LogisticRegression(C=10.0, max_iter=3000)
    model.fit(
        numpy.array([(*example.values, *example.is_written) for example in found]),
        [example.is_long for example in found],
        sample_weight=[example.weight for example in found],
    )
    columns: JsonObject = {name: round(float(weight), 4) for name, weight in zip(COLUMNS, model.coef_[0], strict=False)}
    return {"start": round(float(model.intercept_[0]), 4), "columns": columns}


def _read_rows(rows: Sequence[Row], folds: Sequence[int], parts: Sequence[Weights]) -> Iterator[Example]:
    for row, fold in zip(rows, folds, strict=True):
        if row.kind in (ASKS, MEANING) and row.item.is_clear and row.item.prior_turns:
            is_ask = row.kind == ASKS
            weight = row.weight * (_ASK_WEIGHT if is_ask else 1.0)
            values = _read(parts[fold], row.features, before=row.item.previous)
            yield Example(values, row.label, weight, (float(is_ask), 0.0))


def _read_replies(replies: Sequence[Reply], folds: Sequence[int], parts: Sequence[Weights]) -> Iterator[Example]:
    for reply, fold in zip(replies, folds, strict=True):
        features = reply.read()
        if reply.is_long is None or not features.has_task:
            continue
        offer = read_offer(reply.said, reply.text) if reply.said and features.is_short else None
        is_remark = reply.accepts is None
        weight = _REMARK_WEIGHT if is_remark else _REPLY_WEIGHT * (1.0 if reply.is_long else _QUICK_REPLIES)
        values = _read(parts[fold], features, offer, reply.before)
        yield Example(values, float(reply.is_long), weight, (0.0, float(is_remark)))


def _read(weights: Weights, features: Features, offer: Offer | None = None, before: str = "") -> tuple[float, ...]:
    pointing = weights.read_pointing(features)
    asked = read_features(before) if before and LEAST_POINTING <= pointing < SURE_POINTING else None
    size = max(-MAX_LOG_ODDS, min(MAX_LOG_ODDS, weights.first.read(asked))) if asked is not None and asked.has_task else None
    return weights.read_values(features, pointing, offer, size)
