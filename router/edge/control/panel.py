"""What a panel is: pages, and what answers them.

Nothing here loads the framework that carries the pages. A panel that observes requests as well (a counter, say) is built at the
start with the other observers, and the framework is loaded with the first request for a page.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

import orjson

from router.contract.caller import Caller
from router.contract.digits import as_written
from router.contract.rights import EVERYTHING, Rights


class Asked(NamedTuple):
    """An admitted request for a page."""

    request_id: str
    caller: Caller
    path: Mapping[str, str]
    """What the path has for each `{name}`."""
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: AsyncIterator[bytes]
    rights: Rights = EVERYTHING
    """What its caller may do."""
    key: str | None = None
    """The id of the key by which its caller is known, if keys are asked for."""
    peer: object = None
    """Where the connection comes from, as ASGI servers describe it."""
    is_encrypted: bool = False
    """Whether the connection is TLS here. A proxy may have taken it off before."""

    @property
    def whose_jobs(self) -> Caller | None:
        """Whose background jobs it may read. None: everybody's, since without keys only people at this machine ask."""
        return None if self.key is None and self.rights.is_admin else self.caller

    def may_read(self, job: Caller) -> bool:
        """Whether it may read the background jobs of this caller."""
        return self.whose_jobs in (None, job)


class Answer(NamedTuple):
    """What a page answers."""

    body: bytes | AsyncIterator[bytes]
    """Whole, or in pieces that are sent as they come. The pieces end with the caller's connection."""
    media_type: str = "application/json"
    status: int = 200
    headers: dict[str, str] | None = None


class Page(NamedTuple):
    """One route. A path below `/v1` is served without `/v1` as well."""

    path: str
    """With `{name}` for a segment that varies, and `{name:path}` for a rest that may hold slashes."""
    answer: Callable[[Asked], Awaitable[Answer]]
    """A `TandemError` that it raises is sent as a refusal."""
    methods: tuple[str, ...] = ("GET",)
    needs_admin: bool = False
    """Whether only an admin's key opens it, where keys are needed."""


class Panel(Protocol):
    """Some pages on one subject, built with what they read."""

    @property
    def pages(self) -> Sequence[Page]:
        """Every route of the panel."""
        ...


def as_json(body: object, status: int = 200, headers: dict[str, str] | None = None) -> Answer:
    """An answer in JSON. Numbers that were read exactly are written as they were."""
    return Answer(orjson.dumps(body, default=as_written), status=status, headers=headers)
