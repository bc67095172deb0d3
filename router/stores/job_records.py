"""Job rows and queries shared by all job stores."""

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from router.contract.caller import Caller
from router.contract.job import PART_BYTES, Job, JobEnding, JobObserver, JobsPage, JobState, Segment, WebhookEvent
from router.contract.share import Turns
from router.dialects.responses.logged import cut_after
from router.stores.watches import Watch, Watches

MOST_ATTEMPTS = 3
AHEAD_SECONDS = 86_400.0
"""An event that is due later than this was noted while the clock was ahead: no pause between two tries is as long."""
"""A job that killed its owner three times would kill the next one, too."""
SEEN = "id, caller, at, key, session, title, tier, state, attempt, owner, ended_at, is_cancelled, is_handed_out, is_collected"
FOUND = f"{SEEN}, queued"
WHOLE = f"{FOUND}, headers, body"
_UNREAD = (b"", "{}", b"")
"""Stand-ins for columns that were not read."""
_WHOSE = "id = $1 AND caller = coalesce(CAST($2 AS text), caller)"
ADDED = "id, caller, at, state, key, session, title, tier, headers, queued, response, body"
_MAX_DIGITS = 18


def to_row(job: Job) -> tuple[object, ...]:
    return (
        job.id,
        job.caller.name,
        job.created_at,
        job.state,
        job.key,
        writable(job.session),
        writable(job.title),
        job.tier,
        json.dumps(dict(job.headers)),
        job.queued,
        b"",
        job.body,
    )


def to_job(row: Sequence[Any], *, is_unrecorded: bool = False, is_lost: bool = False, is_newly_cancelled: bool = False) -> Job:
    """A row of `SEEN`, `FOUND` or `WHOLE`."""
    row = (*row, *_UNREAD[len(row) - SEEN.count(",") - 1 :])
    name, caller, at, key, session, title, tier, state, attempt, owner, ended_at, *flags, queued, headers, body = row
    is_cancelled, is_handed_out, is_collected = map(bool, flags)
    return Job(
        id=name,
        caller=Caller(caller),
        created_at=at,
        body=body,
        headers=json.loads(headers),
        queued=queued,
        key=key,
        session=session,
        title=title,
        tier=tier,
        state=JobState(state),
        attempt=attempt,
        owner=owner,
        ended_at=ended_at,
        is_cancelled=is_cancelled,
        is_handed_out=is_handed_out,
        is_unrecorded=is_unrecorded,
        is_lost=is_lost,
        is_newly_cancelled=is_newly_cancelled,
        is_collected=is_collected,
    )


def name_of(caller: Caller | None) -> str | None:
    return caller.name if caller is not None else None


def writable(text: str | None) -> str | None:
    """Drop lone surrogates and NUL, which not every database takes."""
    return text if text is None else text.encode("utf-8", "replace").decode().replace("\0", "?")


def is_writable(job_id: str) -> bool:
    return writable(job_id) == job_id


def is_number(text: str) -> bool:
    """Whether a text can be a page cursor."""
    return text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS


def _to_segment(row: Sequence[Any], after: int, limit_bytes: int, part_at: int | None) -> Segment:
    first, last, frames, size, content, *_ = row
    if part_at is None or size <= limit_bytes:
        return Segment(first, last, frames, bool(content))
    if first <= after and not part_at:
        rest = cut_after(Segment(first, last, frames), after)
        part_at, frames = size - len(rest), rest[:limit_bytes]
    end = part_at + len(frames)
    return Segment(max(first, after + 1), last, frames, bool(content), end if end < size else 0)


