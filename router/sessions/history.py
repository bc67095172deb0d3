"""What a conversation tells of its turns. Only new messages are read (`router/dialects/histories.py`)."""

from collections.abc import Iterable
from functools import partial
from itertools import chain

from msgspec import Struct, field
from msgspec.structs import replace

from router.contract.request import Conversation
from router.contract.signals import FinishedTurn, SessionHistory
from router.dialects.histories import learn
from router.dialects.spec import NOTHING_SILENT, Silent
from router.sessions.clients import Client
from router.sessions.trajectory import READ_CALLS, Work, add_calls, add_results, forget_old, go_on
from router.sessions.words import nobody_typed, opening_words, words_of

_LAST_TURNS = 3
_MAX_WORDS = 400
_LOOK_BACK = 2_000
"""Messages. A longer session is long in any case."""
_LAST_INDEXES = 6
"""The running turn's words, and those before five "go on"s."""
_FIRST_MESSAGES = 12
_SAID_MESSAGES, _SAID_CHARS = 8, 1_500


class History(Struct, frozen=True):
    """What the messages up to some index tell, with texts as indexes or short extracts."""

    first_at: int | None = None
    words_at: tuple[int, ...] = ()
    """Messages with the person's last words, oldest first."""
    turns: int = 0
    last: tuple[FinishedTurn, ...] = ()
    running: str | None = None
    """How the running turn began; None before any words."""
    work: Work = field(default_factory=Work)

    def as_session(self) -> SessionHistory:
        return SessionHistory(self.turns, self.last)

    def find_words(self, conversation: Conversation, client: Client, skip: int = 0) -> str | None:
        """Earlier ones with `skip`."""
        for index in reversed(self.words_at):
            if words := words_of(conversation.messages[index], client):
                if not skip:
                    return words
                skip -= 1
        return None

    def find_said(self, conversation: Conversation) -> str:
        """The end of the assistant's last text before the person's newest words; empty if a compaction dropped it."""
        if not self.words_at:
            return ""
        since = self.words_at[-2] if len(self.words_at) > 1 else -1
        for index in range(self.words_at[-1] - 1, max(since, self.words_at[-1] - 1 - _SAID_MESSAGES), -1):
            message = conversation.messages[index]
            if message.role == "assistant" and message.texts:
                return message.texts[-1][-_SAID_CHARS:]
        return ""


NOTHING_TOLD = History()
ONE_MESSAGE = History(first_at=0)
"""For one message with words."""


def read_history(conversation: Conversation, client: Client, silent: Silent = NOTHING_SILENT) -> History:
    """An overlong one is read only at its end, afresh each time. `silent` items are skipped if old."""
    count = len(conversation.items)
    if count > _LOOK_BACK:
        first = _read(client, silent, NOTHING_TOLD, conversation, 0, _FIRST_MESSAGES)
        return replace(_read(client, silent, NOTHING_TOLD, conversation, count - _LOOK_BACK, count), first_at=first.first_at)
    return learn(conversation, client.name, NOTHING_TOLD, partial(_read, client, silent))


def _read(client: Client, silent: Silent, told: History, conversation: Conversation, start: int, stop: int) -> History:
    first_at, words_at, turns, last, running, work = (
        told.first_at, told.words_at, told.turns, told.last, told.running, go_on(told.work)
    )  # fmt: skip
    messages, final = conversation.messages, len(conversation.items) - 1
    examples_end, recap = client.examples_end_at, client.recap
    judged_from = start
    indexes: Iterable[int] = range(start, stop)
    if stop - start > READ_CALLS:
        judged_from = _find_judged(conversation, start, stop)
        indexes = chain(silent.skip(conversation.items, start, judged_from), range(judged_from, stop))
    for index in indexes:
        message = messages[index]
        if message.calls:
            add_calls(work, index, message.calls, is_old=index < judged_from)
        elif message.role == "user":
            if examples_end and message.texts and message.texts[0].startswith(examples_end):
                first_at, words_at, turns, last, running, work = None, (), 0, (), None, Work()
                continue
            opening = opening_words(message, client)
            has_words = bool(opening or words_of(message, client))
            if has_words and (nobody_typed(messages, index, client) or (opening == recap and index < final)):
                continue
            if has_words:
                words_at = (*words_at[1 - _LAST_INDEXES :], index)
            if opening:
                if running is not None:
                    turns += 1
                    last = (*last[1 - _LAST_TURNS :], FinishedTurn(running, work.calls, work.edits))
                elif index < _FIRST_MESSAGES:
                    first_at = index
                running, work = opening[:_MAX_WORDS], Work()
            elif message.results and index >= judged_from:
                add_results(work, index, message.results)
        elif message.results and index >= judged_from:
            add_results(work, index, message.results)
    forget_old(work)
    return History(first_at, words_at, turns, last, running, work)


def _find_judged(conversation: Conversation, start: int, stop: int) -> int:
    """The first message whose results count: earlier ones would be forgotten."""
    messages, calls = conversation.messages, 0
    for index in range(stop - 1, start - 1, -1):
        calls += len(messages[index].calls)
        if calls >= READ_CALLS:
            return index
    return start
