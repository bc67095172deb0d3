"""The queue's rules in Postgres: those of `sqlite/job_rows.py` for many concurrent writers.

Functions marked so must run in a transaction. Others are one statement, harmless when executed late. A `now` of None is the
database's time, as routers' clocks may differ.
"""

import secrets
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from router.contract.caller import Caller
from router.contract.job import Job, JobEnding, JobState, JobTerms, Segment, WebhookEvent
from router.contract.share import Turns
from router.stores.job_records import ADDED, AHEAD_SECONDS, FOUND, MOST_ATTEMPTS, WHOLE, name_of, to_job, to_row

CHANNEL = "tandem_jobs"
_ADDS, _CLAIMS = 0x74616E01, 0x74616E02
"""Advisory locks, with a caller's name, for counting its jobs and then adding or claiming one."""
_NOW = "coalesce($1::float8, extract(epoch FROM clock_timestamp())::float8)"
_OWNED = "id = $1 AND owner = $2 AND attempt = $3 AND state = 'running'"
_WHOSE = "id = $1 AND caller = coalesce($2::text, caller)"
_RELEASED = "state = 'running' AND leased_until = 0"
_EXPIRED = f"leased_until > 0 AND leased_until < {_NOW} AND NOT (owner = $2 AND id = ANY($4::text[]))"
_IS_LOST = f"(is_cancelled OR is_handed_out OR attempt >= {MOST_ATTEMPTS})"
_ROOM = "(SELECT count(*) FROM tandem.jobs r WHERE r.state = 'running' AND r.caller = q.caller)"
_END = """
    response = $6, queued = '', headers = '{}', leased_until = 0, bytes = octet_length(body) + octet_length($6::bytea)
        + coalesce((SELECT sum(octet_length(frames)) FROM tandem.segments s WHERE s.job = jobs.sequence), 0)
"""
_QUEUED = "SELECT count(*) FILTER (WHERE caller = $1), count(*) FROM tandem.jobs WHERE state = 'queued'"
_ENDED = "SELECT caller, sum(bytes)::bigint FROM tandem.jobs GROUP BY caller"
_DISK = """
    SELECT caller, sum(size)::bigint FROM (
        SELECT caller, bytes AS size FROM tandem.jobs UNION ALL
        SELECT caller, octet_length(body) FROM tandem.jobs WHERE state IN ('queued', 'running')
    ) AS sizes GROUP BY caller
"""
_POST = """
    INSERT INTO tandem.outbox (id, job, address, event, at, next_at)
    SELECT event_id, ended.id, address, 'response.' || $4::text, $5, $5
    FROM ended, unnest($7::text[], $8::text[]) AS hook (event_id, address) ON CONFLICT DO NOTHING
"""
_ADD = f"""
    INSERT INTO tandem.jobs ({ADDED})
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) ON CONFLICT (id) DO NOTHING
"""  # noqa: S608  fixed names
_LEASE = f"""
    UPDATE tandem.jobs SET state = 'running', attempt = 1, owner = $2, leased_until = {_NOW} + $3::float8, is_handed_out = TRUE
    WHERE id = $4
"""  # noqa: S608  fixed names
_GIVEN_UP = f"SELECT sequence FROM tandem.jobs WHERE {_RELEASED} AND NOT {_IS_LOST} FOR UPDATE SKIP LOCKED"  # noqa: S608  fixed names
_AGAIN = """
    UPDATE tandem.jobs SET state = 'queued', owner = '', leased_until = 0, is_handed_out = FALSE
    WHERE sequence = ANY($1::bigint[])
"""
_KEEP = f"UPDATE tandem.jobs SET owner = $2, leased_until = {_NOW} + $3::float8"  # noqa: S608  fixed names
_OVERDUE = f"""
    {_KEEP} WHERE sequence = (
        SELECT sequence FROM tandem.jobs WHERE state = 'running' AND {_EXPIRED} LIMIT 1 FOR UPDATE SKIP LOCKED
    ) RETURNING {WHOLE}
"""  # noqa: S608  fixed names
_LOST = f"""
    {_KEEP} WHERE sequence = (
        SELECT sequence FROM tandem.jobs WHERE {_RELEASED} AND {_IS_LOST} LIMIT 1 FOR UPDATE SKIP LOCKED
    ) RETURNING {WHOLE}
"""  # noqa: S608  fixed names
_WAITING = f"""
    SELECT * FROM (
        SELECT min(sequence) AS oldest, caller, {_ROOM} AS running
        FROM tandem.jobs q WHERE state = 'queued' GROUP BY caller
    ) AS waiting WHERE running < $1
"""  # noqa: S608  fixed names
_NEXT = """
    SELECT sequence FROM tandem.jobs WHERE state = 'queued' AND caller = $1 ORDER BY sequence LIMIT 1 FOR UPDATE SKIP LOCKED
"""
_BEGIN = f"""
    UPDATE tandem.jobs q SET state = 'running', attempt = attempt + 1, owner = $2, leased_until = {_NOW} + $3::float8
    WHERE sequence = $4 AND {_ROOM} < $5 RETURNING {WHOLE}
"""  # noqa: S608  fixed names
_APPEND = f"""
    WITH replaced AS (DELETE FROM tandem.segments WHERE job = $1 AND first > $3 AND first <> ALL($4::bigint[])),
    written AS (
        INSERT INTO tandem.segments (job, attempt, first, last, has_content, frames)
        SELECT $1, $2, * FROM unnest($4::bigint[], $5::bigint[], $6::bool[], $7::bytea[])
        ON CONFLICT (job, first) DO UPDATE
        SET last = excluded.last, attempt = excluded.attempt, has_content = excluded.has_content, frames = excluded.frames
    ) SELECT pg_notify('{CHANNEL}', $8)
"""  # noqa: S608  fixed names
_FINISH = f"""
    WITH ended AS (UPDATE tandem.jobs SET state = $4, ended_at = $5, {_END} WHERE {_OWNED} RETURNING id), posted AS ({_POST})
    SELECT pg_notify('{CHANNEL}', $9), pg_notify('{CHANNEL}', $10) FROM ended
"""  # noqa: S608  fixed names
_CANCEL = f"""
    WITH ended AS (
        UPDATE tandem.jobs SET state = $4, ended_at = $5, {_END}, is_cancelled = TRUE
        WHERE id = $1 AND $2::text IS NULL AND $3::int IS NULL RETURNING id
    ), posted AS ({_POST}) SELECT id FROM ended
"""  # noqa: S608  fixed names
_COLLECT = f"""
    WITH read AS (
        UPDATE tandem.jobs SET is_collected = TRUE WHERE id = $1 AND ended_at IS NOT NULL AND NOT is_collected RETURNING id
    ) SELECT pg_notify('{CHANNEL}', $2) FROM read
"""  # noqa: S608  fixed names
_FORGET = f"""
    WITH gone AS (DELETE FROM tandem.jobs WHERE {_WHOSE} RETURNING id),
    posted AS (DELETE FROM tandem.outbox USING gone WHERE outbox.job = gone.id)
    SELECT pg_notify('{CHANNEL}', $3) FROM gone
"""  # noqa: S608  fixed names
_MAX_ROWS = 1_024
READ = f"""
    SELECT first, last, CASE
        WHEN $5::bigint IS NULL OR size <= $4 OR (first <= $3 AND $5::bigint = 0) THEN frames
        ELSE substring(frames FROM $5::int + 1 FOR $4::int)
    END, size, has_content, attempt, is_known FROM (
        SELECT s.first, s.last, s.frames, octet_length(s.frames) AS size, s.has_content, j.attempt,
            j.is_handed_out OR j.ended_at IS NOT NULL AS is_known,
            sum(octet_length(s.frames)) OVER (ORDER BY s.first) - octet_length(s.frames) AS bytes_before
        FROM tandem.segments s JOIN tandem.jobs j ON j.sequence = s.job
        WHERE j.id = $1 AND j.caller = coalesce($2::text, j.caller) AND s.last > $3 ORDER BY s.first LIMIT {_MAX_ROWS}
    ) AS part WHERE bytes_before < $4 AND (bytes_before = 0 OR $5::bigint IS NULL OR size <= $4) ORDER BY first
"""  # noqa: S608  fixed names
READ_RESPONSE = f"SELECT substring(response FROM $3 FOR $4), octet_length(response) FROM tandem.jobs WHERE {_WHOSE}"  # noqa: S608  fixed names
_EVENT = "id, job, address, event, at, tries, next_at"
_TAKE_DUE = f"""
    WITH due AS (
        SELECT {_EVENT} FROM tandem.outbox WHERE NOT is_dead AND address <> ALL($4::text[])
            AND (next_at <= $1::float8 OR next_at > $1::float8 + {AHEAD_SECONDS})
        ORDER BY next_at LIMIT $3 FOR UPDATE SKIP LOCKED
    ), held AS (UPDATE tandem.outbox SET next_at = $1::float8 + $2::float8 FROM due WHERE outbox.id = due.id)
    SELECT {_EVENT} FROM due ORDER BY next_at
"""  # noqa: S608  fixed names
_OLD = f"SELECT sequence FROM tandem.jobs WHERE ended_at < {_NOW} - $2::float8 LIMIT $3 FOR UPDATE SKIP LOCKED"  # noqa: S608  fixed names


