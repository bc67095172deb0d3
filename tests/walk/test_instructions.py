"""The instruction budget of docs/how-it-works/budget.md, which covers work in C."""

import re
import shutil
import sys
from pathlib import Path

import pytest

from tests.bench.instructions import REPEATED, cases, count_instructions

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "how-it-works" / "budget.md").read_text()
TIMES = {kind: float(times) for kind, times in re.findall(r"^\| ([\w, -]+) \| ([\d.]+) times \|$", PAGE, re.MULTILINE)}
(THREADS,) = (float(share) for share in re.findall(r"^\| all but the loop's \| ([\d.]+) \|$", PAGE, re.MULTILINE))
(PIECE,) = (float(share) for share in re.findall(r"^\| a relayed piece \| ([\d.]+) \|$", PAGE, re.MULTILINE))
MARGIN = 1.12
THREADS_MARGIN = 1.25
"""How many rows a batch has depends on the machine's load, as do the timers that a piece meets."""

pytestmark = [
    pytest.mark.timeout(170),
    pytest.mark.skipif(shutil.which("valgrind") is None, reason="instructions are counted by valgrind: apt install valgrind"),
    pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the budget is of Python 3.11"),
]


def test_requests_keep_their_budget_in_instructions():
    kinds = [kind for of_router in cases().values() for kind in of_router]
    assert sorted([REPEATED, *TIMES]) == sorted(kinds)

    found = count_instructions()

    times = {kind: found.kinds[kind] / found.kinds[REPEATED] for kind in TIMES}
    assert {kind: seen for kind, seen in times.items() if seen > TIMES[kind] * MARGIN} == {}
    assert {kind: seen for kind, seen in times.items() if seen < TIMES[kind] / 1.5} == {}  # no slack in a budget
    assert THREADS / 1.5 < found.burst.others / found.burst.loop <= THREADS * THREADS_MARGIN, found.burst
    assert PIECE / 1.5 < found.piece / found.burst.loop <= PIECE * THREADS_MARGIN, found
