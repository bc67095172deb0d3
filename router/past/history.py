"""A client-neutral history: sessions, turns, and what the following work says about each."""

from dataclasses import dataclass, replace
from enum import StrEnum

from router.contract.asked_again import asks_again
from router.sessions.trajectory import BOOKKEEPING_TOOLS, is_edit

_MAX_WORDS = 20_000
_LONG_EDITS, _LONG_TOKENS = 6, 6_000
_QUICK_EDITS, _QUICK_TOKENS = 2, 2_000
"""Edits and tokens written. Calls alone say nothing: agents look around before a one-line edit."""
CHARS_PER_TOKEN = 4


class Size(StrEnum):
    """A turn's size, by the work that followed."""

    QUICK = "quick"
    MIDDLE = "middle"
    LONG = "long"


@dataclass(frozen=True, slots=True)
class PastTurn:
    """An ask and the work until the next. `calls` are tool names, without list-keeping."""

    words: str
    at: float | None = None
    calls: tuple[str, ...] = ()
    edits: int = 0
    answer_chars: int = 0
    seconds: float | None = None
    model: str = ""
    effort: str | None = None
    is_planning: bool | None = None
    """Whether the client was in plan mode; None where its log does not say."""
    prompt_tokens: int | None = None
    """Of its first request, if logged."""
    text_chars: int = 0
    """Text before the ask in its request."""
    remembers_from: int = 0
    """First turn of the session in its request: a compaction forgets earlier ones."""
    was_answered: bool = False
    was_interrupted: bool = False
    was_asked_again: bool = False
    has_switched_model: bool = False
    is_repeated: bool = False


@dataclass(frozen=True, slots=True)
class PastSession:
    """One conversation; `client` is the program that logged it."""

    id: str
    client: str
    turns: tuple[PastTurn, ...]


def size_of_work(edits: int, output_tokens: float) -> Size:
    if edits >= _LONG_EDITS or output_tokens >= _LONG_TOKENS:
        return Size.LONG
    return Size.QUICK if edits <= _QUICK_EDITS and output_tokens <= _QUICK_TOKENS else Size.MIDDLE


def size_of_turn(turn: PastTurn) -> Size | None:
    """None if not shown. Work that was asked for again, or broken off, counts as more than it looks."""
    size = size_of_work(turn.edits, turn.answer_chars / CHARS_PER_TOKEN)
    if size is Size.LONG or turn.was_asked_again:
        return Size.LONG
    return size if turn.was_answered and not turn.was_interrupted else None


class SessionBuilder:
    """Builds a session from a log: an ask, its work, the next ask."""

    def __init__(self, session_id: str, client: str) -> None:
        self.session_id, self.client = session_id, client
        self.model = ""
        self.effort: str | None = None
        self.is_planning: bool | None = None
        self._turns: list[PastTurn] = []
        self._open: PastTurn | None = None
        self._calls: list[str] = []
        self._edits = self._answer_chars = 0
        self._seen: set[str] = set()
        self._chars = self._remembers_from = 0
        self._last_at: float | None = None
        self._is_settled = False

    def ask(self, words: str, at: float | None) -> None:
        """A person's ask; ends the turn before."""
        self._end_turn()
        self._edits = self._answer_chars = 0  # text outside a turn does not count
        self._open = PastTurn(words[:_MAX_WORDS], at, text_chars=self._chars, remembers_from=self._remembers_from)
        self._last_at = at
        self._chars += len(words)

    def call(self, name: str, at: float | None = None, *, call_id: str = "", edits: bool | None = None) -> None:
        """A tool call; repeated records count once."""
        if self._open is None or (call_id and call_id in self._seen):
            return
        self._seen.add(call_id)
        self._note(at)
        self._answer()
        if name not in BOOKKEEPING_TOOLS:
            self._calls.append(name)
            self._edits += is_edit(name) if edits is None else edits

    def hear(self, chars: int, at: float | None = None, *, is_answer: bool = False) -> None:
        """Text of an answer or a tool result."""
        self._chars += chars
        self._note(at)
        if is_answer:
            self._answer_chars += chars
            self._answer()

    def count(self, prompt_tokens: int) -> None:
        """A logged prompt length; the first of a turn belongs to its ask."""
        if self._open is not None and self._open.prompt_tokens is None and prompt_tokens > 0:
            self._open = replace(self._open, prompt_tokens=prompt_tokens)

    def interrupt(self) -> None:
        if self._open is not None:
            self._open = replace(self._open, was_interrupted=True)

    def lose(self) -> None:
        """A possible ask is unreadable: what follows does not belong to the turn before."""
        self._end_turn()

    def compact(self) -> None:
        self._chars = 0
        self._remembers_from = len(self._turns) + (self._open is not None)

    def close(self) -> list[PastSession]:
        """The session; none without an ask."""
        self._end_turn()
        turns = [
            replace(
                turn,
                was_asked_again=asks_again(following.words, turn.words),
                has_switched_model=bool(turn.model and following.model and turn.model != following.model),
            )
            for turn, following in zip(self._turns, self._turns[1:], strict=False)
        ]
        return [PastSession(self.session_id, self.client, (*turns, *self._turns[-1:]))] if self._turns else []

    def _note(self, at: float | None) -> None:
        if at is not None:
            self._last_at = at

    def _answer(self) -> None:
        self._settle()
        if self._open is not None and not self._open.was_answered:
            self._open = replace(self._open, was_answered=True)

    def _settle(self) -> None:
        """Note model, effort and mode when work begins: clients write them before or after the ask."""
        if self._open is not None and not self._is_settled:
            self._is_settled = True
            self._open = replace(self._open, model=self.model, effort=self.effort, is_planning=self.is_planning)

    def _end_turn(self) -> None:
        self._settle()
        turn = self._open
        if turn is None:
            return
        seconds = None if turn.at is None or self._last_at is None else max(0.0, self._last_at - turn.at)
        done = replace(turn, calls=tuple(self._calls), edits=self._edits, answer_chars=self._answer_chars, seconds=seconds)
        self._turns.append(done)
        self._open, self._calls, self._seen, self._is_settled = None, [], set(), False
        self._edits = self._answer_chars = 0
