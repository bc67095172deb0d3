"""What outlives a request, and its stores. Writes are queued, reads awaited: neither blocks the loop for long.

A store belongs to its event loop's thread. A failed write never fails a request: it is counted and logged. Held by
`tests/contract/test_stores.py`.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import orjson

from router.contract.caller import Caller
from router.contract.digits import as_written, parse_exactly
from router.contract.entry import Entry
from router.contract.request import Json, JsonObject, Transcript

if TYPE_CHECKING:
    from router.contract.entry import FinishedWork, PastCall
    from router.contract.past import (
        CallerSums,
        PastEntry,
        RecentCalls,
        RecordedCall,
        RecordedTurn,
        SessionRows,
        SessionsPage,
        SessionSums,
        Sums,
        TargetSeries,
        TurnsAsked,
        TurnsPage,
    )


class StoreUnusable(Exception):
    """A store cannot be read or written. The message says why."""


class AskedTooMuch(StoreUnusable):
    """The answer would take too long."""


class SharedUnusable(StoreUnusable):
    """A shared store is set up wrongly, which only the operator can change."""


class Versioned(NamedTuple):
    """A record and its version; None and 0 without a record."""

    state: bytes | None = None
    version: int = 0


class SessionStore(Protocol):
    """Session records that survive a restart, by opaque keys.

    A store of one process knows versions itself: it answers `swap` at once and writes soon. A shared one returns a future, and
    raises `StoreUnusable` while it is unreachable. Its answers may come late or never; where they come out of order, a change
    may be made twice, and none is lost.
    """

    @property
    def is_shared(self) -> bool:
        """Whether other processes change records too: each request loads them, and waits for its writes."""
        ...

    async def load(self, key: str) -> Versioned:
        """The newest record, written or queued."""
        ...

    async def load_all(self, keys: Sequence[str]) -> Sequence[Versioned]:
        """The newest records of several keys, in order. A shared store is asked once."""
        ...

    def swap(self, key: str, version: int, at: float, state: bytes) -> "bool | asyncio.Future[bool]":
        """Replace a record that still has this version, making it one higher; otherwise change nothing.

        On False, load the record, repeat the change on it, and try once more. A shared store that lost a record takes any
        version.
        """
        ...

    async def close(self) -> None: ...


class EntryStore(Protocol):
    def append(self, entry: Entry) -> None:
        """Queue an entry for writing."""
        ...

    async def sync(self) -> None:
        """Return once all entries so far outlive the process, or cannot be written now."""
        ...

    async def find_decision(self, request_id: str, caller: Caller | None) -> Mapping[str, Json] | None:
        """The explanation of a caller's request; for None anyone's, without texts that are not kept."""
        ...

    async def close(self) -> None: ...


class EntryReader(Protocol):
    """Queries the ledger, also while a router writes to it. Held by `tests/contract/test_entry_reader.py`.

    Every query blocks: on an event loop, use a thread. Times are seconds since 1970. A caller's name limits a query to that
    caller. Raises `StoreUnusable` without a readable ledger, and `AskedTooMuch` after a minute, or a fifth of a second for a
    live page (turns, pages of sessions, one session, series).
    """

    def wait_for_writer(self) -> None:
        """Let a running router write what it has just answered."""
        ...

    def read_newest(
        self, since: float, turns: int, caller: str | None = None
    ) -> "tuple[list[RecordedCall], Mapping[tuple[str, str], int]]":
        """Calls of at least the newest turns, oldest first, and how many turns each session had before them."""
        ...

    def read_sessions(self, since: float, limit: int, caller: str | None = None) -> "list[SessionSums]":
        """Newest first."""
        ...

    def read_sums(self, since: float, caller: str | None = None) -> "Sums":
        """Sums by day, client, tier and caller, and what the decisions expected of both tiers."""
        ...

    def read_spending(self, since: float) -> Mapping[str, int]:
        """Costs by caller, in units of money (`contract.spending`). Unknown costs are left out."""
        ...

    def read_spent(self, day: float, month: float) -> "list[CallerSums]":
        """What each caller spent since these moments, and when it last called, by key if the ledger knows it."""
        ...

    def find_turn(self, request_id: str | None, caller: str | None = None) -> "RecordedTurn | None":
        """The last turn that a person began, or one decided request by its id."""
        ...

    def find_beginning(self, request_id: str) -> "RecordedTurn | None":
        """The person's turn that a request belongs to."""
        ...

    def find_undecided(self, request_id: str, caller: str | None = None) -> str | None:
        """Why no tier was chosen. None for a decided or unknown request."""
        ...

    def read_finished_work(self, now: float) -> "list[FinishedWork]":
        """The newest finished turns, with what they took."""
        ...

    def read_past_calls(self) -> "list[PastCall]":
        """The newest calls that show their targets' speed, oldest first."""
        ...

    def read_recent_calls(self, since: float, rows: int, caller: str | None = None) -> "RecentCalls":
        """Calls of persons' turns in which a model worked, among at most this many of the newest rows."""
        ...

    def read_history(self) -> "Iterator[PastEntry]":
        """Every call of persons' turns in which a model worked, oldest first."""
        ...

    def read_turns(self, asked: "TurnsAsked") -> "TurnsPage":
        """Calls, newest first."""
        ...

    def read_session_page(self, limit: int, before: int | None, caller: str | None) -> "SessionsPage":
        """Sessions with their sums, newest calls first."""
        ...

    def read_session(self, session: str, caller: str | None, limit: int) -> "SessionRows | None":
        """A session with its newest calls; without a caller, that of the last one to use it."""
        ...

    def read_series(self, ends_at: float, step_seconds: float, steps: int, caller: str | None) -> "Mapping[str, TargetSeries]":
        """Figures of each target that was called, in equal steps up to a moment."""
        ...


