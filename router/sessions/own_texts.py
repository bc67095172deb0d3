"""Which texts of a message the person wrote: where a line that asks for a tier may be obeyed.

A file, a selection, the output of a hook or a tool may begin like anything; whoever wrote it must not decide about tiers. So a
text counts only where it cannot be one of these.
"""

import re

from router.contract.request import Json
from router.dialects.fields import as_list, as_object, as_text
from router.sessions.clients import (
    COMMAND_OPENS,
    HARNESS_STARTS,
    HARNESS_TAGS,
    INTERRUPT,
    LOCAL_OUTPUTS,
    TELLING_TAGS,
    WORDS_BEGIN_AFTER,
    Client,
)
from router.sessions.words import strip_harness

ONE_TEXT = -1
"""The index of the text of a message that is one text."""
_TEXTS = ("text", "input_text")
_RESULT_HEAD = 200
_OPENED = re.compile(rf"<({'|'.join(HARNESS_TAGS)}|{TELLING_TAGS})\b")
_BLANKS = re.compile(r"\s*")


def begin_of_words(text: str) -> int:
    """Where the words of a text begin: after what a client put before them in the same text.

    What a client quotes may hold the end of the very tag that it is quoted in; so the last such end counts.
    """
    begin = 0
    for mark in WORDS_BEGIN_AFTER:
        if mark in text:
            begin = text.rindex(mark) + len(mark)
    begin = _skip_blanks(text, begin)
    while text.startswith("<", begin) and (opened := _OPENED.match(text, begin)):
        closes = f"</{opened.group(1)}>"
        end = text.rfind(closes, begin)
        if end < 0:
            return len(text)
        begin = _skip_blanks(text, end + len(closes))
    return begin


def _skip_blanks(text: str, begin: int) -> int:
    found = _BLANKS.match(text, begin)
    return found.end() if found else begin


def may_hold_own_text(message: Json) -> list[str]:
    """The texts of a user's message, whoever wrote them."""
    if not isinstance(message, dict) or message.get("role") != "user":
        return []
    content = message.get("content")
    return [content] if isinstance(content, str) else [text for _, text in _texts_of(content)]


def own_texts(message: Json, client: Client) -> list[tuple[int, str]]:
    """The texts of a message that the person wrote, with their indexes, oldest first.

    Of a client whose row says which block is theirs: that one. Of any other: the only text that is not the client's own. Of
    several texts each may be a file as well as words, and nothing tells them apart, so none counts.
    """
    if not isinstance(message, dict) or message.get("role") != "user":
        return []
    content = message.get("content")
    if isinstance(content, str):
        return [(ONE_TEXT, content)] if _is_own(content, client) else []
    has_results = any(as_object(part).get("type") == "tool_result" for part in as_list(content))
    texts = _texts_of(content)
    if client.takes_last_block:
        return _last_of_each(texts, client, has_results=has_results)
    if has_results:
        return []
    if client.takes_first_block:
        return [entry for entry in texts[:1] if _is_own(entry[1], client)]
    own = [entry for entry in texts if _is_own(entry[1], client)]
    return own if len(own) == 1 and (client.result_mark is None or not _is_result(texts, client.result_mark)) else []


def _last_of_each(texts: list[tuple[int, str]], client: Client, *, has_results: bool) -> list[tuple[int, str]]:
    """The last text of the person's before each interrupt, and the last one after them all.

    What was interrupted and what was typed next come as one message. What is with a tool's results, before an interrupt, is
    no typed text, and neither is what follows a command: the text that it expands to, which somebody else may have written.
    """
    found: list[tuple[int, str]] = []
    last: tuple[int, str] | None = None
    is_command = False
    for entry in texts:
        if entry[1].startswith(INTERRUPT):
            if last is not None and not has_results:
                found.append(last)
            last, has_results, is_command = None, False, False
        elif entry[1].startswith(COMMAND_OPENS):
            is_command = bool(strip_harness(entry[1], client))
        elif entry[1].startswith(LOCAL_OUTPUTS):
            is_command = False
        elif not is_command and _is_own(entry[1], client):
            last = entry
    return [*found, last] if last is not None and not has_results else found


def _is_own(text: str, client: Client) -> bool:
    return not text.startswith(HARNESS_STARTS, begin_of_words(text)) and bool(strip_harness(text, client))


def _is_result(texts: list[tuple[int, str]], mark: str) -> bool:
    return any(mark in text[:_RESULT_HEAD] for _, text in texts)


def _texts_of(content: Json) -> list[tuple[int, str]]:
    parts = enumerate(map(as_object, as_list(content)))
    return [(index, as_text(part.get("text"))) for index, part in parts if part.get("type") in _TEXTS and part.get("text")]
