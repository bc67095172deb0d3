"""A ledger of made-up rows: what a test does not name is as of a served ask."""

import itertools
import json
import sqlite3
from contextlib import closing
from pathlib import Path

from router.stores.sqlite.files import create_private
from router.stores.sqlite.migrate import LEDGER, prepare

PLAIN = {
    "at": 1_000.0,
    "caller": "local",
    "session": "s",
    "turn_kind": "ask",
    "client": "codex",
    "dialect": "chat",
    "model": "auto",
    "streaming": 0,
    "outcome": "SERVED",
    "status": 200,
    "tier": "fast",
    "target": "spark",
    "score": 0.2,
    "decision": {"decided_by": "estimate"},
    "attempts": "[]",
    "overhead_ms": 1.0,
    "duration_ms": 1.0,
    "output_tokens": 100,
}


def write_ledger(path: Path, *rows: dict) -> Path:
    """A ledger with these entries, in this order. Ids are req_1, req_2, and so on."""
    create_private(path)
    prepare(path, LEDGER)
    with closing(sqlite3.connect(path)) as database, database:
        for number, row in zip(itertools.count(1), rows, strict=False):
            values = {"id": f"req_{number}", **PLAIN, **row}
            if isinstance(values["decision"], dict):
                values["decision"] = json.dumps(values["decision"])
            names = ", ".join(values)
            database.execute(f"INSERT INTO entries ({names}) VALUES ({', '.join('?' * len(values))})", tuple(values.values()))
    return path