async def notify(connection: Any, payload: str) -> None:
    await connection.execute("SELECT pg_notify($1, $2)", CHANNEL, payload)


async def add(
    connection: Any,
    job: Job,
    now: float | None,
    terms: JobTerms,
    most_of_caller: int | None,
    lease_seconds: float | None = None,
) -> bool:
    """False if the queue, the disk or its caller's share is full. A leased job counts as handed out. In a transaction.

    Concurrent routers may each exceed the queue's limit by one; `most_of_caller` is exact.
    """
    if lease_seconds is None and not terms.may_queue(*await connection.fetchrow(_QUEUED, job.caller.name)):
        return False
    if not terms.may_write(job.caller.name, dict(await connection.fetch(_DISK))):
        return False
    if most_of_caller is not None:
        await _lock(connection, _ADDS, job.caller.name)
        own = "SELECT count(*) FROM tandem.jobs WHERE caller = $1 AND state IN ('queued', 'running')"
        if await connection.fetchval(own, job.caller.name) >= most_of_caller:
            return False
    await connection.execute(_ADD, *to_row(job))
    if lease_seconds is not None:
        await connection.execute(_LEASE, now, job.owner, lease_seconds, job.id)
    return True


async def claim(
    connection: Any,
    owner: str,
    known: Sequence[str],
    now: float | None,
    lease_seconds: float,
    terms: JobTerms,
    turns: Turns,
    *,
    trusts_leases: bool = True,
) -> Job | None:
    """Claim a job: one whose attempt is to be recorded, else one only to be ended, else a queued one.

    In a transaction. `known` are the owner's jobs it knows of; one it does not, as the reply to its claim was lost, expires
    like any other. Without `trusts_leases` none is overdue.
    """
    given_up = [sequence for (sequence,) in await connection.fetch(_GIVEN_UP)]
    if given_up:  # once locked, so that everything appended is deleted
        await connection.execute("DELETE FROM tandem.segments WHERE job = ANY($1::bigint[])", given_up)
        await connection.execute(_AGAIN, given_up)
    lease = (now, owner, lease_seconds)
    if trusts_leases and (row := await connection.fetchrow(_OVERDUE, *lease, known)) is not None:
        return to_job(row, is_unrecorded=True)
    if (row := await connection.fetchrow(_LOST, *lease)) is not None:
        return to_job(row, is_lost=True)
    most = terms.most_for_a_caller
    waiting = await connection.fetch(_WAITING, most)
    sizes = dict(await connection.fetch(_ENDED)) if waiting else {}
    waiting = [row for row in waiting if terms.may_write(row["caller"], sizes)]
    for one in sorted(waiting, key=lambda row: (row["running"], turns.last(row["caller"]), row["oldest"])):
        found = await connection.fetchval(_NEXT, caller := one["caller"])
        if found is None:  # others are claiming them
            continue
        await _lock(connection, _CLAIMS, caller)
        if (row := await connection.fetchrow(_BEGIN, *lease, found, most)) is not None:
            turns.take(caller)
            return to_job(row)
    return None