class StoredResponse(NamedTuple):
    """A response with all that led to it. `raw` is JSON, written once."""

    id: str
    caller: Caller
    target: str
    at: float
    raw: bytes
    item_ids: frozenset[str] = frozenset()
    """Ids of its items, given and answered: later requests may name instead of send them."""

    @classmethod
    def write(
        cls,
        caller: Caller,
        target: str,
        at: float,
        history: Transcript,
        response: JsonObject,
        item_ids: frozenset[str] = frozenset(),
    ) -> "StoredResponse":
        """Raises `orjson.JSONEncodeError` for a response nested too deeply."""
        kept = {"items": history.items, "makers": history.origins, "response": response}
        content = orjson.dumps(kept, default=as_written)
        return cls(str(response["id"]), caller, target, at, content, item_ids)

    def read(self) -> tuple[Transcript, JsonObject]:
        """The history, and the response."""
        content: Any = parse_exactly(self.raw)
        return Transcript(content["items"], content["makers"]), content["response"]


class ResponseStore(Protocol):
    """Responses that later requests may continue, each for its own caller.

    A shared store raises `StoreUnavailable` if it is unreachable and the answer is not known here.
    """

    def keep(self, response: StoredResponse, *, for_long: bool) -> "asyncio.Future[Any] | None":
        """Store a response; `for_long`: its caller asked to keep it beyond the process.

        A shared store returns what to wait for until other routers find it; that raises `StoreUnusable` if the write failed.
        """
        ...

    async def find(self, response_id: str, caller: Caller) -> StoredResponse | None: ...

    async def find_holder(self, item_ids: Collection[str], caller: Caller) -> StoredResponse | None:
        """The caller's newest response with any of these items, except those that a socket keeps for itself."""
        ...

    async def forget(self, response_id: str, caller: Caller) -> bool:
        """Delete it everywhere before returning; False if the caller has none. Raises if it cannot be deleted now."""
        ...

    async def is_denied(self, response_id: str, caller: Caller) -> bool:
        """Whether the id is known, but deleted or another caller's."""
        ...

    async def close(self) -> None: ...


class HeldKey(NamedTuple):
    """An `Idempotency-Key` in use: a digest of its request, and the answer once that is over."""

    asked: bytes
    answer: bytes | None


KeptRepeat = tuple[bytes, HeldKey, float]
"""A slot, its content, and the seconds for which that counts."""


class RepeatStore(Protocol):
    """`Idempotency-Key`s in use at any router, each in a slot, and their answers."""

    def restore_from(self, list_answers: Callable[[], Iterable[KeptRepeat]]) -> None:
        """Where to find this router's answers, should the store lose them."""
        ...

    async def claim(self, slot: bytes, asked: bytes) -> HeldKey | None:
        """Take a slot. None: it is this request's until `finish`. Raises `StoreUnusable`."""
        ...

    def finish(self, slot: bytes, answer: bytes | None) -> None:
        """Keep the answer; None frees the slot."""
        ...

    async def wait(self, slot: bytes, seconds: float) -> None:
        """Return when the slot may have changed, at the latest after `seconds`."""
        ...

    def close(self) -> None:
        """Stop renewing slots."""
        ...
