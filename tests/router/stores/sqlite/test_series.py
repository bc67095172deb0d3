"""Series for plots: those of all rows, though most come from sums."""

import contextlib

import pytest

from router.contract.caller import Caller
from router.stores.recent import row_of
from router.stores.sqlite.files import connect
from router.stores.sqlite.hours import HOUR
from router.stores.sqlite.past import SqliteEntryReader
from tests.tools.drawn_ledger import BEGAN, CALLERS, INSERT, Drawn
from tests.tools.kept import make_entry


@pytest.mark.parametrize(("step", "steps"), [(1_200.0, 72), (7_200.0, 84), (28_800.0, 90), (86_400.0, 90)])
@pytest.mark.parametrize("seed", range(2))
def test_series_are_those_of_all_rows_after_whatever_happened(tmp_path, step, steps, seed, monkeypatch):
    drawn = Drawn(tmp_path / "l.db", seed, monkeypatch if seed else None)
    reader = SqliteEntryReader(drawn.path)

    for _ in range(12):
        drawn.change_something()

        ends_at = (drawn.now // step + 1) * step
        for caller in (None, "ada"):
            found = reader.read_series(ends_at, step, steps, caller)

            assert {name: series._asdict() for name, series in found.items()} == scan_series(
                drawn, ends_at, step, steps, caller
            )


def scan_series(drawn: Drawn, ends_at: float, step: float, steps: int, caller: str | None) -> dict:
    begins_at = ends_at - step * steps
    rows = drawn.scan(
        """SELECT target, tier, outcome, ttft_ms, tokens_per_second, at FROM entries WHERE at >= :begins AND at < :ends
        AND target IS NOT NULL AND (:caller IS NULL OR caller = :caller) ORDER BY at DESC""",
        begins=begins_at, ends=ends_at, caller=caller,
    )  # fmt: skip
    found: dict = {}
    for target in {row[0] for row in rows}:
        own = [row for row in rows if row[0] == target]
        parts = [[row for row in own if (row[5] - begins_at) // step == number] for number in range(steps)]
        waits = [sorted(row[3] for row in part if row[3] is not None) for part in parts]
        speeds = [sorted(row[4] for row in part if row[4] is not None) for part in parts]
        found[target] = {
            "tier": own[0][1],
            "calls": [len(part) for part in parts],
            "errors": [sum(row[2] in ("FAILED", "CUT_SHORT") for row in part) for part in parts],
            "ttft_ms": [rank(part, 50) for part in waits],
            "ttft_p95_ms": [rank(part, 95) for part in waits],
            "tokens_per_second": [rank(part, 50) for part in speeds],
        }
    return found


def rank(values: list[float], percent: int) -> float | None:
    return values[-(-len(values) * percent // 100) - 1] if values else None


def test_a_plot_takes_the_newest_calls_of_each_step(tmp_path, monkeypatch):
    monkeypatch.setattr("router.stores.sqlite.series._SERIES_VALUES", 0)
    monkeypatch.setattr("router.stores.sqlite.series._LEAST_VALUES", 2)
    drawn = Drawn(tmp_path / "l.db", 1)
    begins = BEGAN - BEGAN % HOUR
    with contextlib.closing(connect(drawn.path)) as database:
        for number, ttft in enumerate((5.0, 9.0, 1.0, 7.0)):  # two callers take turns, an hour apart from the last
            at, caller = begins + 600 * number + (HOUR if number > 2 else 0), Caller(CALLERS[number % 2])
            database.execute(INSERT, row_of(make_entry(f"req_{number}", caller, at=at, ttft_ms=ttft)))
    drawn.now = begins + 3 * HOUR
    drawn.settle(9)

    found = SqliteEntryReader(drawn.path).read_series(begins + 4 * HOUR, 4.0 * HOUR, 1, None)

    assert (found["spark"].calls, found["spark"].ttft_ms, found["spark"].ttft_p95_ms) == ([4], [1.0], [7.0])
