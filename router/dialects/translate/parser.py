"""What every reader of a target's answer shares: how an answer stands, and how hosts word a failure."""

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
    """What a target sent with a good status is no answer of its dialect: the target's fault, and not the bridge's."""


@dataclass(frozen=True, slots=True)
class Failure:
    """An error that a target reports inside its answer."""

    code: str
    message: str


@dataclass(slots=True)
class End:
    """How an answer ended, as far as is known yet."""

    finish: Finish | None = None
    usage: Usage | None = None
    timings: Timings | None = None


class AnswerParser(ABC):
    """Reads one answer of a target and tells it to a composer. Fed once with a whole body, or frame by frame."""

    def __init__(self, composer: Composer, target: str, answer_id: str) -> None:
        self._composer, self._target, self._answer_id = composer, target, answer_id
        self._sequencer = CallSequencer(composer)
        self.end = End()
        self.is_complete = False
        self.has_last_event = False
        """Whether the event has come that no other follows, in a dialect that has one: the line may close later than that."""
        self.failure: Failure | None = None

    @abstractmethod
    def parse(self, event: JsonObject) -> bytes:
        """One event of a stream. Raises ValueError when it cannot be part of an answer."""

    @abstractmethod
    def parse_whole(self, body: JsonObject) -> None:
        """An answer in one piece. Raises ValueError when it is not a valid answer of this dialect."""

    def finish(self) -> bytes:
        """The stream is over: what was held back until then, and the end, if the target came to one."""
        if self.end.finish is None or self.failure is not None:
            return b""
        self.is_complete = True
        is_cut = self.end.finish in (Finish.LENGTH, Finish.FILTER)
        frames = self._held_back() + self._sequencer.end_all(is_cut=is_cut)
        return frames + self._composer.close(self.end.finish, self.end.usage)

    @property
    def has_finish(self) -> bool:
        """Whether the target has said how its answer ended, even if its last event is missing."""
        return self.end.finish is not None and self.failure is None

    def _held_back(self) -> bytes:
        return b""


def read_failure(value: Json) -> Failure:
    """An error as hosts write it: an object, a text, or something else. One for length gets the code that callers know."""
    error = as_object(value)
    code = str(error.get("code") or error.get("type") or "upstream_error")[:80]
    message = _words_of(value) or "the target reported an error"
    if says_too_long(f"{error.get('type')} {code} {message}"):
        return Failure(TooLong.code, message + _lengths_of(error, message))
    return Failure(code, message)


def _lengths_of(error: JsonObject, message: str) -> str:
    """The numbers that llama.cpp has in fields of their own, where its words do not name them."""
    asked, window = error.get("n_prompt_tokens"), error.get("n_ctx")
    if not isinstance(window, int) or str(window) in message:
        return ""
    return f" (n_ctx {window}, {asked} tokens)" if isinstance(asked, int) else f" (n_ctx {window})"


def _words_of(value: Json) -> str:
    """The words for a person, wherever they stand; else all there is, cut short."""
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
