"""The description of a client on the wire, one file each; the table is in `__init__`."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import orjson
from msgspec import Struct

from router.contract.request import JsonObject, RequestView
from router.contract.words import TurnKind

Marks = tuple[tuple[str, TurnKind], ...]


class Stated(NamedTuple):
    kind: TurnKind | None = None
    session: str = ""
    turn_id: str = ""


class PlanMarks(Struct, frozen=True):
    """How requests show that their client plans, and that the person accepted the plan. Only the client's own texts count."""

    on: tuple[str, ...] = ()
    off: tuple[str, ...] = ()
    """Beginnings of a paragraph in `system` and `developer` messages and in blocks with `block_tag`. The newest counts."""
    block_tag: str = ""
    """The tag of blocks that it adds to a user message, next to the person's words or a tool's result."""
    last_heading: str = ""
    """The heading in such a block under which the mark is, where the block also quotes files or output."""
    planners: tuple[str, ...] = ()
    editors: tuple[str, ...] = ()
    """System prompts of the two calls, for a client that plans and edits in conversations of their own."""
    read_field: Callable[[JsonObject], bool | None] | None = None
    """Reads a field of the body that says so; None if it says nothing. It counts before any text."""
    exit_tool: str = ""
    """The tool that asks the person: its result, unless an error, accepts the plan. Otherwise the next turn does."""
    proposal: str = ""
    """Tag that the last answer must have: without it there was no plan to accept."""


class ListedModel(NamedTuple):
    """A name of ours for a client's own model list."""

    name: str
    title: str
    description: str
    window_tokens: int
    takes_free_form: bool = True
    """All its targets can call a free-form tool."""
    compacts_early: bool = False
    """Compact while the smaller window still has room."""
    searches_tools: bool = True
    """All its targets know the hosted tool search, which holds tools back."""


class ModelList(Struct, frozen=True):
    asked_by: str
    """The query parameter that only this client sends."""
    stored: Path
    """Where `tandem connect` keeps the client's entries by our names."""
    write: Callable[[Mapping[str, JsonObject], Sequence[ListedModel], Sequence[JsonObject]], JsonObject]
    """Takes the stored entries, our names, and the entries of the caller's plan."""


class Client(Struct, frozen=True):
    """How to recognise a client. Texts match at the start unless stated."""

    name: str
    nickname: str = ""
    agents: tuple[str, ...] = ()
    """`user-agent` prefixes."""
    systems: tuple[str, ...] = ()
    """System prompt prefixes, for clients with a library's `user-agent`."""
    session_headers: tuple[str, ...] = ()
    """Headers with its session id, narrowest first: a subagent has its own."""
    telling_headers: tuple[str, ...] = ()
    telling_fields: tuple[str, ...] = ()
    """What `read_stated` reads."""
    read_stated: Callable[[RequestView], Stated] | None = None
    """Reads its statements. All are tried on every request, since clients imitate each other."""
    turn_state_header: str = ""
    """A header that it sends back until the turn ends, also in `client_metadata`."""
    models: ModelList | None = None
    wraps_words_in: tuple[str, ...] = ()
    words_begin_after: tuple[str, ...] = ()
    """Marks of an editor's context, before the person's words."""
    words_end_at: tuple[str, ...] = ()
    """Format instructions after the words in one text."""
    result_mark: str | None = None
    """The beginning of a tool result sent as user text."""
    replies_in: tuple[str, ...] = ()
    """How such a result begins if the tags in it hold the person's reply, not a file's content."""
    canned: frozenset[str] = frozenset()
    """Messages of its own, matched whole: a person may say as much and more."""
    recap: str | None = None
    """A question before a compaction's summary; as the last message it is the person's."""
    examples_end_at: str | None = None
    """The message that closes an example conversation."""
    takes_last_block: bool = False
    """The other blocks are context that it adds."""
    takes_first_block: bool = False
    quotes_words: bool = False
    calls_tools: bool = True
    needs_calls: bool = False
    """An answer without a tool call fails."""
    default_efforts: tuple[str, ...] = ()
    """Reasoning efforts that it sends by default, by model: not the person's choice."""
    tags: tuple[str, ...] = ()
    """Tags whose content was not typed, anywhere in a user message."""
    notice_lines: tuple[str, ...] = ()
    """Lines after a notification, outside its tag."""
    starts: tuple[str, ...] = ()
    """Other messages of its own."""
    summaries: tuple[str, ...] = ()
    """The message that replaces a compacted conversation."""
    compactions: tuple[str, ...] = ()
    """Requests for such a summary."""
    cut_answers: tuple[str, ...] = ()
    """Requests for the rest of an answer."""
    plan: PlanMarks | None = None
    """None for a client without a plan mode, or with one that its requests do not show."""
    system_marks: Marks = ()
    system_inner_marks: Marks = ()
    """Anywhere in the first 400 characters of the system prompt."""
    last_text_marks: Marks = ()
    """The last user text. A request with tools is not a side request by these."""
    side_with_tools: tuple[str, ...] = ()
    """The last text of a side request that repeats the conversation with its tools."""
    header_marks: Marks = ()
    """Headers that are set."""


def parse_object(text: str) -> JsonObject:
    """Empty unless the text is a JSON object."""
    try:
        value = orjson.loads(text) if text else None
    except orjson.JSONDecodeError:
        return {}
    return value if isinstance(value, dict) else {}
