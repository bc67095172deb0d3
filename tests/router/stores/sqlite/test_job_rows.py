"""The statements of the queue: what each costs. What they must do is in `tests/contract/test_job_store.py`."""

import sqlite3

from tests.tools.jobs import LEASE_SECONDS, MANY, Clock, make_ending, make_job, make_segment, open_sqlite_jobs
from tests.tools.kept import ANN


async def test_no_statement_reads_a_whole_table(tmp_path):
    store = open_sqlite_jobs(tmp_path / "jobs.db", [], Clock())
    seen: list[str] = []
    await store._writer.run(lambda database: database.set_trace_callback(seen.append))
    await store.add(make_job("resp_1"), MANY, 5)
    job = await store.claim("here:1:1", LEASE_SECONDS, MANY)
    await store.append(job, [make_segment(0)])
    await store.finish(job, make_ending())
    await store.cancel("resp_1", ANN, make_ending())
    await store.take_due(make_ending().at, 60.0)
    statements = [one for one in seen if one.lstrip().split()[0] in ("SELECT", "UPDATE", "DELETE", "INSERT")]

    def explain(database: sqlite3.Connection) -> list[str]:
        return [row[3] for one in statements for row in database.execute(f"EXPLAIN QUERY PLAN {one}")]

    plans = await store._writer.run(explain)

    assert len(statements) > 8
    scans = {plan for plan in plans if plan.startswith(("SCAN jobs", "SCAN segments", "SCAN outbox"))}
    assert scans == {"SCAN jobs USING COVERING INDEX jobs_bytes"}  # the sum of all: an index of names and sizes, not the jobs
    await store.close()
