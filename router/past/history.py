"""A history in a neutral form: sessions of turns from any client, and what the work that followed says about each."""

from dataclasses import dataclass, replace
from enum import StrEnum

from router.past.asked_again import is_asked_again
from router.sessions.trajectory import BOOKKEEPING_TOOLS, is_edit

_MAX_WORDS = 20_000
_LONG_EDITS, _LONG_TOKENS = 6, 6_000
_QUICK_EDITS, _QUICK_TOKENS = 2, 2_000
"""Places changed and tokens written. Calls alone say nothing: agents look around before a one-line edit."""
CHARS_PER_TOKEN = 4


class Size(StrEnum):
    """What a turn turned out to be, by the work that followed it."""

    QUICK = "quick"
    MIDDLE = "middle"
    LONG = "long"


@dataclass(frozen=True, slots=True)
class PastTurn:
    """What a person asked, and the work until they spoke again. `calls` are names of tools, without mere list-keeping."""

    words: str
    at: float | None = None
    calls: tuple[str, ...] = ()
    edits: int = 0
    answer_chars: int = 0
    """Of all that the model wrote for it, as far as the log holds it."""
    seconds: float | None = None
    model: str = ""
    effort: str | None = None
    is_planning: bool = False
    prompt_tokens: int | None = None
    """Of the turn's first request, where the log says so."""
    text_chars: int = 0
    """Of all text before the ask that its request would hold."""
    remembers_from: int = 0
    """The first turn of the session that its request would hold: a compaction forgets those before."""
    was_answered: bool = False
    was_interrupted: bool = False
    was_asked_again: bool = False
    has_switched_model: bool = False
    """Whether the person went on with another model."""
    is_repeated: bool = False
    """Whether another file already had this turn."""


@dataclass(frozen=True, slots=True)
class PastSession:
    """One conversation. `client` is the program that left it."""

    id: str
    client: str
    turns: tuple[PastTurn, ...]


def size_of_work(edits: int, output_tokens: float) -> Size:
    """What that much work makes of a turn: places changed, and tokens written."""
    if edits >= _LONG_EDITS or output_tokens >= _LONG_TOKENS:
        return Size.LONG
    return Size.QUICK if edits <= _QUICK_EDITS and output_tokens <= _QUICK_TOKENS else Size.MIDDLE


def size_of_turn(turn: PastTurn) -> Size | None:
    """What a turn was, or None if the log does not show it.

    Work that had to be asked for again was more than it looked. Work that was broken off would have been more.
    """
    size = size_of_work(turn.edits, turn.answer_chars / CHARS_PER_TOKEN)
    if size is Size.LONG or turn.was_asked_again:
        return Size.LONG
    return size if turn.was_answered and not turn.was_interrupted else None


class SessionBuilder:
    """Takes a session down as a log is read through: an ask, the work on it, the next ask."""

    def __init__(self, session_id: str, client: str) -> None:
        self.session_id, self.client = session_id, client
        self.model = ""
        self.effort: str | None = None
        self.is_planning = False
        self._turns: list[PastTurn] = []
        self._open: PastTurn | None = None
        self._calls: list[str] = []
        self._edits = self._answer_chars = 0
        self._seen: set[str] = set()
        self._chars = self._remembers_from = 0
        self._last_at: float | None = None
        self._is_settled = False

    def ask(self, words: str, at: float | None) -> None:
        """The person spoke. Ends the turn before."""
        self._end_turn()
        self._edits = self._answer_chars = 0  # what was heard while no turn was open is nobody's
        self._open = PastTurn(words[:_MAX_WORDS], at, text_chars=self._chars, remembers_from=self._remembers_from)
        self._last_at = at
        self._chars += len(words)

    def call(self, name: str, at: float | None = None, *, call_id: str = "", edits: bool | None = None) -> None:
        """The model called a tool. A repeated record of the same call counts once."""
        if self._open is None or (call_id and call_id in self._seen):
            return
        self._seen.add(call_id)
        self._note(at)
        self._answer()
        if name not in BOOKKEEPING_TOOLS:
            self._calls.append(name)
            self._edits += is_edit(name) if edits is None else edits

    def hear(self, chars: int, at: float | None = None, *, is_answer: bool = False) -> None:
        """Text passed: an answer, or what a tool gave back."""
        self._chars += chars
        self._note(at)
        if is_answer:
            self._answer_chars += chars
            self._answer()

    def count(self, prompt_tokens: int) -> None:
        """The log says how long a prompt was. The first one of a turn is its ask's."""
        if self._open is not None and self._open.prompt_tokens is None and prompt_tokens > 0:
            self._open = replace(self._open, prompt_tokens=prompt_tokens)

    def interrupt(self) -> None:
        if self._open is not None:
            self._open = replace(self._open, was_interrupted=True)

    def lose(self) -> None:
        """A line that may have been an ask cannot be read: what follows is not the work of the turn before."""
        self._end_turn()

    def compact(self) -> None:
        self._chars = 0
        self._remembers_from = len(self._turns) + (self._open is not None)

    def close(self) -> list[PastSession]:
        """The session; nothing if nobody asked anything in it."""
        self._end_turn()
        turns = [
            replace(
                turn,
                was_asked_again=is_asked_again(turn.words, following.words),
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
        """Note model, effort and mode when the work begins: some clients write them before the ask, some after it."""
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
