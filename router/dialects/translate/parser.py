"""Base of the answer parsers."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

from router.contract.request import JsonObject
from router.contract.usage import Timings, Usage
from router.dialects.composer import Composer, Finish
from router.dialects.failures import Failure
from router.dialects.translate.sequencer import CallSequencer

MALFORMED = "upstream_malformed"


class NotAnAnswer(ValueError):
    """A response with a good status that is not an answer: the target's fault."""


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
