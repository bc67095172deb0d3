"""What all stores of jobs share: how a row becomes a job, which text a database takes, and how often a job is begun."""

import json
from collections.abc import Sequence
from typing import Any

from router.contract.caller import Caller
from router.contract.job import Job, JobState

MOST_ATTEMPTS = 3
"""How often a job is begun. One that ended its owner three times would end the next one, too."""
MAX_UNCOLLECTED = 8
SEEN = "id, caller, at, key, session, title, tier, state, attempt, owner, ended_at, is_cancelled, is_handed_out, is_collected"
"""The columns that a list shows. `to_job` takes them, then `queued`, `response`, `headers` and `body`."""
ADDED = "id, caller, at, state, key, session, title, tier, headers, queued, response, body"
"""The columns that a new job has. `to_row` writes them."""
_MAX_DIGITS = 18


def to_row(job: Job) -> tuple[object, ...]:
    """A new job as a row of `ADDED`."""
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
        job.response,
        job.body,
    )


def to_job(row: Sequence[Any], *, is_unrecorded: bool = False, is_lost: bool = False) -> Job:
    name, caller, at, key, session, title, tier, state, attempt, owner, ended_at, *flags, queued, response, headers, body = row
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
        is_collected=is_collected,
        response=response,
    )


def name_of(caller: Caller | None) -> str | None:
    return caller.name if caller is not None else None


def writable(text: str | None) -> str | None:
    """A text without halves of surrogate pairs and without NUL, which no database, or not every one, takes."""
    return text if text is None else text.encode("utf-8", "replace").decode().replace("\0", "?")


def is_writable(job_id: str) -> bool:
    """Whether an id can be that of a job."""
    return writable(job_id) == job_id


def is_number(text: str) -> bool:
    """Whether a text can be where a page of a list begins."""
    return text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS
