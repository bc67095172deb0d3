import itertools

import pytest

from tests.tools.cases import covering

AXES = ("abc", "defgh", [1, 2], [True, False])


@pytest.mark.parametrize("strength", [1, 2, 3, 4])
def test_every_few_values_of_different_axes_meet_in_some_row(strength):
    rows = covering(*AXES, strength=strength)

    for group in itertools.combinations(range(len(AXES)), strength):
        met = {tuple(row[axis] for axis in group) for row in rows}
        assert met == set(itertools.product(*(AXES[axis] for axis in group)))


def test_pairs_take_far_fewer_rows_than_the_product():
    assert len(covering(*AXES)) <= 20
    assert covering(*AXES) == covering(*AXES)
    assert len(set(covering(*AXES, strength=4))) == 60
