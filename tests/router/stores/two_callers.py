"""A ledger with the requests of two callers, and a look for the words of one of them."""

import sqlite3
from contextlib import closing
from pathlib import Path

from router.contract.caller import Caller, SessionKey, record_name
from tests.tools.ledgers import write_ledger

CANARY = "canary-5d1e77"


def write_two(path: Path) -> Path:
    """A ledger with two callers; the words of ada are in it, and take several pages."""
    rows = [{"id": f"req_{who}_{number}", "caller": who, "prompt_text": f"{CANARY if who == 'ada' else who} " * 300}
            for number in range(20) for who in ("ada", "bob")]  # fmt: skip
    write_ledger(path, *rows)
    with closing(sqlite3.connect(path)) as database, database:
        for who in ("ada", "bob"):
            key = SessionKey(Caller(who), "s")
            database.execute("INSERT INTO sessions VALUES (?, 1.0, x'00')", (record_name(key),))
            database.execute("INSERT INTO misjudged VALUES (?, 1.0, 'deep')", (f"req_{who}_1",))
    return path


def ask(path: Path, sql: str) -> list:
    with closing(sqlite3.connect(path)) as database:
        return database.execute(sql).fetchall()


def found_in(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.rglob("*") if file.is_file() and CANARY.encode() in file.read_bytes())
