"""What outlives a request. Writes are queued, and one that fails is counted and logged: it never fails a request."""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import orjson

from router.contract.caller import Caller
from router.contract.digits import as_written, parse_exactly
from router.contract.entry import Entry
from router.contract.parts import parse_parts
from router.contract.request import Json, JsonObject, Transcript

RETRY_AFTER_SECONDS = 5.0
"""Retry-After while a file cannot be used: it is tried again this often."""


class StoreUnusable(Exception):
    """A store cannot be read or written. The message says why."""

    @property
    def for_callers(self) -> str:
        """The message without what only concerns the operator: folders, and other programs of this machine."""
        return str(self)


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


class WrittenHistory(NamedTuple):
    """A conversation as `StoredResponse.raw` begins, and the ids of its items."""

    raw: bytes
    item_ids: frozenset[str]


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
        content: Any = parse_parts(self.raw, parse_exactly)
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
