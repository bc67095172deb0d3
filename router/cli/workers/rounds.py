"""Questions to all workers: who asked, who answered, and the deadline."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field

from msgspec import Raw

from router.cli.workers.messages import Kind, Message, Topic, write_message

_WAIT_SECONDS = {Topic.RELOAD: 30.0, Topic.FIGURES: 2.0, Topic.ALIVE: 10.0}


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
