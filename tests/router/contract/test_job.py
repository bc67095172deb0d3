"""How callers share the queue of jobs and their disk."""

import pytest

from router.contract.job import JobTerms

MB = 1 << 20
TERMS = JobTerms(most_queued=8, max_disk_mb=100, share=0.75)


@pytest.mark.parametrize(("own", "taken", "may"), [(5, 5, True), (6, 6, False), (0, 7, True), (1, 7, False), (0, 8, False)])
def test_a_caller_may_queue_its_share_and_leaves_one_for_another(own, taken, may):
    assert TERMS.may_queue(own, taken) is may


@pytest.mark.parametrize(
    ("sizes", "may"),
    [
        ({}, True),
        ({"ada": 74 * MB}, True),
        ({"ada": 75 * MB}, False),
        ({"ada": 40 * MB, "bob": 40 * MB}, True),
        ({"ada": 50 * MB, "bob": 40 * MB}, False),
        ({"ada": 10 * MB, "eve": 180 * MB}, True),
        ({"eve": 180 * MB}, True),
    ],
)
def test_a_caller_may_write_its_share_and_what_another_wrote_beyond_its_own_is_not_held_against_it(sizes, may):
    assert TERMS.may_write("ada", sizes) is may


def test_without_shares_the_whole_is_the_only_bound():
    terms = JobTerms(most_queued=8, max_disk_mb=100)

    assert (terms.may_queue(7, 7), terms.may_queue(8, 8)) == (True, False)
    assert (terms.may_write("ada", {"ada": 99 * MB}), terms.may_write("ada", {"ada": 100 * MB})) == (True, False)
