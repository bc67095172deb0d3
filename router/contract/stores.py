"""What outlives a request. Writes are queued, and one that fails is counted and logged: it never fails a request."""

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import orjson

from router.contract.caller import Caller
from router.contract.digits import as_written, parse_exactly
from router.contract.entry import Entry
from router.contract.request import Json, JsonObject, Transcript

if TYPE_CHECKING:
    from router.contract.entry import PastCall
    from router.contract.past import (
        CallerSums,
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
    pass


class SharedUnusable(StoreUnusable):
    """A shared store is set up wrongly: only the operator can correct it."""


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
        """Whether other processes write too: each request loads records, and waits for its writes."""
        ...

    async def load(self, key: str) -> Versioned:
        """The newest record, written or queued."""
        ...

    async def load_all(self, keys: Sequence[str]) -> Sequence[Versioned]:
        """Records of several keys, in order. A shared store is asked once."""
        ...

    def swap(self, key: str, version: int, at: float, state: bytes) -> "bool | asyncio.Future[bool]":
        """Replace a record that still has this version, making it one higher; otherwise change nothing.

        On False, load the record, repeat the change on it, and try once more. A shared store that lost a record takes any
        version.
        """
        ...

    async def close(self) -> None: ...


class EntryStore(Protocol):
    def append(self, entry: Entry) -> None: ...

    async def sync(self) -> None:
        """Return once all entries outlive the process, or cannot be written now."""
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
        """Calls of at least the newest turns, oldest first; and how many turns each session had before them."""
        ...

    def read_sessions(self, since: float, limit: int, caller: str | None = None) -> "list[SessionSums]": ...

    def read_sums(self, since: float, caller: str | None = None) -> "Sums":
        """Sums by day, client, tier and caller, and what the decisions expected of both tiers."""
        ...

    def read_spending(self, since: float) -> Mapping[str, int]:
        """Costs by caller, in units of money (`contract.spending`). Unknown ones are left out."""
        ...

    def read_spent(self, day: float, month: float) -> "list[CallerSums]":
        """Spending since these moments, by key if the ledger knows it."""
        ...

    def find_turn(self, request_id: str | None, caller: str | None = None) -> "RecordedTurn | None":
        """The last turn that a person began, or one decided request by its id."""
        ...

    def find_beginning(self, request_id: str) -> "RecordedTurn | None": ...

    def find_undecided(self, request_id: str, caller: str | None = None) -> str | None:
        """Why no tier was chosen; None for a decided or unknown request."""
        ...

    def read_past_calls(self) -> "list[PastCall]":
        """Newest calls, oldest first."""
        ...

    def read_recent_calls(self, since: float, rows: int, caller: str | None = None) -> "RecentCalls":
        """The calls among at most this many of the newest rows; with a caller's name, those of that caller alone."""
        ...

    def read_history(self) -> "Iterator[RecordedCall]":
        """Every call with its text, oldest first."""
        ...

    def read_turns(self, asked: "TurnsAsked") -> "TurnsPage": ...

    def read_session_page(self, limit: int, before: int | None, caller: str | None) -> "SessionsPage":
        """Sessions with their sums, newest calls first."""
        ...

    def read_session(self, session: str, caller: str | None, limit: int) -> "SessionRows | None":
        """A session with its newest calls; without a caller, that of the last one to use it."""
        ...

    def read_series(self, ends_at: float, step_seconds: float, steps: int, caller: str | None) -> "Mapping[str, TargetSeries]":
        """Figures of each target that was called, up to a moment."""
        ...


class StoredResponse(NamedTuple):
    """A response with all that led to it. `raw` is JSON, written once."""

    id: str
    caller: Caller
    target: str
    at: float
    raw: bytes
    item_ids: frozenset[str] = frozenset()
    """Later requests may name instead of send these items."""

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
        """Raises `orjson.JSONEncodeError` if it is nested too deeply."""
        kept = {"items": history.items, "makers": history.origins, "response": response}
        content = orjson.dumps(kept, default=as_written)
        return cls(str(response["id"]), caller, target, at, content, item_ids)

    def read(self) -> tuple[Transcript, JsonObject]:
        content: Any = parse_exactly(self.raw)
        return Transcript(content["items"], content["makers"]), content["response"]


class ResponseStore(Protocol):
    """Responses to continue. A shared store raises `StoreUnavailable` if it is unreachable and the answer not known here."""

    def keep(self, response: StoredResponse, *, for_long: bool) -> "asyncio.Future[Any] | None":
        """`for_long`: beyond the process. A shared store's future ends when other routers find it; raises `StoreUnusable`."""
        ...

    async def find(self, response_id: str, caller: Caller) -> StoredResponse | None: ...

    async def find_holder(self, item_ids: Collection[str], caller: Caller) -> StoredResponse | None:
        """The newest response with any of these items, except those that a socket keeps for itself."""
        ...

    async def forget(self, response_id: str, caller: Caller) -> bool:
        """Delete it everywhere before returning. Raises if that is impossible now."""
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
    """`Idempotency-Key`s in use at any router, each in a slot."""

    def restore_from(self, list_answers: Callable[[], Iterable[KeptRepeat]]) -> None:
        """Where to find answers that the store has lost."""
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

    def close(self) -> None: ...
