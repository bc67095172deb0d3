"""Callers with budgets, against a router of its own processes: what the upstream wrote never costs more than they may spend.

`python -m tests.faults.test_budget_adversary 2000` acts out 2,000 histories with one worker and with two, and prints the worst.
"""

import asyncio
import sys
import tempfile
from pathlib import Path

import pytest

from tests.faults.spenders import History, spend
from tests.tools.valkey import find_server


def find_over(histories: list[History]) -> list[str]:
    return [str(history) for history in histories if history.over > history.may_be_over]


needs_valkey = pytest.mark.skipif(find_server() is None, reason="no Valkey or Redis server on this machine")


@pytest.mark.parametrize(("workers", "count"), [(1, 40), pytest.param(2, 12, marks=[needs_valkey, pytest.mark.stores])])
async def test_whatever_callers_do_they_spend_no_more_than_their_budget(tmp_path, workers, count):
    histories = await spend(tmp_path, count, workers=workers)

    assert find_over(histories) == []
    assert sum(history.served for history in histories) > 3 * count


def _report(count: int, workers: int) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        histories = asyncio.run(spend(Path(folder), count, workers=workers))
    calls, served = sum(history.calls for history in histories), sum(history.served for history in histories)
    print(f"{count} histories, {workers} workers: {calls} calls, {served} answers")
    for honours, name in ((True, "keeps to the cap"), (False, "ignores it")):
        of_kind = [history for history in histories if history.honours is honours]
        worst = max(of_kind, key=lambda history: history.over)
        print(f"  upstream {name}: {len(of_kind)}, worst {worst.over:+.6f} USD, {worst} (may be: {worst.may_be_over:.6f})")
    over = find_over(histories)
    print(*(f"  over: {each}" for each in over), sep="\n")
    return over


if __name__ == "__main__":
    found = [_report(int(sys.argv[1]), workers) for workers in (1, 2)]
    sys.exit(any(found))
