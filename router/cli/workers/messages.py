"""What parent and workers say to each other: lines of JSON on a pair of sockets. A stream ends with its process."""

from enum import StrEnum

import msgspec
from msgspec import Raw, Struct

from router.config.faults import ConfigError, Fault
from router.contract.request import JsonObject


class Kind(StrEnum):
    """What a message is."""

    READY = "ready"
    """A worker serves."""
    ASK = "ask"
    """A worker asks all workers something, through the parent."""
    QUESTION = "question"
    """What the parent asks each of them for it."""
    ANSWER = "answer"
    """What each of them answers."""
    OUTCOME = "outcome"
    """All answers, by the number of the worker."""
    GROUP = "group"
    """How many workers serve now."""
    STOP = "stop"
    """The parent tells a worker to finish what runs and end; the second time, to end at once."""
    ENDED = "ended"
    """The last words of a worker that cannot go on."""


class Topic(StrEnum):
    """What can be asked of all workers."""

    RELOAD = "reload"
    FIGURES = "figures"
    ALIVE = "alive"
    """Nothing: a worker whose event loop runs answers."""


class Message(Struct, omit_defaults=True):
    """One message. An answer has the number of its question."""

    kind: Kind
    topic: Topic | None = None
    number: int = 0
    body: Raw = Raw(b"null")
    """As JSON. What it is depends on kind and topic."""


class LastWords(Struct):
    """Why a worker ends: the exit code, and a text for people."""

    code: int
    text: str


class Taken(Struct, omit_defaults=True):
    """What a reload changed in one worker; or the faults for which nothing was changed."""

    told: Raw = Raw(b"{}")
    """What `tandem reload` is answered."""
    source: str = ""
    faults: list[tuple[str, str, str]] = []

    @classmethod
    def refused(cls, error: ConfigError) -> "Taken":
        return cls(source=error.source, faults=[(fault.path, fault.problem, fault.hint) for fault in error.faults])

    def get(self) -> JsonObject:
        """What changed. Raises `ConfigError` where nothing did."""
        if self.faults:
            raise ConfigError(self.source, [Fault(*fault) for fault in self.faults])
        told: JsonObject = msgspec.json.decode(self.told)
        return told


write_body = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Message).decode


def write_message(kind: Kind, topic: Topic | None = None, number: int = 0, body: bytes = b"null") -> bytes:
    return write_body(Message(kind, topic, number, Raw(body))) + b"\n"


def read_message(line: bytes) -> Message:
    """A line as a message. Raises `MsgspecError`."""
    return _decode(line)
