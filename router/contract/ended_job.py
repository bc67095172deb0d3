"""A job that is over, and whose end its caller has not read: what its session, the screen and the page are told of it."""

from collections.abc import Callable, Sequence

from msgspec import Struct

from router.contract.caller import Caller
from router.contract.job import JobState


class EndedJob(Struct, frozen=True):
    """As little of a job as it takes to collect it."""

    id: str
    caller: Caller
    session: str | None
    state: JobState
    title: str
    ended_at: float


ListEnded = Callable[[], Sequence[EndedJob]]
"""Asks which jobs wait to be collected, the newest last."""