async def renew(connection: Any, job: Job, owner: str, now: float | None, lease_seconds: float) -> bool:
    statement = f"""
        UPDATE tandem.jobs SET leased_until = {_NOW.replace("$1", "$4")} + $5::float8 WHERE {_OWNED} AND NOT is_cancelled
    """  # noqa: S608  fixed names
    return _has_changed(await connection.execute(statement, job.id, owner, job.attempt, now, lease_seconds))


async def release(connection: Any, job: Job) -> None:
    statement = f"UPDATE tandem.jobs SET leased_until = 0 WHERE {_OWNED}"  # noqa: S608  fixed names
    await connection.execute(statement, job.id, job.owner, job.attempt)


async def append(connection: Any, job: Job, segments: Sequence[Segment], payload: str) -> bool:
    """Write segments if this owner still has this attempt, locking it. In a transaction."""
    statement = f"SELECT sequence FROM tandem.jobs WHERE {_OWNED} FOR NO KEY UPDATE"  # noqa: S608  fixed names
    sequence = await connection.fetchval(statement, job.id, job.owner, job.attempt)
    if sequence is None or not segments:
        return sequence is not None
    columns = zip(*((one.first, one.last, one.has_content, one.frames) for one in segments), strict=True)
    await connection.execute(_APPEND, sequence, job.attempt, segments[0].first, *map(list, columns), payload)
    return True


