"""Messages between parent and workers, lines of JSON on socket pairs, and rounds of questions to all workers."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

import msgspec
from msgspec import Raw, Struct

from router.config.faults import ConfigError, Fault
from router.contract.request import JsonObject


class Kind(StrEnum):
    READY = "ready"
    ASK = "ask"
    """A worker asks all workers, through the parent."""
    QUESTION = "question"
    """The parent passes the question on."""
    ANSWER = "answer"
    OUTCOME = "outcome"
    """All answers, by worker number."""
    GROUP = "group"
    """The number of serving workers."""
    STOP = "stop"
    """Finish and end; the second time, end at once."""
    ENDED = "ended"
    SEEN = "seen"
    """What a worker saw, for the screen."""


class Topic(StrEnum):
    """A question to all workers."""

    RELOAD = "reload"
    FIGURES = "figures"
    KEYS = "keys"
    """Look at the key file now."""
    ALIVE = "alive"
    """Any worker with a running event loop answers."""


class Message(Struct, omit_defaults=True):
    kind: Kind
    topic: Topic | None = None
    number: int = 0
    body: Raw = Raw(b"null")


class EndReport(Struct):
    code: int
    text: str


class Taken(Struct, omit_defaults=True):
    """What a reload changed in a worker, or the faults that prevented it."""

    told: Raw = Raw(b"{}")
    source: str = ""
    faults: list[tuple[str, str, str]] = []

    @classmethod
    def refused(cls, error: ConfigError) -> "Taken":
        return cls(source=error.source, faults=[(fault.path, fault.problem, fault.hint) for fault in error.faults])

    def get(self) -> JsonObject:
        """Raises `ConfigError` if nothing changed."""
        if self.faults:
            raise ConfigError(self.source, [Fault(*fault) for fault in self.faults])
        told: JsonObject = msgspec.json.decode(self.told)
        return told


write_body = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Message).decode


def write_message(kind: Kind, topic: Topic | None = None, number: int = 0, body: bytes = b"null") -> bytes:
    return write_body(Message(kind, topic, number, Raw(body))) + b"\n"


def read_message(line: bytes) -> Message:
    """Raises `MsgspecError`."""
    return _decode(line)


_WAIT_SECONDS = {Topic.RELOAD: 30.0, Topic.FIGURES: 2.0, Topic.KEYS: 10.0, Topic.ALIVE: 10.0}


@dataclass(slots=True)
class Round:
    asker: int
    """0 for the parent."""
    topic: Topic
    number: int = 0
    """The asker's own."""
    answers: dict[str, Raw] = field(default_factory=dict)
    waiting: set[int] = field(default_factory=set)
    until: float = 0.0

    @classmethod
    def asked_by(cls, worker: int, message: Message) -> "Round":
        assert message.topic is not None
        return cls(worker, message.topic, message.number)


class Rounds:
    def __init__(self) -> None:
        self._open: dict[int, Round] = {}
        self._numbers: Iterator[int] = itertools.count(1)

    def begin(self, asked: Round, workers: set[int], now: float) -> bytes:
        """Returns the question to send."""
        asked.waiting, asked.until = workers, now + _WAIT_SECONDS[asked.topic]
        number = next(self._numbers)
        self._open[number] = asked
        return write_message(Kind.QUESTION, asked.topic, number)

    def take(self, worker: int, message: Message) -> list[Round]:
        """Returns the rounds that this completes."""
        if (asked := self._open.get(message.number)) is None:
            return []
        asked.answers[str(worker)] = message.body
        asked.waiting.discard(worker)
        return self._take_complete()

    def drop(self, worker: int) -> list[Round]:
        """Returns the rounds that this completes."""
        for asked in self._open.values():
            asked.waiting.discard(worker)
        return self._take_complete()

    @property
    def next_deadline(self) -> float | None:
        return min((asked.until for asked in self._open.values()), default=None)

    def take_overdue(self, now: float) -> list[Round]:
        return self._take([number for number, asked in self._open.items() if asked.until <= now])

    def _take_complete(self) -> list[Round]:
        return self._take([number for number, asked in self._open.items() if not asked.waiting])

    def _take(self, numbers: list[int]) -> list[Round]:
        return [self._open.pop(number) for number in numbers]
