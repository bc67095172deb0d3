"""What outlives a request, and who keeps it. Writing is queued, reading is awaited: neither keeps the loop for long.

A store is used by its own event loop's thread alone. Writing never fails a request: what is lost is counted and logged.
`tests/contract/test_stores.py` holds every store against these words.
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
    """What we keep cannot be read or written there. The message says why."""


class AskedTooMuch(StoreUnusable):
    """The answer would take longer than the question may."""


class SharedUnusable(StoreUnusable):
    """A store that routers share cannot be used as it is set up, and only the operator can change that."""


class Versioned(NamedTuple):
    """A record, and a number that changes with it; None and 0 where there is no record."""

    state: bytes | None = None
    version: int = 0


class SessionStore(Protocol):
    """Keeps what must survive a restart of a session's memory: small records, by a key that says nothing of the session.

    A store that one process owns knows versions without asking anybody: it answers `swap` at once, and writes soon. A shared
    one returns a future, and raises `StoreUnusable` while it cannot be asked. Answers may come late, or never. Where they come
    out of order, a change may be made twice, and none is lost.
    """

    @property
    def is_shared(self) -> bool:
        """Whether other processes change records too. Then each request asks for them, and waits for what it wrote."""
        ...

    async def load(self, key: str) -> Versioned:
        """The newest record, written or still waiting to be."""
        ...

    async def load_all(self, keys: Sequence[str]) -> Sequence[Versioned]:
        """The newest records of several keys, in their order. A shared store is asked once for all of them."""
        ...

    def swap(self, key: str, version: int, at: float, state: bytes) -> "bool | asyncio.Future[bool]":
        """Replace a record that still has this version; its version is one higher then. Where it has another, change nothing.

        Who gets False loads the record, does its change again on that, and tries once more. A shared store that has lost a
        record takes it with any version.
        """
        ...

    async def close(self) -> None:
        """Write what is left."""
        ...


class EntryStore(Protocol):
    """Keeps the ledger's entries."""

    def append(self, entry: Entry) -> None:
        """Take an entry, to be written soon."""
        ...

    async def sync(self) -> None:
        """Return once all entries so far are where they outlive the process, or cannot be written now."""
        ...

    async def find_decision(self, request_id: str, caller: Caller | None) -> Mapping[str, Json] | None:
        """The explanation of a request that this caller made; for None anybody, without words that are not kept."""
        ...

    async def close(self) -> None:
        """Write what is left."""
        ...


class EntryReader(Protocol):
    """Answers questions about the ledger, also while a router writes to it. Held by `tests/contract/test_entry_reader.py`.

    Every question blocks: on an event loop, ask it in a thread. Times are in seconds since 1970. Raises `StoreUnusable` where
    there is no ledger, or it cannot be read, and `AskedTooMuch` where an answer takes too long: a minute, and for what a live
    page asks (turns, pages of sessions, one session, series) a fifth of a second.
    """

    def wait_for_writer(self) -> None:
        """Where a router is at work, let it write what it has just answered."""
        ...

    def read_newest(
        self, since: float, turns: int, caller: str | None = None
    ) -> "tuple[list[RecordedCall], Mapping[tuple[str, str], int]]":
        """The calls of at least the newest turns, oldest first; and how many turns each caller's session had before them.

        With a caller's name, of that caller alone.
        """
        ...

    def read_sessions(self, since: float, limit: int, caller: str | None = None) -> "list[SessionSums]":
        """The newest sessions, newest first; with a caller's name, of that caller alone."""
        ...

    def read_sums(self, since: float, caller: str | None = None) -> "Sums":
        """All calls, or one caller's, by day, client, tier and caller, and what the decisions expected of both tiers."""
        ...

    def read_spending(self, since: float) -> Mapping[str, int]:
        """What each caller's requests cost since then, in units of money (`contract.spending`). An unknown cost is left out."""
        ...

    def read_spent(self, day: float, month: float) -> "list[CallerSums]":
        """What each caller spent since these moments, and when it was last here, by key where the ledger knows it."""
        ...

    def find_turn(self, request_id: str | None, caller: str | None = None) -> "RecordedTurn | None":
        """The last turn that a person began, or one decided request by its id; with a caller's name, only if it is theirs."""
        ...

    def find_beginning(self, request_id: str) -> "RecordedTurn | None":
        """The turn of a person that a request belongs to."""
        ...

    def find_undecided(self, request_id: str, caller: str | None = None) -> str | None:
        """Why no tier was chosen for a request. None for one that was decided, or is not there."""
        ...

    def read_finished_work(self, now: float) -> "list[FinishedWork]":
        """The newest turns that are over, with what they took."""
        ...

    def read_past_calls(self) -> "list[PastCall]":
        """The newest calls that show how fast their targets were, oldest first."""
        ...

    def read_recent_calls(self, since: float, rows: int, caller: str | None = None) -> "RecentCalls":
        """The calls of persons' turns in which a model worked. At most this many of the newest rows are looked at.

        With a caller's name, those of that caller alone.
        """
        ...

    def read_history(self) -> "Iterator[PastEntry]":
        """Every call of a person's turns in which a model worked, oldest first."""
        ...

    def read_turns(self, asked: "TurnsAsked") -> "TurnsPage":
        """Calls, newest first."""
        ...

    def read_session_page(self, limit: int, before: int | None, caller: str | None) -> "SessionsPage":
        """Sessions with their sums, those with the newest calls first. With a caller's name, of that caller alone."""
        ...

    def read_session(self, session: str, caller: str | None, limit: int) -> "SessionRows | None":
        """One session with its newest calls; without a caller's name, that of the caller who used it last."""
        ...

    def read_series(self, ends_at: float, step_seconds: float, steps: int, caller: str | None) -> "Mapping[str, TargetSeries]":
        """How each target that was called did, in equal steps up to a moment. With a caller's name, by its calls alone."""
        ...


