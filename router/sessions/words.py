"""The person's own words: what they typed, without what their client wrapped around it."""

import re
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from router.contract.request import Conversation, Message
from router.sessions.clients import BY_NAME, HARNESS_STARTS, HARNESS_TAGS, PLAN_MARKS, WORDS_BEGIN_AFTER, Client

_HARNESS = re.compile(rf"<({'|'.join(HARNESS_TAGS)})\b[^>]{{0,200}}>.*?(?:</\1>|\Z)", re.DOTALL)
_LOOK_BACK_MESSAGES = 8
_BACKWARDS = slice(None, -1 - _LOOK_BACK_MESSAGES, -1)
"""The places of the last messages, the last one first."""
LAST_TWO = slice(-2, None)
_SHORT_CHARS = 2_000
_MAX_OPENING = _SHORT_CHARS
_MAX_NOTICE = 8_000
"""Where a client's own notice stands: at the ends of a text."""
_MAX_CHARS = 20_000
"""A longer text is cut before it is searched: nobody types that much, and a paste must not cost more than a page."""


class End(Struct, frozen=True):
    """How a conversation ends: the message that the person's words would stand in, and what they typed.

    Only harness messages may follow it. No words when nothing after the last answer was typed by anyone.
    """

    message: Message | None
    words: str | None


def read_end(conversation: Conversation, client: Client) -> End:
    """Walk back to the person's last words, past what their client added."""
    last, messages = None, conversation.messages
    for place in range(len(conversation.items))[_BACKWARDS]:
        message = messages[place]
        role = message.role
        if role == "user":
            last = last or message
            if words := words_of(message, client):
                return End(last, words)
            if message.results:
                break
        elif role not in ("system", "developer"):
            break
    return End(last, None)


def words_of(message: Message, client: Client) -> str:
    """The typed part of one message; empty when all of it is harness."""
    texts = message.texts
    if len(texts) == 1:
        text = texts[0]
        return _strip_short(text, client.name) if len(text) <= _SHORT_CHARS else _strip_any(text, client)
    blocks = [words for text in texts if (words := strip_harness(text, client))]
    if not blocks:
        return ""
    return blocks[-1] if client.takes_last_block else "\n".join(blocks)


def opening_words(message: Message, client: Client) -> str:
    """How the typed part of a message begins: enough to know it by. A long paste is not searched to its end."""
    texts = message.texts
    if len(texts) == 1:
        text = texts[0]
        if len(text) <= _SHORT_CHARS:
            return _strip_short(text, client.name)
    if texts and max(map(len, texts)) > _MAX_OPENING:
        cut = tuple([text if text.startswith("<") else text[:_MAX_OPENING] for text in texts])
        return words_of(replace(message, texts=cut), client)
    return words_of(message, client)


def strip_harness(text: str, client: Client) -> str:
    """The typed part of one text. Short ones are remembered: a turn is read from several sides, and its calls repeat it."""
    return _strip_short(text, client.name) if len(text) <= _SHORT_CHARS else _strip_any(text, client)


@lru_cache(maxsize=256)
def _strip_short(text: str, client_name: str) -> str:
    return _strip_any(text, BY_NAME[client_name])


def _strip_any(text: str, client: Client) -> str:
    if client.wraps_words_in is not None:
        _, begins, rest = text.partition(f"<{client.wraps_words_in}>")
        inside, ends, _ = rest.partition(f"</{client.wraps_words_in}>")
        if begins and ends:
            return inside.strip()
    if len(text) > _MAX_CHARS:
        text = text[: _MAX_CHARS // 2] + text[-_MAX_CHARS // 2 :]
    for mark in WORDS_BEGIN_AFTER:
        if mark in text:
            text = text.rpartition(mark)[2]
    for mark in client.words_end_at:
        text = text.partition(mark)[0]
    if "<" in text:
        text = _HARNESS.sub("", text)
    text = text.strip()
    return "" if text.startswith(HARNESS_STARTS) else text


def is_planning(conversation: Conversation) -> bool:
    """Whether the client says, around the last message, that it is in plan mode."""
    messages = conversation.messages
    for place in range(len(conversation.items))[LAST_TWO]:
        for text in messages[place].texts:
            if len(text) > _MAX_NOTICE:
                text = text[: _MAX_NOTICE // 2] + text[-_MAX_NOTICE // 2 :]  # noqa: PLW2901  only its ends are searched
            if ("Plan" in text or "PLAN" in text) and any(mark in text for mark in PLAN_MARKS):
                return True
    return False
