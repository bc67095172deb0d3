"""The queue's rules in SQL. Each function needs an exclusive transaction."""

import contextlib
import secrets
import sqlite3
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

from router.contract.caller import Caller
from router.contract.job import PART_BYTES, Job, JobEnding, JobTerms, Segment, WebhookEvent
from router.contract.share import Turns
from router.contract.stores import StoreUnusable
from router.stores.job_records import ADDED, AHEAD_SECONDS, FOUND, MOST_ATTEMPTS, WHOLE, name_of, to_job, to_row
from router.stores.sqlite.files import connect_to_read

_OWNED = "id = ? AND owner = ? AND attempt = ? AND state = 'running'"
_UNFINISHED = "state IN ('queued', 'running')"
_RELEASED = "state = 'running' AND leased_until = 0"
_OVERDUE = "state = 'running' AND leased_until > 0 AND (leased_until < ? OR leased_until > ?) AND owner != ?"
_LONG_AGO = 1.0
"""The expiry of an abandoned lease."""
_IS_LOST = f"(is_cancelled OR is_handed_out OR attempt >= {MOST_ATTEMPTS})"
_QUEUED = "SELECT count(*) FILTER (WHERE caller = ?), count(*) FROM jobs WHERE state = 'queued'"
_ENDED = "SELECT caller, sum(bytes) FROM jobs GROUP BY caller"
_DISK = """
    SELECT caller, sum(size) FROM (
        SELECT caller, bytes AS size FROM jobs UNION ALL
        SELECT caller, length(body) FROM jobs WHERE state IN ('queued', 'running')
    ) GROUP BY caller
"""
_WAITING = """
    SELECT min(sequence), caller, (SELECT count(*) FROM jobs r WHERE r.state = 'running' AND r.caller = q.caller) AS running
    FROM jobs q WHERE state = 'queued' GROUP BY caller HAVING running < ?
"""
"""Each caller's oldest queued job."""
_APPEND = f"""
    INSERT INTO segments (job, first, last, attempt, has_content, frames)
    SELECT sequence, ?, ?, attempt, ?, ? FROM jobs WHERE {_OWNED}
    ON CONFLICT (job, first) DO UPDATE
    SET last = excluded.last, attempt = excluded.attempt, has_content = excluded.has_content, frames = excluded.frames
"""  # noqa: S608  fixed names
_REPLACE = "DELETE FROM segments WHERE first > ? AND job = (SELECT sequence FROM jobs WHERE id = ?)"
_END = """
    state = ?1, ended_at = ?2, response = ?3, queued = x'', headers = '{}', leased_until = 0,
    bytes = length(body) + length(?3) + (SELECT ifnull(sum(length(frames)), 0) FROM segments WHERE job = jobs.sequence)
"""
_ALL = 1 << 40
_BLOCK_BYTES, _BLOCKS = 1 << 20, 8
_Place = tuple[str, str, int]
"""A table, a column and a row."""
READ = """
    SELECT s.first, s.last, CASE WHEN length(s.frames) <= :most THEN s.frames END, length(s.frames), s.has_content, j.attempt,
        j.is_handed_out OR j.ended_at IS NOT NULL, s.rowid
    FROM segments s JOIN jobs j ON j.sequence = s.job
    WHERE j.id = :id AND j.caller = ifnull(:caller, j.caller) AND s.last > :after ORDER BY s.first
"""


def add(
    database: sqlite3.Connection, job: Job, terms: JobTerms, most_of_caller: int | None, leased_until: float | None = None
) -> bool:
    """False if the queue, the disk or its caller's share is full. A leased job counts as handed out."""
    if leased_until is None and not terms.may_queue(*database.execute(_QUEUED, (job.caller.name,)).fetchone()):
        return False
    if not terms.may_write(job.caller.name, dict(database.execute(_DISK).fetchall())):
        return False
    if most_of_caller is not None and _count(database, f"caller = ? AND {_UNFINISHED}", job.caller.name) >= most_of_caller:
        return False
    values = to_row(job)
    database.execute(f"INSERT INTO jobs ({ADDED}) VALUES ({', '.join('?' * len(values))})", values)  # noqa: S608  fixed names
    if leased_until is not None:
        begun = "state = 'running', attempt = 1, owner = ?, leased_until = ?, is_handed_out = 1"
        database.execute(f"UPDATE jobs SET {begun} WHERE id = ?", (job.owner, leased_until, job.id))  # noqa: S608  fixed names
    return True


