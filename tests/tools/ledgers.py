"""Ledger rows without a router, and the locks of a process on a file."""

import contextlib
import json
import os
import time
from pathlib import Path

import pytest

from router.contract.entry import COLUMNS, Attempt, Entry
from router.contract.exchange import Arrival, Deadline, Exchange
from router.contract.facts import AttemptEnded, AttemptOpened, Decided, Ending, Read, Settled
from router.contract.usage import Usage
from router.contract.words import Operation, Outcome
from router.house import House
from router.settle.entry import write_entry
from router.stores.recent import row_of
from router.stores.sqlite import migrate
from router.stores.sqlite.files import connect, create_private
from router.stores.sqlite.migrate import prepare
from router.stores.sqlite.rows import transaction
from router.stores.sqlite.schemas import LEDGER, Migrations
from tests.tools.exchanges import Told
from tests.tools.kept import make_entry

_NAMES = (*COLUMNS, "decision", "attempts", "prompt_text", "answer_text")


_PLAIN = make_entry(at=1_000.0, output_tokens=100, decision='{"decided_by":"estimate"}', attempts="[]")


def write_ledger(path: Path, *entries: Entry | dict, migrations: Migrations = LEDGER) -> Path:
    """Write these rows, in the schema of LEDGER or of its beginning.

    Of a row that is given as columns, with whatever is in them, the rest is as of a served ask; ids are req_1, req_2, and so on.
    """
    create_private(path)
    prepare(path, migrations)
    with contextlib.closing(connect(path)) as database:
        migrate._add_columns(database)
    with contextlib.closing(connect(path)) as database, transaction(database):
        there = {name for (name,) in database.execute("SELECT name FROM pragma_table_info('entries')")}
        names = [name for name in _NAMES if name in there]
        rows = [_read_columns(number, entry) for number, entry in enumerate(entries, 1)]
        database.executemany(
            f"INSERT INTO entries ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})",
            [[row[name] for name in names] for row in rows],
        )
    return path


def _read_columns(number: int, entry: Entry | dict) -> dict[str, object]:
    if isinstance(entry, Entry):
        return dict(zip(_NAMES, row_of(entry), strict=True))
    values = {**_read_columns(number, _PLAIN), "id": f"req_{number}", **entry}
    return values | {"decision": json.dumps(values["decision"])} if isinstance(values["decision"], dict) else values


def locks_on(path: Path, pid: int | None = None) -> list[tuple[str, ...]]:
    """Kind and range of a process's locks on a file. Skips where the system has no list."""
    listed = Path("/proc/locks")
    if not listed.exists():
        pytest.skip("the system lists no locks")
    owner, inode = str(pid or os.getpid()), str(path.stat().st_ino)
    lines = [line.split() for line in listed.read_text().splitlines()]
    return sorted(tuple(line[3:4] + line[6:]) for line in lines if line[4] == owner and line[5].rpartition(":")[2] == inode)


def keep_entry(
    house: House,
    decided: Decided,
    *,
    outcome: Outcome,
    tier: str | None = None,
    keeps_text: bool = False,
    output_tokens: int | None = None,
) -> None:
    """Record that a simulated target served a request; by default the decision's, with an uncounted answer."""
    view, decision = decided.view, decided.decision
    target = house.plan.targets[f"simulated-{tier or decision.tier}"]
    arrival = Arrival(view.id, view.dialect, Operation.CREATE, view.headers, view.raw, view.caller)
    exchange = Exchange(arrival, 0.0, Deadline(600.0), Told())
    usage = Usage(100, output_tokens) if output_tokens is not None else None
    for fact in (
        Read(view),
        decided,
        AttemptOpened(0.1, target, "", ()),
        AttemptEnded(0.2, target, Attempt(target.name, 200, None, 0.1), None, usage, None),
    ):
        exchange.note(fact)
    settled = Settled(0.2, Ending(outcome, 200), b"" if keeps_text else None)
    house.state.entries.append(write_entry(exchange, settled, time.time()))
