"""What is assumed of fast, as options."""

import argparse

import pytest

from router.cli.assumptions import add_assumption_arguments, read_assumptions
from router.decide.yardstick import Assumptions


def read(*arguments: str) -> Assumptions:
    parser = argparse.ArgumentParser()
    add_assumption_arguments(parser)
    return read_assumptions(parser.parse_args(arguments))


def test_without_options_it_is_what_the_yardstick_assumes():
    assert read() == Assumptions()


def test_every_part_can_be_said_otherwise():
    assert read("--fails-quick", "0.08", "--fails-long", "1", "--failure-seconds", "0") == Assumptions(0.08, 1.0, 0.0)


@pytest.mark.parametrize(
    "arguments",
    [("--fails-quick", "8"), ("--fails-long", "-0.1"), ("--fails-long", "nan"), ("--failure-seconds", "inf"),
     ("--failure-seconds", "-1"), ("--failure-seconds", "soon")],
)  # fmt: skip
def test_what_cannot_be_is_refused(arguments, capsys):
    with pytest.raises(SystemExit):
        read(*arguments)

    assert f'argument {arguments[0]}: "{arguments[1]}" is not a number from 0 to ' in capsys.readouterr().err
