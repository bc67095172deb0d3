import math

import pytest

from router.contract.forest import Leaf, read_forest, write_forest
from router.lab.boost import Examples, Growth, grow_forest, rescale

FIELDS = ("a", "b")
ROWS = [(number % 10, number % 7) for number in range(700)]
EXAMPLES = Examples(ROWS, [float(a > 4) for a, _ in ROWS], [1.0] * len(ROWS))
GROWTH = Growth(trees=20, share=1.0, rate=0.3)


def test_a_forest_finds_the_feature_that_decides():
    forest = read_forest(write_forest(grow_forest(EXAMPLES, (0, 1), GROWTH), FIELDS), FIELDS)

    low, _ = forest.read((1, 3))
    high, shares = forest.read((9, 3))

    assert low < -1 < 1 < high
    assert shares[0] > abs(shares[1])


def test_the_same_examples_give_the_same_forest():
    assert grow_forest(EXAMPLES, (0, 1), GROWTH) == grow_forest(EXAMPLES, (0, 1), GROWTH)


def test_a_feature_that_is_not_allowed_is_not_used():
    forest = read_forest(write_forest(grow_forest(EXAMPLES, (1,), GROWTH), FIELDS), FIELDS)

    assert forest.read((0, 3))[0] == forest.read((9, 3))[0]


def test_shares_add_up_to_what_the_trees_added():
    forest = read_forest(write_forest(grow_forest(EXAMPLES, (0, 1), GROWTH), FIELDS, digits=9), FIELDS)
    roots = sum(tree.value if isinstance(tree, Leaf) else tree.mean for tree in forest.trees)

    total, shares = forest.read((9, 3))

    assert math.isclose(forest.start + roots + sum(shares), total, abs_tol=1e-6)


def test_rescaling_changes_the_odds_as_said():
    forest = grow_forest(EXAMPLES, (0, 1), GROWTH)

    assert rescale(forest, 2.0, 0.5).read((9, 3))[0] == pytest.approx(2 * forest.read((9, 3))[0] + 0.5)


@pytest.mark.parametrize(
    "found", [None, [], {}, {"start": 0}, {"start": 0, "trees": [["c", 1, 0, 0, 0]]}, {"start": 0, "trees": ["x"]}]
)
def test_what_are_no_weights_is_refused(found):
    with pytest.raises(ValueError, match="no weights"):
        read_forest(found, FIELDS)
