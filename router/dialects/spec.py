"""What one dialect is: everything that the rest of Tandem must know of it, as one object. `table.py` holds them all."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import compress, repeat
from operator import not_
from typing import NamedTuple

from router.contract.request import History, Json, JsonObject
from router.contract.usage import Usage
from router.contract.words import Dialect, Operation
from router.dialects.composer import Answer, Composer
from router.dialects.fields import Reading
from router.dialects.sse import Frame, StreamEnd
from router.dialects.translate.context import WriteContext
from router.dialects.translate.draft import Draft
from router.dialects.translate.parser import AnswerParser


@dataclass(frozen=True, slots=True)
class Translation:
    """How a dialect takes part in bridges: requests through a draft, answers through a parser into a composer."""

    read_draft: Callable[[JsonObject], Draft]
    write_draft: Callable[[Draft, WriteContext], JsonObject]
    parser: Callable[[Composer, str, str], AnswerParser]
    """Made of a composer, the target's name and the answer's id."""


class Silent(NamedTuple):
    """Items in which nobody speaks and nothing is called: tools' results, sealed reasoning. They are known by one field."""

    field: str
    values: tuple[str, ...]

    def skip(self, items: list[Json], start: int, stop: int) -> Iterable[int]:
        """The places of all others between two places. A long conversation is walked through in C."""
        if not self.values:
            return range(start, stop)
        given = map(dict.get, items[start:stop], repeat(self.field))  # type: ignore[arg-type]  # each is an object, or was refused
        return compress(range(start, stop), map(not_, map(self.values.__contains__, given)))


NOTHING_SILENT = Silent("", ())


@dataclass(frozen=True, slots=True, kw_only=True)
class DialectSpec:
    """One dialect. No field has a default: a new dialect must say something on each."""

    name: Dialect
    paths: Mapping[Operation, str]
    """Where each operation is asked for, here and at a target, below the `/v1` of either."""
    list_field: str
    is_conversation: bool
    """Whether a person may speak in a request. A prompt of code before a cursor holds no words of anybody."""
    continues_responses: bool
    """Whether a request may go on from an earlier response by its id, so that responses are kept."""
    has_threads: bool
    """Whether a request may ask that its conversation be held, and go on from an answer by that answer's id."""
    counts_tokens_here: bool
    """Whether a request to count tokens is answered by the router itself."""
    reads_catalogue: bool
    """Whether its clients read in the catalogue which tools a model takes."""
    has_socket: bool
    """Whether its create calls may also be made over one WebSocket."""

    own_header: str | None
    """A header that only clients of this dialect send."""
    refuse_dated: Callable[[JsonObject, bytes, str], None] | None
    """Refuse what its hosts refuse since some version of their API: body, its bytes, the version in that header."""
    recognise: Callable[[JsonObject], bool]
    """Whether a body that came without a path is of this dialect. Asked in the table's order."""
    write_example: Callable[[str], JsonObject]
    stream_fields: Mapping[str, Json]
    """The fields by which a stream with usage at its end is asked for."""

    read: Callable[[JsonObject, Operation, History | None], Reading]
    """Read a request, of whose conversation a history may know the beginning. Raises `BadRequest`, naming the field."""
    silent: Silent
    """The items of its conversations that tell nothing of a turn, except how its last calls went."""
    add_instructions: Callable[[JsonObject, str, JsonObject], None]
    """Put a text at the end of a body's system prompt, by a change among the changes to the body."""
    limit_fields: tuple[str, ...]
    """The fields that cap an answer's tokens, in the order in which they count. Every host takes the last."""
    reasoning_fields: tuple[str, ...]
    """The fields that a target without reasoning refuses."""
    effort_holder: str | None
    """The field whose `effort` says how hard to think; None where `reasoning_effort` says it."""
    opaque_keys: Callable[[JsonObject], Iterator[str]]
    """The keys of the state in one message or item that only its maker can read."""
    without_opaque: Callable[[list[Json], Callable[[str], bool]], list[Json]]
    """The conversation without that state, where the given function says so of its key."""
    without_wrapped: Callable[[list[Json]], list[Json]] | None
    """The conversation without reasoning that a bridge wrapped; None where callers are given none to carry."""

    telling: re.Pattern[bytes]
    """What every frame holds that tells how a stream ended or what it used. It may be in others too, if not in most."""
    read_end: Callable[[list[Frame]], StreamEnd]
    read_answer: Callable[[JsonObject], Usage | None]
    """The usage of a whole answer. Raises ValueError when it is not an answer of this dialect."""
    first_token_mark: bytes
    """Bytes that no piece before the first token holds: the frames that open a stream are not the model's work."""
    composer: Callable[[Answer], Composer]

    write_refusal: Callable[[int, str, str, str | None, str], JsonObject]
    """The body of an error: status, message, code, parameter, request id."""
    write_failure: Callable[[int, str, str, str], bytes]
    """The last event of a stream that failed: status, message, code, request id."""
    word_too_long: Callable[[str], str]
    """A message for length in the form on which clients compact."""

    translation: Translation | None
    """None for a dialect that is never bridged."""

    @property
    def limit_field(self) -> str:
        """The field by which Tandem itself caps an answer's tokens."""
        return self.limit_fields[-1]

    def read_limit(self, body: JsonObject) -> int | None:
        """The cap that a request sets; None without one."""
        for name in self.limit_fields:
            limit = body.get(name)
            if isinstance(limit, int) and limit > 0 and limit is not True:
                return limit
        return None