async def finish(connection: Any, job: Job, ending: JobEnding, addresses: Iterable[str], payloads: tuple[str, str]) -> bool:
    """Idempotent."""
    owned = (job.id, job.owner, job.attempt)
    if await connection.fetch(_FINISH, *owned, *_ending(ending, addresses), *payloads):
        return True
    ended = "SELECT count(*) FROM tandem.jobs WHERE id = $1 AND owner = $2 AND attempt = $3 AND state = $4"
    return bool(await connection.fetchval(ended, *owned, ending.state))


async def cancel(
    connection: Any, job_id: str, caller: Caller | None, ending: JobEnding, addresses: Iterable[str]
) -> Job | None:
    """End a queued job; flag a running one for its owner. In a transaction."""
    whose, is_new = (job_id, name_of(caller)), False
    state = await connection.fetchval(f"SELECT state FROM tandem.jobs WHERE {_WHOSE} FOR UPDATE", *whose)  # noqa: S608  fixed names
    if state == JobState.QUEUED:
        await connection.execute(_CANCEL, job_id, None, None, *_ending(ending, addresses))
    elif state == JobState.RUNNING:
        statement = "UPDATE tandem.jobs SET is_cancelled = TRUE WHERE id = $1 AND NOT is_cancelled"
        is_new = _has_changed(await connection.execute(statement, job_id))
    row = await connection.fetchrow(f"SELECT {FOUND} FROM tandem.jobs WHERE {_WHOSE}", *whose)  # noqa: S608  fixed names
    return to_job(row, is_newly_cancelled=is_new) if row is not None else None


async def collect(connection: Any, job_id: str, payload: str) -> None:
    await connection.execute(_COLLECT, job_id, payload)


async def forget(connection: Any, job_id: str, caller: Caller | None, payload: str) -> bool:
    """Includes its log and unsent webhooks."""
    return bool(await connection.fetch(_FORGET, job_id, name_of(caller), payload))


async def hand_out(connection: Any, job_id: str, attempt: int) -> bool:
    """False if another attempt has begun: read again."""
    statement = "UPDATE tandem.jobs SET is_handed_out = TRUE WHERE id = $1 AND attempt = $2 AND state <> 'queued'"
    return _has_changed(await connection.execute(statement, job_id, attempt))


async def take_due(
    connection: Any, now: float, hold_seconds: float, limit: int, not_for: Collection[str]
) -> list[WebhookEvent]:
    """Events due now; due again after the hold."""
    return [WebhookEvent(*row) for row in await connection.fetch(_TAKE_DUE, now, hold_seconds, limit, list(not_for))]


async def note_undelivered(connection: Any, event_id: str, next_at: float | None, now: float | None) -> None:
    moment = f"coalesce($3::float8, {_NOW})"
    statement = f"UPDATE tandem.outbox SET tries = tries + 1, next_at = {moment}, is_dead = $3::float8 IS NULL WHERE id = $2"  # noqa: S608  fixed names
    await connection.execute(statement, now, event_id, next_at)


async def forget_old(connection: Any, now: float | None, keep_seconds: float, limit: int) -> bool:
    """Includes events given up. Returns whether there may be more."""
    dead = f"DELETE FROM tandem.outbox WHERE is_dead AND next_at < {_NOW} - $2::float8"  # noqa: S608  fixed names
    await connection.execute(dead, now, keep_seconds)
    statement = f"DELETE FROM tandem.jobs WHERE sequence IN ({_OLD})"  # noqa: S608  fixed names
    return _count(await connection.execute(statement, now, keep_seconds, limit)) == limit


def _ending(ending: JobEnding, addresses: Iterable[str]) -> tuple[Any, ...]:
    """The values of `_END` and `_POST`, from the fourth on."""
    listed = list(addresses)
    return ending.state, ending.at, ending.response, [f"evt_{secrets.token_hex(16)}" for _ in listed], listed


async def _lock(connection: Any, kind: int, caller: str) -> None:
    await connection.execute("SELECT pg_advisory_xact_lock($1, hashtext($2))", kind, caller)


def _count(status: str) -> int:
    """Rows changed, from a status such as `UPDATE 1`."""
    return int(status.rpartition(" ")[2])


def _has_changed(status: str) -> bool:
    return _count(status) > 0