def claim(
    database: sqlite3.Connection,
    owner: str,
    now: float,
    lease_seconds: float,
    terms: JobTerms,
    turns: Turns,
    believed: tuple[float, float],
) -> Job | None:
    """Claim a job: one to be recorded, else one only to be ended, else a queued one. Leases not `believed` have run out."""
    _take_back(database)
    until = now + lease_seconds
    kept = "UPDATE jobs SET owner = ?, leased_until = ? WHERE sequence = ?"
    for (sequence,) in database.execute(f"SELECT sequence FROM jobs WHERE {_OVERDUE} LIMIT 1", (*believed, owner)).fetchall():  # noqa: S608  fixed names
        database.execute(kept, (owner, until, sequence))
        return to_job(_fetch(database, sequence), is_unrecorded=True)
    for (sequence,) in database.execute(f"SELECT sequence FROM jobs WHERE {_RELEASED} LIMIT 1").fetchall():  # noqa: S608  fixed names
        database.execute(kept, (owner, until, sequence))
        return to_job(_fetch(database, sequence), is_lost=True)
    waiting = database.execute(_WAITING, (terms.most_for_a_caller,)).fetchall()
    sizes = dict(database.execute(_ENDED).fetchall()) if waiting else {}
    waiting = [row for row in waiting if terms.may_write(row[1], sizes)]
    for sequence, caller, _ in sorted(waiting, key=lambda row: (row[2], turns.last(row[1]), row[0]))[:1]:
        statement = "UPDATE jobs SET state = 'running', attempt = attempt + 1, owner = ?, leased_until = ? WHERE sequence = ?"
        database.execute(statement, (owner, until, sequence))
        turns.take(caller)
        return to_job(_fetch(database, sequence))
    return None


def _take_back(database: sqlite3.Connection) -> None:
    """Requeue released jobs, dropping their logs."""
    statement = f"SELECT sequence FROM jobs WHERE {_RELEASED} AND NOT {_IS_LOST}"  # noqa: S608  fixed names
    for sequence in database.execute(statement).fetchall():
        database.execute("DELETE FROM segments WHERE job = ?", sequence)
        again = "UPDATE jobs SET state = 'queued', owner = '', leased_until = 0, is_handed_out = 0 WHERE sequence = ?"
        database.execute(again, sequence)


def expire(database: sqlite3.Connection, is_gone: Callable[[str], bool]) -> None:
    for (owner,) in database.execute("SELECT DISTINCT owner FROM jobs WHERE state = 'running'").fetchall():
        if is_gone(owner):
            overdue = "UPDATE jobs SET leased_until = ? WHERE owner = ? AND state = 'running' AND leased_until > 0"
            database.execute(overdue, (_LONG_AGO, owner))


def renew(database: sqlite3.Connection, job: Job, owner: str, until: float) -> bool:
    statement = f"UPDATE jobs SET leased_until = ? WHERE {_OWNED} AND NOT is_cancelled"  # noqa: S608  fixed names
    return database.execute(statement, (until, job.id, owner, job.attempt)).rowcount > 0


def release(database: sqlite3.Connection, job: Job) -> None:
    owned = (job.id, job.owner, job.attempt)
    database.execute(f"UPDATE jobs SET leased_until = 0 WHERE {_OWNED}", owned)  # noqa: S608  fixed names


def append(database: sqlite3.Connection, job: Job, segments: Sequence[Segment]) -> bool:
    owned = (job.id, job.owner, job.attempt)
    rows = [(segment.first, segment.last, segment.has_content, segment.frames, *owned) for segment in segments]
    for number, row in enumerate(rows):
        if database.execute(_APPEND, row).rowcount <= 0:
            return False
        if number == 0:  # a lost write may have been cut elsewhere: delete all of it
            database.execute(_REPLACE, (row[0], job.id))
    return True


