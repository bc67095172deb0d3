"""A request as the road sees it: the bytes that came, a cheap view of them, and what the caller wished."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, overload

from msgspec import Struct

from router.contract.caller import LOCAL, Caller
from router.contract.target import Target
from router.contract.words import Dialect, Feature, Operation, Tier

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]
JsonObject = dict[str, Json]


def objects_in(value: Json) -> list[JsonObject]:
    """The objects of a list; none if it is not a list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


class ToolCall(Struct, frozen=True):
    """A call that the model made. `arguments` is what the dialect holds: JSON text, an object, or free-form text."""

    id: str
    name: str
    arguments: Json = None


class ToolResult(Struct, frozen=True):
    """What came back from a call."""

    call_id: str
    text: str
    is_error: bool = False


class Message(Struct, frozen=True):
    """One entry of the conversation, the same for all dialects. `texts` are its text blocks in order."""

    role: str
    texts: tuple[str, ...] = ()
    calls: tuple[ToolCall, ...] = ()
    results: tuple[ToolResult, ...] = ()


class Beginning(Struct, eq=False):
    """The first messages of a conversation that was read before: how many, and the mark of their content.

    `learned` holds what each reader of histories learned from them, by its name (`router/dialects/histories.py`).
    """

    count: int
    mark: int
    learned: dict[str, Any] = {}
    size: int = 0
    """Bytes of the body up to there; 0 where that is not known."""
    found: dict[bytes, bool] = {}
    """Whether these bytes hold what was searched for in them (`router/dialects/marks.py`)."""


class History(Protocol):
    """What is remembered of one caller's conversations."""

    def converse(self, items: list[Json], read: Callable[[Json], Message]) -> "Conversation":
        """The conversation of a request, with what is known of its beginning."""
        ...


class Messages(dict[int, Message]):
    """The messages of a request by their places, each read when it is first asked for.

    A dictionary, since it finds again what was read without a call of ours: a turn is looked at from many sides.
    """

    __slots__ = ("given", "read")

    given: list[Json]
    read: Callable[[Json], Message]

    def __missing__(self, place: int) -> Message:
        message = self[place] = self.read(self.given[place])
        return message


class Conversation(Sequence[Message]):
    """The messages of a request, read one at a time when asked for: most decisions look at the last few only."""

    __slots__ = ("history", "items", "known", "messages", "read")

    def __init__(self, items: list[Json], read: Callable[[Json], Message]) -> None:
        messages = Messages()
        self.items = messages.given = items
        self.read = messages.read = read
        self.messages = messages
        """The same by their places, counted from the first. On the road of a request they are taken from here."""
        self.known: tuple[Beginning, list[Beginning]] | None = None
        """The beginning that was read before, and longer ones that are new; None for a conversation that is read whole."""
        self.history: History | None = None
        """Where what is known of it is kept; None for a short request."""

    def __len__(self) -> int:
        return len(self.items)

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Message]: ...
    def __getitem__(self, index: int | slice) -> Message | Sequence[Message]:
        found = range(len(self.items))[index]
        return self.messages[found] if isinstance(found, int) else [self.messages[place] for place in found]


class InBand(Struct, frozen=True):
    """A first line of the person's own message that asks for a tier; None is "auto".

    `index` is that of its message among those that go to a target; for a message that does not go there, of the one before.
    """

    tier: Tier | None
    index: int = 0
    is_newest: bool = True
    """Whether the person has said nothing since."""
    is_alone: bool = False
    """Whether the newest message says nothing else, so that it is answered here."""
    mark: str = ""
    """By which the line is known again."""


class Overrides(Struct, frozen=True):
    """What the caller asked for, by header or by a first line.

    `tier` is None for "auto" and without an override; `clears` tells them apart.
    """

    tier: Tier | None = None
    clears: bool = False
    for_session: bool = False
    session: str | None = None
    supersede: str | None = None
    """Requests with the same one take one another's place."""
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
    def session(self) -> str:
        """The session that the stored response belongs to; empty when the request itself must tell."""
        ...

    @property
    def stored_by(self) -> str:
        """The target that says it stores that response itself; empty when none does."""
        ...

    @property
    def body(self) -> JsonObject:
        """The request's body as it came."""
        ...

    def view_for(self, view: "RequestView", target: Target) -> "RequestView":
        """The request as this target is to see it."""
        ...

    def transcript(self) -> Transcript:
        """The whole conversation."""
        ...

    def without_reference(self) -> "Continuation":
        """The same, when the target that was to store the response turned out to have lost it."""
        ...

    def changed(self, change: Callable[[list[Json]], list[Json]]) -> "Continuation":
        """The same, with a change to the messages that each target is to see."""
        ...


class RequestView(Struct, frozen=True):
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
    bound: str = ""
    """What it contains that only a target of its own dialect can read; empty for nothing."""
    hosted: str = ""
    """A tool that the target itself is to run, which only one of its own dialect may have; empty for none."""
    caller: Caller = LOCAL
    continued: Continuation | None = None
    previous_response_id: str | None = None
    """The response that the request goes on from by its id alone, in a dialect that has such: its history is not in `body`."""
    origins: Mapping[str, str] = {}
    """Which target made each opaque item of this request, by its key. Items of unknown origin are not here."""
    has_one_model: bool = False
    """Whether the reading has proven that `model` is in the body once. Where it has not, it is usually so all the same."""

    @property
    def as_sent(self) -> JsonObject:
        """The body as its caller sent it, without the history that is kept here."""
        return self.body if self.continued is None else self.continued.body