class JobQuestions(ABC):
    """The queries of a `JobStore`, in SQL that both SQLite and PostgreSQL read."""

    _schema = ""
    """Prefix of table names."""

    def __init__(self) -> None:
        self._watches, self._observer, self._turns = Watches(), JobObserver(), Turns()

    def observe(self, observer: JobObserver) -> None:
        self._observer = observer

    def _report_cancelled(self, found: Job | None, ending: JobEnding) -> None:
        """Report a queued job that was cancelled. A running one is ended by its owner."""
        if found is not None and found.state is JobState.CANCELLED and found.ended_at == ending.at:
            self._observer.job_ended(found, ending)

    @abstractmethod
    async def _fetch(self, statement: str, *values: object) -> Sequence[Any]:
        """The rows of a statement whose values are `$1`, `$2` and so on."""

    @abstractmethod
    async def _read_log(
        self, job_id: str, caller: str | None, after: int, limit_bytes: int, part_at: int | None
    ) -> Sequence[Any]:
        """Segments up to the byte limit, each with its size, its attempt and whether that is noted as handed out.

        With `part_at` one that is larger than the limit has the bytes from there on, up to the limit. If it begins before
        `after` and `part_at` is 0, it is whole.
        """

    @abstractmethod
    async def _read_response(self, job_id: str, caller: str | None, start: int) -> tuple[bytes, int]:
        pass

    @abstractmethod
    async def _hand_out(self, job_id: str, attempt: int) -> bool:
        """False where another attempt has begun: read again."""

    async def find(self, job_id: str, caller: Caller | None) -> Job | None:
        if not is_writable(job_id):
            return None
        found = await self._select(FOUND, f"WHERE {_WHOSE}", job_id, name_of(caller))
        return found[0] if found else None

    async def find_listed(self, job_id: str) -> Job | None:
        found = await self._select(SEEN, "WHERE id = $1", job_id)
        return found[0] if found else None

    async def find_body(self, job_id: str, caller: Caller | None) -> bytes:
        if not is_writable(job_id):
            return b""
        statement = f"SELECT body FROM {self._schema}jobs WHERE {_WHOSE}"  # noqa: S608  fixed names
        rows = await self._fetch(statement, job_id, name_of(caller))
        return bytes(rows[0][0]) if rows else b""

    async def read_response(self, job_id: str, caller: Caller | None, start: int = 0) -> tuple[bytes, int]:
        return await self._read_response(job_id, name_of(caller), start) if is_writable(job_id) else (b"", 0)

    async def read(
        self, job_id: str, caller: Caller | None, after: int, limit_bytes: int = PART_BYTES, *, part_at: int | None = None
    ) -> Sequence[Segment]:
        """A caller's read is noted as handed out first."""
        while is_writable(job_id):
            rows = await self._read_log(job_id, name_of(caller), after, limit_bytes, part_at)
            new = next((attempt for *_, has_content, attempt, is_known in rows if has_content and not is_known), None)
            if caller is None or new is None or await self._hand_out(job_id, new):
                return [_to_segment(row, after, limit_bytes, part_at) for row in rows]
        return []

    def watch(self, job_id: str | None, *, for_owner: bool = False) -> Watch:
        return self._watches.watch(job_id, for_owner=for_owner)

    async def list_jobs(self, caller: Caller | None, state: JobState | None, limit: int, before: str | None) -> JobsPage:
        """The cursor is a row number, which stays valid when that row is deleted."""
        if before is not None and not is_number(before):
            return JobsPage([])
        statement = f"""
            SELECT sequence, {SEEN} FROM {self._schema}jobs WHERE sequence < coalesce(CAST($1 AS bigint), sequence + 1)
                AND caller = coalesce(CAST($2 AS text), caller) AND state = coalesce(CAST($3 AS text), state)
            ORDER BY sequence DESC LIMIT $4
        """  # noqa: S608  fixed names
        start = int(before) if before is not None else None
        rows = await self._fetch(statement, start, name_of(caller), state, limit + 1)
        jobs = [to_job(row) for _, *row in rows[:limit]]
        return JobsPage(jobs, str(rows[limit - 1][0]) if len(rows) > limit else None)

    async def list_dead(self) -> Sequence[WebhookEvent]:
        names = "id, job, address, event, at, tries, next_at"
        rows = await self._fetch(f"SELECT {names} FROM {self._schema}outbox WHERE is_dead ORDER BY next_at DESC")  # noqa: S608  fixed names
        return [WebhookEvent(*row) for row in rows]

    async def _select(self, columns: str, which: str, *values: object) -> list[Job]:
        rows = await self._fetch(f"SELECT {columns} FROM {self._schema}jobs {which}", *values)  # noqa: S608  fixed names
        return [to_job(row) for row in rows]
