"""Selects cases of a product for slow tests: faults need two or three values to meet."""

import itertools
from collections.abc import Iterable
from typing import Any


def covering(*axes: Iterable[Any], strength: int = 2) -> list[tuple[Any, ...]]:
    """Rows of a product in which every two (or `strength`) values of different axes meet. Deterministic and greedy."""
    rows = list(itertools.product(*(range(len(list(axis))) for axis in axes)))
    groups = list(itertools.combinations(range(len(axes)), strength))

    def meetings(row: tuple[int, ...]) -> set[tuple[Any, ...]]:
        return {(group, *(row[axis] for axis in group)) for group in groups}

    missing, chosen = set().union(*map(meetings, rows)), []
    while missing:
        best = max(rows, key=lambda row: len(missing & meetings(row)))
        chosen.append(best)
        missing -= meetings(best)
    values = [list(axis) for axis in axes]
    return [tuple(values[axis][index] for axis, index in enumerate(row)) for row in chosen]
