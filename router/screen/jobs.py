"""Background jobs that ended and were not collected, as lines of a terminal: what was done, and how to get it."""

from collections.abc import Sequence

from router.contract.job import EndedJob
from router.contract.request import Json, JsonObject
from router.screen.figures import clock, plural

_MOST = 3


def write_jobs(jobs: Sequence[EndedJob]) -> list[str]:
    """A line for each of the newest."""
    return _write([(job.id, str(job.state), job.ended_at) for job in jobs])


def read_jobs(stats: JsonObject) -> list[str]:
    """The same from `/tandem/stats`."""
    return _write([found for job in _list_of(stats.get("jobs")) if (found := _read(job)) is not None])


def _list_of(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []


def _read(job: Json) -> tuple[str, str, float] | None:
    if not isinstance(job, dict):
        return None
    name, state, at = job.get("id"), job.get("state"), job.get("ended_at")
    return (
        (name, state, float(at)) if isinstance(name, str) and isinstance(state, str) and isinstance(at, (int, float)) else None
    )


def _write(jobs: Sequence[tuple[str, str, float]]) -> list[str]:
    lines = [f"{name} {state} at {clock(at)}, not collected; tandem jobs result {name}" for name, state, at in jobs[-_MOST:]]
    more = len(jobs) - _MOST
    return [f"and {plural(more, 'more background job')} to collect; tandem jobs list", *lines] if more > 0 else lines
