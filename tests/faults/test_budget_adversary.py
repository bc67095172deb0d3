"""Callers with budgets, against a router of its own process: what the upstream wrote never costs more than they may spend.

`python -m tests.faults.test_budget_adversary 2000` acts out 2,000 histories, and prints the worst.
"""

import asyncio
import sys
import tempfile
from pathlib import Path

from tests.faults.spenders import History, spend


def find_over(histories: list[History]) -> list[str]:
    return [str(history) for history in histories if history.over > history.may_be_over]


async def test_whatever_callers_do_they_spend_no_more_than_their_budget(tmp_path):
    histories = await spend(tmp_path, 40)

    assert find_over(histories) == []
    assert sum(history.served for history in histories) > 120


def _report(count: int) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        histories = asyncio.run(spend(Path(folder), count))
    calls, served = sum(history.calls for history in histories), sum(history.served for history in histories)
    print(f"{count} histories: {calls} calls, {served} answers")
    for honours, name in ((True, "keeps to the cap"), (False, "ignores it")):
        of_kind = [history for history in histories if history.honours is honours]
        worst = max(of_kind, key=lambda history: history.over)
        print(f"  upstream {name}: {len(of_kind)}, worst {worst.over:+.6f} USD, {worst} (may be: {worst.may_be_over:.6f})")
    over = find_over(histories)
    print(*(f"  over: {each}" for each in over), sep="\n")
    return over


if __name__ == "__main__":
    sys.exit(bool(_report(int(sys.argv[1]))))
