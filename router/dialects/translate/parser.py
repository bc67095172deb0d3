"""Base of the answer parsers, and how hosts word a failure."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import orjson

from router.contract.errors import TooLong
from router.contract.request import Json, JsonObject
from router.contract.usage import Timings, Usage
from router.dialects.composer import Composer, Finish
from router.dialects.fields import as_object
from router.dialects.hosts import says_too_long
from router.dialects.translate.sequencer import CallSequencer

_MAX_WORDS = 2_000
MALFORMED = "upstream_malformed"


class NotAnAnswer(ValueError):
    """A response with a good status that is not an answer: the target's fault."""


@dataclass(frozen=True, slots=True)
class Failure:
    code: str
    message: str


@dataclass(slots=True)
class End:
    finish: Finish | None = None
    usage: Usage | None = None
    timings: Timings | None = None


class AnswerParser(ABC):
    """Reads a target's answer into a composer: a whole body, or event by event."""

    def __init__(self, composer: Composer, target: str, answer_id: str) -> None:
        self._composer, self._target, self._answer_id = composer, target, answer_id
        self._sequencer = CallSequencer(composer)
        self.end = End()
        self.is_complete = False
        self.has_last_event = False
        """Whether the dialect's final event came. The connection may close later."""
        self.failure: Failure | None = None

    @abstractmethod
    def parse(self, event: JsonObject) -> bytes:
        """Raises ValueError if the event cannot be part of an answer."""

    @abstractmethod
    def parse_whole(self, body: JsonObject) -> None:
        """Raises ValueError if it is not an answer of this dialect."""

    def finish(self) -> bytes:
        """Flush what was held back, and close the answer if the target finished it."""
        if self.end.finish is None or self.failure is not None:
            return b""
        self.is_complete = True
        is_cut = self.end.finish in (Finish.LENGTH, Finish.FILTER)
        frames = self._held_back() + self._sequencer.end_all(is_cut=is_cut)
        return frames + self._composer.close(self.end.finish, self.end.usage)

    @property
    def written_bytes(self) -> int:
        return self._sequencer.written_bytes

    @property
    def has_finish(self) -> bool:
        """Whether the target said how its answer ended, even without a final event."""
        return self.end.finish is not None and self.failure is None

    def _held_back(self) -> bytes:
        return b""


def read_failure(value: Json) -> Failure:
    """An error as hosts write it. Errors for length get the code that callers know."""
    error = as_object(value)
    code = str(error.get("code") or error.get("type") or "upstream_error")[:80]
    message = _words_of(value) or "the target reported an error"
    if says_too_long(f"{error.get('type')} {code} {message}"):
        return Failure(TooLong.code, message + _lengths_of(error, message))
    return Failure(code, message)


def _lengths_of(error: JsonObject, message: str) -> str:
    """The numbers that llama.cpp sends in separate fields, unless its message has them."""
    asked, window = error.get("n_prompt_tokens"), error.get("n_ctx")
    if not isinstance(window, int) or str(window) in message:
        return ""
    return f" (n_ctx {window}, {asked} tokens)" if isinstance(asked, int) else f" (n_ctx {window})"


def _words_of(value: Json) -> str:
    error = as_object(value)
    for words in (error.get("message"), error.get("detail"), error.get("error"), error.get("msg"), value):
        if isinstance(words, str) and words.strip():
            return words[:_MAX_WORDS]
    found = error.get("message") or error.get("detail") or value
    if not found:
        return ""
    try:
        return orjson.dumps(found)[:_MAX_WORDS].decode("utf-8", "replace")
    except orjson.JSONEncodeError:
        return ""
