"""How many workers there are to be."""

import argparse
import os

import pytest

from router.cli.workers import count_cores, count_workers, read_worker_count


def test_a_container_s_share_of_time_limits_the_cores(tmp_path):
    limit = tmp_path / "cpu.max"
    limit.write_text("50000 100000\n")

    assert count_cores(limit) == 1


@pytest.mark.parametrize("text", ["max 100000\n", "nonsense", "1 0"])
def test_without_a_limit_every_core_counts(tmp_path, text):
    limit = tmp_path / "cpu.max"
    limit.write_text(text)

    assert count_cores(limit) == count_cores(tmp_path / "missing") == len(os.sched_getaffinity(0))


def test_a_number_is_taken_as_it_is():
    assert count_workers(read_worker_count("3")) == 3


@pytest.mark.parametrize("text", ["0", "-1", "257", "many", "1.5"])
def test_what_is_not_a_count_is_refused(text):
    with pytest.raises(argparse.ArgumentTypeError, match="or auto"):
        read_worker_count(text)