def finish(database: sqlite3.Connection, job: Job, ending: JobEnding, addresses: Iterable[str]) -> bool:
    """Idempotent."""
    values = (ending.state, ending.at, ending.response)
    owned = (job.id, job.owner, job.attempt)
    if database.execute(f"UPDATE jobs SET {_END} WHERE {_OWNED}", (*values, *owned)).rowcount:  # noqa: S608  fixed names
        _post(database, job.id, ending, addresses)
        return True
    return _count(database, "id = ? AND owner = ? AND attempt = ? AND state = ?", *owned, ending.state) > 0


def cancel(
    database: sqlite3.Connection, job_id: str, caller: Caller | None, ending: JobEnding, addresses: Iterable[str]
) -> Job | None:
    """End a queued job; flag a running one for its owner."""
    values = (ending.state, ending.at, ending.response, job_id, name_of(caller))
    whose = "id = ? AND caller = ifnull(?, caller)"
    statement = f"UPDATE jobs SET {_END}, is_cancelled = 1 WHERE {whose} AND state = 'queued'"  # noqa: S608  fixed names
    if database.execute(statement, values).rowcount:
        _post(database, job_id, ending, addresses)
    running = f"UPDATE jobs SET is_cancelled = 1 WHERE {whose} AND state = 'running' AND NOT is_cancelled"  # noqa: S608  fixed names
    is_new = database.execute(running, (job_id, name_of(caller))).rowcount > 0
    row = database.execute(f"SELECT {FOUND} FROM jobs WHERE {whose}", (job_id, name_of(caller))).fetchone()  # noqa: S608  fixed names
    return to_job(row, is_newly_cancelled=is_new) if row is not None else None


def forget(database: sqlite3.Connection, job_id: str, caller: Caller | None) -> bool:
    statement = "DELETE FROM jobs WHERE id = ? AND caller = ifnull(?, caller)"
    if not database.execute(statement, (job_id, name_of(caller))).rowcount:
        return False
    database.execute("DELETE FROM outbox WHERE job = ?", (job_id,))
    return True


def hand_out(database: sqlite3.Connection, job_id: str, attempt: int) -> bool:
    """False if another attempt has begun: read again."""
    statement = "UPDATE jobs SET is_handed_out = 1 WHERE id = ? AND attempt = ? AND state != 'queued'"
    return database.execute(statement, (job_id, attempt)).rowcount > 0


class LargeValues:
    """Reads parts of large values. Callers must not use it at the same time.

    SQLite walks a value from its beginning to the place that is read, so this is done for a block at a time, and the newest
    blocks are kept: readers of one log are often at about the same place.
    """

    def __init__(self) -> None:
        self._blocks: OrderedDict[object, bytes] = OrderedDict()

    def read(self, database: sqlite3.Connection, place: _Place, version: object, start: int, most_bytes: int) -> bytes:
        """Up to this many bytes, and fewer at the end of a block. `version` is another if the row is, or its value."""
        number, offset = divmod(start, _BLOCK_BYTES)
        if (block := self._blocks.get((place, version, number))) is None:
            with database.blobopen(*place, readonly=True) as value:
                value.seek(number * _BLOCK_BYTES)
                block = self._blocks[place, version, number] = value.read(_BLOCK_BYTES)
            if len(self._blocks) > _BLOCKS:
                self._blocks.popitem(last=False)
        return block[offset : offset + most_bytes]


def read_log(
    database: sqlite3.Connection,
    large: LargeValues,
    job_id: str,
    caller: str | None,
    after: int,
    most_bytes: int,
    part_at: int | None,
) -> list[Any]:
    rows: list[Any] = []
    inline = most_bytes if part_at is not None else _ALL
    left, cursor = most_bytes, database.execute(READ, {"id": job_id, "caller": caller, "after": after, "most": inline})
    for *row, number in cursor:
        first, _, frames, size, _, attempt, _ = row
        if frames is None:
            if rows:
                break
            place: _Place = ("segments", "frames", number)
            if first <= after and not part_at:
                with database.blobopen(*place, readonly=True) as value:
                    row[2] = value.read()
            else:
                row[2] = large.read(database, place, (job_id, first, size, attempt), part_at or 0, most_bytes)
        rows.append(row)
        if (left := left - len(row[2])) <= 0:
            break
    cursor.close()  # an open read would keep SQLite's log from being emptied
    return rows


