"""Growing the forest of the trained reading: gradient boosting over binned features, in plain Python and repeatable.

A few thousand turns and some sixty features need no library: a forest grows in seconds, and training runs wherever the
router does.
"""

import math
import random
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from router.contract.forest import Forest, Leaf, Node, Split


@dataclass(frozen=True, slots=True)
class Growth:
    """How a forest grows. `pull` draws small leaves to zero; `share` is the part of the features that one tree may use."""

    trees: int = 64
    leaves: int = 6
    rate: float = 0.15
    least_weight: float = 30.0
    pull: float = 10.0
    share: float = 0.35
    bins: int = 24
    seed: int = 7


@dataclass(frozen=True, slots=True)
class Examples:
    """What a forest is fitted to: rows of features, the chance that each is a long task, and what each counts."""

    rows: Sequence[Sequence[float]]
    labels: Sequence[float]
    weights: Sequence[float]


@dataclass(slots=True)
class _Branch:
    """A part of the examples while a tree grows: whom it holds, its sums, its histograms, and how it would divide best."""

    members: list[int]
    slope: float
    curve: float
    slopes: list[list[float]]
    curves: list[list[float]]
    gain: float = 0.0
    column: int = -1
    bin: int = -1


def grow_forest(
    examples: Examples, places: Sequence[int], growth: Growth, report: Callable[[int], None] = lambda _: None
) -> Forest:
    """Fit a forest that uses only the features at `places`. The same examples always give the same forest."""
    chance = random.Random(growth.seed)  # noqa: S311  repeatable on purpose
    edges = {place: _find_edges([row[place] for row in examples.rows], growth.bins) for place in places}
    columns = {place: [bisect_left(edges[place], row[place]) for row in examples.rows] for place in places}
    mass = sum(examples.weights)
    rate = sum(label * weight for label, weight in zip(examples.labels, examples.weights, strict=True)) / mass
    start = math.log(rate / (1 - rate))
    odds = [start] * len(examples.rows)
    trees: list[Node] = []
    for number in range(growth.trees):
        chosen = sorted(chance.sample(list(places), max(1, round(len(places) * growth.share))))
        slopes, curves = _slopes(examples, odds)
        tree = _grow_tree(chosen, columns, edges, slopes, curves, growth)
        trees.append(tree)
        for index, row in enumerate(examples.rows):
            odds[index] += _drop(tree, row)
        report(number + 1)
    return Forest(start, tuple(trees))


def rescale(forest: Forest, slope: float, offset: float) -> Forest:
    """The forest whose log-odds are `slope · odds + offset`: how calibration is written into it."""
    return Forest(slope * forest.start + offset, tuple(_rescale(tree, slope) for tree in forest.trees))


def _rescale(node: Node, slope: float) -> Node:
    if isinstance(node, Leaf):
        return Leaf(node.value * slope, ())
    return Split(node.feature, node.most, node.mean * slope, _rescale(node.low, slope), _rescale(node.high, slope))


def _find_edges(values: list[float], bins: int) -> list[float]:
    """The values at which a feature may divide, about equally many examples apart."""
    ordered = sorted(values)
    distinct = sorted(set(ordered))
    if len(distinct) <= bins:
        return distinct[:-1]
    return sorted({ordered[len(ordered) * cut // bins] for cut in range(1, bins)} - {distinct[-1]})


def _slopes(examples: Examples, odds: list[float]) -> tuple[list[float], list[float]]:
    slopes, curves = [], []
    for label, weight, value in zip(examples.labels, examples.weights, odds, strict=True):
        p = 1 / (1 + math.exp(-value))
        slopes.append((label - p) * weight)
        curves.append(p * (1 - p) * weight)
    return slopes, curves


def _grow_tree(
    chosen: list[int],
    columns: dict[int, list[int]],
    edges: dict[int, list[float]],
    slopes: list[float],
    curves: list[float],
    growth: Growth,
) -> Node:
    """Divide the branch that gains most, until there are enough leaves."""

    def plant(members: list[int]) -> _Branch:
        branch = _Branch(members, 0.0, 0.0, [], [])
        for place in chosen:
            column, size = columns[place], len(edges[place]) + 1
            sums, bends = [0.0] * size, [0.0] * size
            for index in members:
                found = column[index]
                sums[found] += slopes[index]
                bends[found] += curves[index]
            branch.slopes.append(sums)
            branch.curves.append(bends)
        branch.slope, branch.curve = sum(branch.slopes[0]), sum(branch.curves[0])
        _find_division(branch, growth)
        return branch

    def build(branch: _Branch) -> Node:
        value = growth.rate * branch.slope / (branch.curve + growth.pull)
        if id(branch) not in divided:
            return Leaf(value, ())
        low, high = divided[id(branch)]
        place = chosen[branch.column]
        return Split(place, edges[place][branch.bin], value, build(low), build(high))

    root = plant(list(range(len(slopes))))
    open_ones = [root]
    divided: dict[int, tuple[_Branch, _Branch]] = {}
    for _ in range(growth.leaves - 1):
        best = max(open_ones, key=lambda branch: branch.gain)
        if best.gain <= 0:
            break
        column, limit = columns[chosen[best.column]], best.bin
        low = plant([index for index in best.members if column[index] <= limit])
        high = plant([index for index in best.members if column[index] > limit])
        divided[id(best)] = (low, high)
        open_ones.remove(best)
        open_ones += [low, high]
    return build(root)


def _find_division(branch: _Branch, growth: Growth) -> None:
    """Where dividing gains most; both sides must weigh enough."""
    whole = branch.slope**2 / (branch.curve + growth.pull)
    least = growth.least_weight / 4  # a curve is a quarter of its weight at most
    for column, (sums, bends) in enumerate(zip(branch.slopes, branch.curves, strict=True)):
        slope = curve = 0.0
        for limit in range(len(sums) - 1):
            slope += sums[limit]
            curve += bends[limit]
            rest = branch.curve - curve
            if curve < least:
                continue
            if rest < least:
                break
            gain = slope**2 / (curve + growth.pull) + (branch.slope - slope) ** 2 / (rest + growth.pull) - whole
            if gain > branch.gain + 1e-12:
                branch.gain, branch.column, branch.bin = gain, column, limit


def _drop(node: Node, row: Sequence[float]) -> float:
    while isinstance(node, Split):
        node = node.low if row[node.feature] <= node.most else node.high
    return node.value
