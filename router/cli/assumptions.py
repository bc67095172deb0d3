"""Options for the assumed cost of a wrong first answer."""

import argparse

from router.cli.common import number_between
from router.decide.yardstick import Assumptions


def add_assumption_arguments(parser: argparse.ArgumentParser) -> None:
    usual, group = Assumptions(), parser.add_argument_group("assumptions about fast")
    for kind, share in (("quick", usual.fails_quick), ("long", usual.fails_long)):
        group.add_argument(
            f"--fails-{kind}",
            type=number_between(0, 1),
            default=share,
            metavar="SHARE",
            help=f"share of {kind} turns fast gets wrong (default: {share:g})",
        )
    group.add_argument(
        "--failure-seconds",
        type=number_between(0, 100_000),
        default=usual.failure_seconds,
        metavar="SECONDS",
        help=f"cost of a wrong answer, besides the turn on deep (default: {usual.failure_seconds:g})",
    )


def read_assumptions(arguments: argparse.Namespace) -> Assumptions:
    return Assumptions(arguments.fails_quick, arguments.fails_long, arguments.failure_seconds)
