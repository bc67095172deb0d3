"""The trained weights: small trees over `Features` whose leaves add up to log-odds, and who moved them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from router.contract.request import Json, JsonObject


class Leaf(NamedTuple):
    """Where a tree ends: what it adds, and how much of that each feature on the way is answerable for."""

    value: float
    shares: tuple[tuple[int, float], ...]


class Split(NamedTuple):
    """Where a tree divides: up to and including `most` goes to `low`. `mean` is what the tree would add if it ended here."""

    feature: int
    most: float
    mean: float
    low: "Node"
    high: "Node"


Node = Split | Leaf


@dataclass(frozen=True, slots=True)
class Forest:
    """Trees that are summed. `start` is the log-odds before any of them."""

    start: float
    trees: tuple[Node, ...]

    def read(self, values: Sequence[float]) -> tuple[float, list[float]]:
        """The log-odds of a long task, and each feature's share of them, in the order of the values."""
        total = self.start
        shares = [0.0] * len(values)
        for tree in self.trees:
            node: Any = tree  # by place and not by name, and without isinstance: this is the reading's inner loop
            while type(node) is Split:
                node = node[3] if values[node[0]] <= node[1] else node[4]
            total += node[0]
            for feature, share in node[1]:
                shares[feature] += share
        return total, shares


def read_forest(found: Json, fields: Sequence[str]) -> Forest:
    """A forest from its JSON. Raises `ValueError` where it is none, or names a feature that does not exist."""
    try:
        assert isinstance(found, dict)
        start, trees = found["start"], found["trees"]
        assert isinstance(start, (int, float))
        assert isinstance(trees, list)
        places = {name: place for place, name in enumerate(fields)}
        return Forest(float(start), tuple(_read_node(tree, places, ()) for tree in trees))
    except (AssertionError, KeyError, TypeError) as error:
        raise ValueError(f"these are no weights of this version: {type(error).__name__} {error}") from error


def _read_node(found: Json, places: dict[str, int], way: tuple[tuple[int, float], ...]) -> Node:
    """A node is `[feature, most, mean, low, high]`, a leaf its value. `way` holds the steps so far and the mean before each."""
    if isinstance(found, (int, float)):
        shares: dict[int, float] = {}
        means = [*[mean for _, mean in way[1:]], float(found)]
        for (feature, before), after in zip(way, means, strict=False):  # a tree that is one leaf took no steps
            shares[feature] = shares.get(feature, 0.0) + after - before
        return Leaf(float(found), tuple(shares.items()))
    assert isinstance(found, list)
    name, most, mean, low, high = found
    assert isinstance(name, str)
    assert isinstance(most, (int, float))
    assert isinstance(mean, (int, float))
    feature = places[name]
    way = (*way, (feature, float(mean)))
    return Split(feature, float(most), float(mean), _read_node(low, places, way), _read_node(high, places, way))


def write_forest(forest: Forest, fields: Sequence[str], digits: int = 4) -> JsonObject:
    """The forest as JSON, rounded: reading it back gives what will be served."""
    return {"start": round(forest.start, digits), "trees": [_write_node(tree, fields, digits) for tree in forest.trees]}


def _write_node(node: Node, fields: Sequence[str], digits: int) -> Json:
    if isinstance(node, Leaf):
        return round(node.value, digits)
    low, high = _write_node(node.low, fields, digits), _write_node(node.high, fields, digits)
    return [fields[node.feature], node.most, round(node.mean, digits), low, high]
