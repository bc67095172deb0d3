"""The person's own words: what they typed, without what their client wrapped around it."""

import re
from functools import lru_cache

from router.contract.request import Conversation, Message
from router.sessions.clients import BY_NAME, HARNESS_STARTS, HARNESS_TAGS, PLAN_MARKS, WORDS_BEGIN_AFTER, Client

_HARNESS = re.compile(rf"<({'|'.join(HARNESS_TAGS)})\b[^>]{{0,200}}>.*?(?:</\1>|\Z)", re.DOTALL)
_LOOK_BACK_MESSAGES = 8
_LOOK_FAR_BACK = 2_000
_SHORT_CHARS = 2_000
_MAX_OPENING = 2_000
_MAX_NOTICE = 8_000
"""Where a client's own notice stands: at the ends of a text."""
_MAX_CHARS = 20_000
"""A longer text is cut before it is searched: nobody types that much, and a paste must not cost more than a page."""


def last_user_message(conversation: Conversation) -> Message | None:
    """The message that the person's words would stand in, if the turn is theirs: only harness messages may follow it."""
    for index in range(len(conversation) - 1, max(-1, len(conversation) - 1 - _LOOK_BACK_MESSAGES), -1):
        message = conversation[index]
        if message.role == "user":
            return message
        if message.role not in ("system", "developer"):
            return None
    return None


def person_text(conversation: Conversation, client: Client) -> str | None:
    """What the person typed last, or None when nothing after the last answer was typed by anyone."""
    for index in range(len(conversation) - 1, max(-1, len(conversation) - 1 - _LOOK_BACK_MESSAGES), -1):
        message = conversation[index]
        if message.role == "user":
            words = words_of(message, client)
            if words:
                return words
            if message.results:
                return None
        elif message.role not in ("system", "developer"):
            return None
    return None


def earlier_words(conversation: Conversation, client: Client, skip: int = 0) -> str | None:
    """The person's words from further back: the last ones, or with `skip` the ones before those."""
    peeks = conversation.peeks
    for index in range(len(peeks) - 1, max(-1, len(peeks) - 1 - _LOOK_FAR_BACK), -1):
        if peeks[index].role == "user" and (words := words_of(conversation[index], client)):
            if not skip:
                return words
            skip -= 1
    return None


def words_of(message: Message, client: Client) -> str:
    """The typed part of one message; empty when all of it is harness."""
    if len(message.texts) == 1:
        return _strip(message.texts[0], client)
    blocks = [words for text in message.texts if (words := _strip(text, client))]
    if not blocks:
        return ""
    return blocks[-1] if client.takes_last_block else "\n".join(blocks)


def opening_words(message: Message, client: Client) -> str:
    """How the typed part of a message begins: enough to know it by. A long paste is not searched to its end."""
    for text in message.texts:
        if len(text) > _MAX_OPENING:
            cut = tuple([text if text.startswith("<") else text[:_MAX_OPENING] for text in message.texts])
            return words_of(message._replace(texts=cut), client)
    return words_of(message, client)


def _strip(text: str, client: Client) -> str:
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
    for index in range(max(0, len(conversation) - 2), len(conversation)):
        for whole in conversation[index].texts:
            text = whole if len(whole) <= _MAX_NOTICE else whole[: _MAX_NOTICE // 2] + whole[-_MAX_NOTICE // 2 :]
            if ("Plan" in text or "PLAN" in text) and any(mark in text for mark in PLAN_MARKS):
                return True
    return False