class StoredResponse(NamedTuple):
    """One response with all that led to it. `raw` is written once, as JSON: its size is known, and it cannot change."""

    id: str
    caller: Caller
    target: str
    at: float
    raw: bytes
    item_ids: frozenset[str] = frozenset()
    """The ids of its items, given and answered: a later request may name them instead of sending them."""

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
        """Record a response. Raises `orjson.JSONEncodeError` when it is nested too deeply to be written."""
        kept = {"items": history.items, "makers": history.origins, "response": response}
        content = orjson.dumps(kept, default=as_written)
        return cls(str(response["id"]), caller, target, at, content, item_ids)

    def read(self) -> tuple[Transcript, JsonObject]:
        """What the response was given, and the response itself."""
        content: Any = parse_exactly(self.raw)
        return Transcript(content["items"], content["makers"]), content["response"]


class ResponseStore(Protocol):
    """Keeps responses that a later request may continue from, each for its own caller.

    A store that several routers share raises `StoreUnavailable` where it cannot be asked and the answer is not known here.
    """

    def keep(self, response: StoredResponse, *, for_long: bool) -> "asyncio.Future[Any] | None":
        """Store a response. `for_long` means that the caller explicitly asked to keep it beyond the process.

        A store that several routers share returns what to wait for until the others find it; that raises `StoreUnusable`
        where the write failed.
        """
        ...

    async def find(self, response_id: str, caller: Caller) -> StoredResponse | None:
        """A response that this caller made."""
        ...

    async def find_holder(self, item_ids: Collection[str], caller: Caller) -> StoredResponse | None:
        """The newest response of this caller that holds any of these items. What one socket keeps for itself does not count."""
        ...

    async def forget(self, response_id: str, caller: Caller) -> bool:
        """Delete it everywhere, and answer once that is done. False when this caller had none of that id.

        Raises when it cannot be deleted now, so that the caller does not believe it is gone.
        """
        ...

    async def is_denied(self, response_id: str, caller: Caller) -> bool:
        """Whether the id is known and not this caller's to use: deleted, or somebody else's."""
        ...

    async def close(self) -> None:
        """Write what is left."""
        ...


class HeldKey(NamedTuple):
    """An `Idempotency-Key` that is in use: what its request asked for, as a digest, and what was answered, if it is over."""

    asked: bytes
    answer: bytes | None


KeptRepeat = tuple[bytes, HeldKey, float]
"""A slot, what was asked and answered, and for how many more seconds that counts."""


class RepeatStore(Protocol):
    """Knows which `Idempotency-Key`s are in use at any router, and what was answered to them. Each has a slot."""

    def restore_from(self, list_answers: Callable[[], Iterable[KeptRepeat]]) -> None:
        """Have answers that this router still knows written again, should the store lose them."""
        ...

    async def claim(self, slot: bytes, asked: bytes) -> HeldKey | None:
        """Take a slot for a request; None: it is this request's now, until `finish`. Raises `StoreUnusable`."""
        ...

    def finish(self, slot: bytes, answer: bytes | None) -> None:
        """Keep what was answered; None: the slot is free again."""
        ...

    async def wait(self, slot: bytes, seconds: float) -> None:
        """Return when the slot may have changed, or after some seconds."""
        ...

    def close(self) -> None:
        """Renew nothing any more."""
        ...
