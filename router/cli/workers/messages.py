"""Messages between parent and workers: lines of JSON on socket pairs."""

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


class Topic(StrEnum):
    """A question to all workers."""

    RELOAD = "reload"
    FIGURES = "figures"
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