def read_response(
    database: sqlite3.Connection, large: LargeValues, job_id: str, caller: str | None, start: int
) -> tuple[bytes, int]:
    """A part, and the size of the whole."""
    statement = """
        SELECT sequence, length(response), CASE WHEN length(response) <= ? THEN response END FROM jobs
        WHERE id = ? AND caller = ifnull(?, caller)
    """
    for sequence, size, response in database.execute(statement, (PART_BYTES, job_id, caller)).fetchall():
        if response is not None or start >= size:
            return (response or b"")[start:], size
        return large.read(database, ("jobs", "response", sequence), size, start, PART_BYTES), size
    return b"", 0


def collect(database: sqlite3.Connection, job_id: str) -> None:
    database.execute("UPDATE jobs SET is_collected = 1 WHERE id = ? AND ended_at IS NOT NULL", (job_id,))


def take_due(
    database: sqlite3.Connection, now: float, hold_seconds: float, limit: int, not_for: Collection[str]
) -> list[WebhookEvent]:
    """Events due now; due again after the hold."""
    columns = "SELECT id, job, address, event, at, tries, next_at FROM outbox"
    due = f"{columns} WHERE is_dead = 0 AND (next_at <= ? OR next_at > ?)"
    others = f"AND address NOT IN ({', '.join('?' * len(not_for))})"
    rows = database.execute(f"{due} {others} ORDER BY next_at LIMIT ?", (now, now + AHEAD_SECONDS, *not_for, limit)).fetchall()
    database.executemany("UPDATE outbox SET next_at = ? WHERE id = ?", [(now + hold_seconds, row[0]) for row in rows])
    return [WebhookEvent(*row) for row in rows]


def note_delivered(database: sqlite3.Connection, event_id: str) -> None:
    database.execute("DELETE FROM outbox WHERE id = ?", (event_id,))


def note_undelivered(database: sqlite3.Connection, event_id: str, next_at: float | None, now: float) -> None:
    statement = "UPDATE outbox SET tries = tries + 1, next_at = ?, is_dead = ? WHERE id = ?"
    database.execute(statement, (now if next_at is None else next_at, next_at is None, event_id))


def forget_old(database: sqlite3.Connection, oldest: float, limit: int) -> int:
    """Returns the number of jobs."""
    statement = "DELETE FROM jobs WHERE sequence IN (SELECT sequence FROM jobs WHERE ended_at < ? LIMIT ?)"
    database.execute("DELETE FROM outbox WHERE is_dead = 1 AND next_at < ?", (oldest,))
    return database.execute(statement, (oldest, limit)).rowcount


def count_unfinished(path: Path, keys: Sequence[str]) -> int:
    """How many jobs of these keys wait or run, in a file that may be in use. Raises `StoreUnusable`."""
    named = f"key IN ({', '.join('?' * len(keys))}) AND {_UNFINISHED}"
    try:
        with contextlib.closing(connect_to_read(path)) as database:
            return _count(database, named, *keys)
    except sqlite3.Error as error:
        raise StoreUnusable(f"{path} cannot be read: {error}") from error


def _post(database: sqlite3.Connection, job_id: str, ending: JobEnding, addresses: Iterable[str]) -> None:
    rows = [
        (f"evt_{secrets.token_hex(16)}", job_id, address, f"response.{ending.state}", ending.at, ending.at)
        for address in addresses
    ]
    names = "id, job, address, event, at, next_at"
    database.executemany(f"INSERT OR IGNORE INTO outbox ({names}) VALUES (?, ?, ?, ?, ?, ?)", rows)  # noqa: S608  fixed names


def _count(database: sqlite3.Connection, condition: str, *values: object) -> int:
    return int(database.execute(f"SELECT count(*) FROM jobs WHERE {condition}", values).fetchone()[0])  # noqa: S608  ours


def _fetch(database: sqlite3.Connection, sequence: int) -> tuple[Any, ...]:
    row: tuple[Any, ...] = database.execute(f"SELECT {WHOLE} FROM jobs WHERE sequence = ?", (sequence,)).fetchone()  # noqa: S608  fixed names
    return row
