"""A request: its bytes, a cheap view of them, and the caller's overrides."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple, Protocol, overload

from msgspec import Struct

from router.contract.caller import LOCAL, Caller
from router.contract.target import Target
from router.contract.words import Dialect, Feature, Operation, Tier

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]
JsonObject = dict[str, Json]


def objects_in(value: Json) -> list[JsonObject]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


class ToolCall(Struct, frozen=True):
    """`arguments` are JSON text, an object or free text, by dialect."""

    id: str
    name: str
    arguments: Json = None


class ToolResult(Struct, frozen=True):
    call_id: str
    text: str
    is_error: bool = False


class Message(Struct, frozen=True):
    """A message of any dialect."""

    role: str
    texts: tuple[str, ...] = ()
    calls: tuple[ToolCall, ...] = ()
    results: tuple[ToolResult, ...] = ()


class Beginning(Struct, eq=False):
    """The known beginning of a conversation. `learned` is by reader of histories (`router/dialects/histories.py`)."""

    count: int
    mark: int
    learned: dict[str, Any] = {}
    size: int = 0
    """Body bytes up to there; 0 if unknown."""
    found: dict[bytes, bool] = {}
    """Results of searches in these bytes (`router/dialects/marks.py`)."""


class History(Protocol):
    def converse(self, items: list[Json], read: Callable[[Json], Message]) -> "Conversation": ...


class Messages(dict[int, Message]):
    """Messages by index, read on first access. A dictionary finds known ones without a Python call."""

    __slots__ = ("given", "read")

    given: list[Json]
    read: Callable[[Json], Message]

    def __missing__(self, place: int) -> Message:
        message = self[place] = self.read(self.given[place])
        return message


class Conversation(Sequence[Message]):
    """Messages, read on access: most decisions need only the last few."""

    __slots__ = ("history", "items", "known", "messages", "read")

    def __init__(self, items: list[Json], read: Callable[[Json], Message], history: History | None = None) -> None:
        """`history` is None for a short request."""
        messages = Messages()
        self.items = messages.given = items
        self.read = messages.read = read
        self.messages = messages
        """Messages by index; the hot path takes them from here."""
        self.known: tuple[Beginning, list[Beginning]] | None = None
        """The known beginning, and longer new ones; None if read whole."""
        self.history = history

    def __len__(self) -> int:
        return len(self.items)

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Message]: ...
    def __getitem__(self, index: int | slice) -> Message | Sequence[Message]:
        found = range(len(self.items))[index]
        return self.messages[found] if isinstance(found, int) else [self.messages[place] for place in found]


class Overrides(Struct, frozen=True):
    """The caller's wishes, by header. Without a `tier`, `clears` tells "auto" from no override."""

    tier: Tier | None = None
    clears: bool = False
    for_session: bool = False
    session: str | None = None
    supersede: str | None = None
    """Requests with equal values replace one another."""
    max_wait_seconds: float | None = None
    combine: str | None = None
    """What both tiers do for the task: `plan`, `look` or `plan,look`; empty for nothing, None where the config decides."""
    other_on_misfit: bool = False
    explain_fully: bool = False


class Transcript(NamedTuple):
    """Each item has the target that wrote it as its origin; empty for the caller's own."""

    items: list[Json]
    origins: list[str]

    def then(self, items: list[Json], origin: str) -> "Transcript":
        return Transcript(self.items + items, self.origins + [origin] * len(items))


class Continuation(Protocol):
    """The history of a request that continues a response stored here."""

    @property
    def stored_by(self) -> str:
        """The target that claims to store the response itself."""
        ...

    @property
    def body(self) -> JsonObject: ...

    def view_for(self, view: "RequestView", target: Target) -> "RequestView": ...

    def transcript(self) -> Transcript:
        """The whole conversation."""
        ...

    def without_reference(self) -> "Continuation":
        """The continuation for a target that has lost the response."""
        ...


class Moment:
    """What a policy may know besides the request and its signals: the time, and the router's environment variables."""

    __slots__ = ("_at",)

    def __init__(self, at: float | None = None) -> None:
        self._at = at
        """Seconds since 1970; None for whatever time it is."""

    @property
    def now(self) -> datetime:
        """The time in the zone of the router."""
        return datetime.fromtimestamp(time.time() if self._at is None else self._at, UTC).astimezone()

    @property
    def environment(self) -> Mapping[str, str]:
        return os.environ


NOW = Moment()


class RequestView(Struct, frozen=True):
    """A request, read once. If it continues a stored response, `raw` and `body` hold the whole conversation."""

    id: str
    dialect: Dialect
    operation: Operation
    raw: bytes
    body: JsonObject
    headers: Mapping[str, str]
    model: str
    is_streaming: bool
    system: str
    conversation: Conversation
    needs: frozenset[Feature]
    overrides: Overrides = Overrides()
    effort: str | None = None
    image_count: int = 0
    media_bytes: int = 0
    bound: str = ""
    """Content that only a target of its own dialect can read."""
    hosted: str = ""
    """A tool for the target itself to run, possible only in its own dialect."""
    caller: Caller = LOCAL
    continued: Continuation | None = None
    previous_response_id: str | None = None
    """The response that it continues by id alone: its history is not in `body`."""
    origins: Mapping[str, str] = {}
    """The target that made each opaque item, by key, if known."""
    has_one_model: bool = False
    """Whether reading proved that `model` occurs once. Unproven, it usually does too."""
    moment: Moment = NOW

    @property
    def as_sent(self) -> JsonObject:
        """Without stored history."""
        return self.body if self.continued is None else self.continued.body
