"""A request as the road sees it: the bytes that came, a cheap view of them, and what the caller wished."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, overload

from router.contract.caller import LOCAL, Caller
from router.contract.target import Target
from router.contract.words import Dialect, Feature, Operation, Tier

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]
JsonObject = dict[str, Json]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call that the model made. `arguments` is what the dialect holds: JSON text, an object, or free-form text."""

    id: str
    name: str
    arguments: Json = None


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What came back from a call."""

    call_id: str
    text: str
    is_error: bool = False


class Message(NamedTuple):
    """One entry of the conversation, the same for all dialects. `texts` are its text blocks in order."""

    role: str
    texts: tuple[str, ...] = ()
    calls: tuple[ToolCall, ...] = ()
    results: tuple[ToolResult, ...] = ()


class Peek(NamedTuple):
    """What can be told of a message without reading it: who speaks, and the names of the tools that it calls."""

    role: str
    calls: tuple[str, ...] = ()


class Conversation(Sequence[Message]):
    """The messages of a request, read one at a time when asked for: most decisions look at the last few only."""

    __slots__ = ("_items", "_peek", "_peeked", "_read", "_seen")

    def __init__(self, items: list[Json], read: Callable[[Json], Message], peek: Callable[[Json], Peek]) -> None:
        self._items = items
        self._read, self._peek = read, peek
        self._seen: dict[int, Message] = {}
        self._peeked: list[Peek] | None = None

    def item(self, index: int) -> Json:
        """A message as it came."""
        return self._items[index]

    @property
    def peeks(self) -> list[Peek]:
        """A look at every message in passing: a history of hundreds is walked through in microseconds."""
        if self._peeked is None:
            self._peeked = [self._peek(item) for item in self._items]
        return self._peeked

    def __len__(self) -> int:
        return len(self._items)

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Message]: ...
    def __getitem__(self, index: int | slice) -> Message | Sequence[Message]:
        if isinstance(index, int):
            if index < 0:
                index += len(self._items)
            message = self._seen.get(index)
            if message is None:
                message = self._seen[index] = self._read(self._items[index])
            return message
        return [self[position] for position in range(*index.indices(len(self._items)))]


class InBand(NamedTuple):
    """A first line of the person's own message that asks for a tier; None is "auto". `place` is the index of the message."""

    tier: Tier | None
    place: int = 0


@dataclass(frozen=True, slots=True)
class Overrides:
    """What the caller asked for, by header or by a first line.

    `tier` is None for "auto" and without an override; `clears` tells them apart.
    """

    tier: Tier | None = None
    clears: bool = False
    for_session: bool = False
    session: str | None = None
    max_wait_seconds: float | None = None
    other_on_misfit: bool = False
    explain_fully: bool = False
    line: InBand | None = None


class Transcript(NamedTuple):
    """The items of a conversation, in order, each with the target that wrote it; an empty name for the caller's own."""

    items: list[Json]
    origins: list[str]

    def then(self, items: list[Json], origin: str) -> "Transcript":
        """Add what somebody said."""
        return Transcript(self.items + items, self.origins + [origin] * len(items))


class Continuation(Protocol):
    """The history of a request that continues a response stored here, and how each target is to see it."""

    @property
    def stored_by(self) -> str:
        """The target that says it stores that response itself; empty when none does."""
        ...

    def view_for(self, view: "RequestView", target: Target) -> "RequestView":
        """The request as this target is to see it."""
        ...

    def without_reference(self) -> "Continuation":
        """The same, when the target that was to store the response turned out to have lost it."""
        ...


class RequestView(NamedTuple):
    """A request, read once. `raw` is the body as it came; `body` is its one parse.

    Where the request goes on from a response that is kept here, both hold the whole conversation, and `continued` what came.
    """

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
    caller: Caller = LOCAL
    continued: Continuation | None = None
    previous_response_id: str | None = None
    """The response that the request goes on from by its id alone, in a dialect that has such: its history is not in `body`."""
    origins: Mapping[str, str] = {}
    """Which target made each opaque item of this request, by its key. Items of unknown origin are not here."""
