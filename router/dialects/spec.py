"""`DialectSpec`: everything that Tandem knows of one dialect. `table.py` lists them all."""

import math
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from importlib import import_module
from itertools import compress, repeat
from operator import not_
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct

from router.contract.request import History, Json, JsonObject
from router.contract.usage import Usage
from router.contract.words import Dialect, Operation
from router.dialects.fields import Reading
from router.dialects.sse import Frame, StreamEnd

if TYPE_CHECKING:
    from router.dialects.composer import Answer, Composer
    from router.dialects.translate.context import WriteContext
    from router.dialects.translate.draft import Draft
    from router.dialects.translate.parser import AnswerParser


def later(module: str, name: str) -> Callable[..., Any]:
    """A function or class, imported with its first call: most answers are passed on as they are."""
    found: list[Callable[..., Any]] = []

    def call(*given: Any) -> Any:
        if not found:
            found.append(getattr(import_module(module), name))
        return found[0](*given)

    return call


class Translation(Struct, frozen=True):
    """How a dialect is bridged."""

    read_draft: "Callable[[JsonObject], Draft]"
    write_draft: "Callable[[Draft, WriteContext], JsonObject]"
    parser: "Callable[[Composer, str, str], AnswerParser]"
    """Takes a composer, the target's name and the answer's id."""


class Closing(Struct, frozen=True):
    """How an answer ends, and how a text is added to it before its end."""

    mark: bytes
    """In the frame with which the end of a final answer begins, and in few others."""
    is_open: re.Pattern[bytes]
    """Matches answers that are not final: with calls for the client to run, or with several choices."""
    read_finish: Callable[[JsonObject], bool | None]
    """Whether the model finished by itself, from a whole answer or a frame with the mark; None for one before the end."""
    find_texts: Callable[[bytes], list[bytes]]
    """The model's words in the frames of a stream, as JSON writes them."""
    add_to_stream: Callable[[bytes, bytes, str], bytes]
    """The frame with which the end begins, and a text before it; the first argument is the stream up to there."""
    add_to_whole: Callable[[JsonObject, str], JsonObject]
    """The fields of a whole answer that a text changes."""


class Silent(NamedTuple):
    """Items without speech or calls, such as tool results, recognised by one field."""

    field: str
    values: tuple[str, ...]

    def skip(self, items: list[Json], start: int, stop: int) -> Iterable[int]:
        """Indexes of all other items, found in C."""
        if not self.values:
            return range(start, stop)
        given = map(dict.get, items[start:stop], repeat(self.field))  # type: ignore[arg-type]  # objects, or refused before
        return compress(range(start, stop), map(not_, map(self.values.__contains__, given)))


NOTHING_SILENT = Silent("", ())


class LimitNames(NamedTuple):
    """The headers by which a dialect's clients pace themselves."""

    header: str
    """Of a `{kind}`, requests or tokens, and a `{figure}`: limit, remaining or reset."""
    write_reset: Callable[[float], str]
    """Takes seconds."""

    @property
    def prefix(self) -> str:
        return self.header.partition("{")[0]


def _write_moment(seconds: float) -> str:
    return f"{datetime.fromtimestamp(math.ceil(time.time() + seconds), UTC):%Y-%m-%dT%H:%M:%SZ}"


OPENAI_LIMITS = LimitNames("x-ratelimit-{figure}-{kind}", lambda seconds: f"{round(seconds, 2):g}s")
ANTHROPIC_LIMITS = LimitNames("anthropic-ratelimit-{kind}-{figure}", _write_moment)


class DialectSpec(Struct, frozen=True, kw_only=True):
    """One dialect. Fields have no defaults: a new dialect must decide each."""

    name: Dialect
    paths: Mapping[Operation, str]
    """Path of each operation, below the `/v1` of the router and of targets."""
    list_field: str
    is_conversation: bool
    """Whether it carries a person's words, unlike code before a cursor."""
    continues_responses: bool
    """Whether a request may continue an earlier response by id."""
    unsent_fields: frozenset[str]
    """Fields that no target gets."""
    counts_tokens_here: bool
    reads_catalogue: bool
    """Whether clients read from the catalogue which tools a model takes."""
    has_socket: bool

    own_header: str | None
    """A header that only this dialect's clients send."""
    refuse_dated: Callable[[JsonObject, bytes, str], None] | None
    """Refuse what hosts refuse since some API version: body, its bytes, the version from `own_header`."""
    recognise: Callable[[JsonObject], bool]
    """Whether a body without a path is of this dialect. Called in the table's order."""
    write_example: Callable[[str], JsonObject]
    stream_fields: Mapping[str, Json]
    """Fields that ask for a stream with usage at its end."""

    read: Callable[[JsonObject, Operation, History | None], Reading]
    """A history may know the request's beginning. Raises `BadRequest`, naming the field."""
    silent: Silent
    """Items that tell nothing of a turn, except how its last calls went."""
    add_instructions: Callable[[JsonObject, str, JsonObject], None]
    """Append a text to the system prompt by adding to the changes, the last argument."""
    limit_fields: tuple[str, ...]
    """Fields that cap an answer's tokens, by precedence. Every host takes the last."""
    reasoning_fields: tuple[str, ...]
    """Fields that targets without reasoning refuse."""
    effort_holder: str | None
    """The field whose `effort` sets the effort; None if `reasoning_effort` does."""
    opaque_keys: Callable[[JsonObject], Iterator[str]]
    """Keys of state in one item that only its maker can read."""
    without_opaque: Callable[[list[Json], Callable[[str], bool]], list[Json]]
    """The conversation without the state whose key is accepted."""
    without_wrapped: Callable[[list[Json]], list[Json]] | None
    """The conversation without reasoning wrapped by a bridge; None if callers never get any."""

    telling: re.Pattern[bytes]
    """Matches frames that report how a stream ended or what it used, and few others."""
    read_end: Callable[[list[Frame]], StreamEnd]
    read_answer: Callable[[JsonObject], Usage | None]
    """The usage of a whole answer. Raises ValueError if it is not an answer of this dialect."""
    first_token_mark: bytes
    """Bytes found in no frame before the first token: the opening frames are not the model's work."""
    composer: "Callable[[Answer], Composer]"

    write_refusal: Callable[[int, str, str, str | None, str], JsonObject]
    """Status, message, code, parameter, request id."""
    write_failure: Callable[[int, str, str, str], bytes]
    """The last event of a failed stream: status, message, code, request id."""
    write_cut: Callable[[bytes, Usage], bytes]
    """The end of a stream that is cut for its length, from what was sent of it: all of it, or the newest frames."""
    closing: Closing | None
    """None if the router never adds to an answer."""
    limits: LimitNames
    word_too_long: Callable[[str], str]
    """A message for length in the form on which clients compact."""

    translation: Translation | None
    """None if never bridged."""

    @property
    def limit_field(self) -> str:
        """The field by which Tandem itself caps an answer."""
        return self.limit_fields[-1]

    def read_limit(self, body: JsonObject) -> int | None:
        for name in self.limit_fields:
            limit = body.get(name)
            if isinstance(limit, int) and limit > 0 and limit is not True:
                return limit
        return None
