"""What there is to know of a client on the wire. Everything of one client is in its own file; the table is in `__init__`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import orjson

from router.contract.request import JsonObject, RequestView
from router.contract.words import TurnKind

Marks = tuple[tuple[str, TurnKind], ...]
"""Texts, and the kind of turn that each gives away."""


class Stated(NamedTuple):
    """What a client itself says of a request, in headers and fields."""

    kind: TurnKind | None = None
    session: str = ""
    turn_id: str = ""
    is_planning: bool = False


class ListedModel(NamedTuple):
    """A model name of ours, as a client's own list of models needs it."""

    name: str
    title: str
    description: str
    window_tokens: int
    takes_free_form: bool = True
    """Whether every target that it may lead to can call a free-form tool."""
    compacts_early: bool = False
    """Whether the client should compact while a smaller window than the largest still has room."""
    searches_tools: bool = True
    """Whether every target that it may lead to knows the hosted search for tools, by which a client can hold tools back."""


@dataclass(frozen=True, slots=True)
class ModelList:
    """A list of models in the shape of one client alone, made of its own entries."""

    asked_by: str
    """The query parameter that only this client sends."""
    stored: Path
    """Where `tandem connect` keeps the client's entries by our names, below the state folder."""
    write: Callable[[Mapping[str, JsonObject], Sequence[ListedModel]], JsonObject]


@dataclass(frozen=True, slots=True)
class Client:
    """How to know one client, and where it keeps things. Texts match at the start unless a field says otherwise."""

    name: str
    nickname: str = ""
    """What people call it when they type."""
    agents: tuple[str, ...] = ()
    """Prefixes of its `user-agent`."""
    systems: tuple[str, ...] = ()
    """Prefixes of its system prompt, for clients whose `user-agent` is their library's."""
    session_headers: tuple[str, ...] = ()
    """The headers with its session id, the narrowest first: a subagent is a session of its own."""
    telling_headers: tuple[str, ...] = ()
    telling_fields: tuple[str, ...] = ()
    """The headers and the body's fields that `read_stated` looks at."""
    read_stated: Callable[[RequestView], Stated] | None = None
    """Reads what it says of a request, but for what marks tell. Any client may speak like another, so all are asked."""
    turn_state_header: str = ""
    """A header that it sends back until the turn ends, also inside `client_metadata`."""
    models: ModelList | None = None
    wraps_words_in: tuple[str, ...] = ()
    """The tags around the person's words."""
    words_begin_after: tuple[str, ...] = ()
    """Marks of an editor's own context: what the person typed follows the last of them."""
    words_end_at: tuple[str, ...] = ()
    """Format instructions that follow the words inside the same text."""
    result_mark: str | None = None
    """What a tool result looks like when it travels as a user's text."""
    replies_in: tuple[str, ...] = ()
    """How such a result begins when it carries the person's reply in one of those tags. In others the tags may be a file's."""
    canned: frozenset[str] = frozenset()
    """Whole messages that it sends by itself. Matched as a whole, because a person may say as much and more."""
    recap: str | None = None
    """A question that it puts before the summary of a compacted conversation. As the last message it is the person's."""
    examples_end_at: str | None = None
    """How the message begins that closes an example conversation: nothing up to it is the person's."""
    takes_last_block: bool = False
    """Whether only the last block of a message is the person's: the others are context that it adds."""
    takes_first_block: bool = False
    """Whether only the first block of a message is the person's: what they attached follows it."""
    quotes_words: bool = False
    """Whether it may put quotation marks around what was typed."""
    calls_tools: bool = True
    needs_calls: bool = False
    """Whether an answer without a tool call is a failure to it."""
    default_efforts: tuple[str, ...] = ()
    """The reasoning effort that it sends by default, by model: the person did not choose it."""
    tags: tuple[str, ...] = ()
    """Tags whose content the person did not type, wherever they are in a user's message."""
    notice_lines: tuple[str, ...] = ()
    """Lines that it adds after a notification, outside its tag."""
    starts: tuple[str, ...] = ()
    """How a message begins that it wrote by itself, besides the kinds that follow."""
    summaries: tuple[str, ...] = ()
    """How the message begins that replaces a compacted conversation. What comes before it was said before."""
    compactions: tuple[str, ...] = ()
    """How it asks for such a summary."""
    cut_answers: tuple[str, ...] = ()
    """How it asks for the rest of an answer."""
    plan_marks: tuple[str, ...] = ()
    """Texts that it puts around the last message, anywhere, in plan mode."""
    system_marks: Marks = ()
    """A system prompt that begins so."""
    system_inner_marks: Marks = ()
    """A system prompt whose first 400 characters contain this."""
    last_text_marks: Marks = ()
    """A last user text that begins so. A request with tools is not a side request by these."""
    side_with_tools: tuple[str, ...] = ()
    """How the last text of a side request begins that repeats the whole conversation with its tools."""
    header_marks: Marks = ()
    """A header that is there and not empty."""


def parse_object(text: str) -> JsonObject:
    """A JSON object in a header or a string; empty where there is none."""
    try:
        value = orjson.loads(text) if text else None
    except orjson.JSONDecodeError:
        return {}
    return value if isinstance(value, dict) else {}
