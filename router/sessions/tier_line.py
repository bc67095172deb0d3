"""A line that asks for a tier: which texts may hold one, its tier, and the text without it.

Only text the person wrote counts: files, selections and the output of hooks or tools must not decide about tiers.
"""

import re
from hashlib import blake2b
from typing import NamedTuple

from router.contract.parts import LARGE_BYTES, is_in
from router.contract.request import Json
from router.contract.words import Tier
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

TIERS = {"fast": Tier.FAST, "deep": Tier.DEEP, "auto": None}
_BLANK = r"[^\S\r\n]"
_END = rf"(?:{_BLANK}*(?:\r\n|\r|\n|\Z))"
_LINE = re.compile(rf"tier{_BLANK}*:{_BLANK}*(\w[\w.-]{{0,39}}){_END}", re.IGNORECASE)
_EMPTY_LINES = re.compile(rf"(?:{_BLANK}*(?:\r\n|\r|\n))*")
_KNOWN_CHARS = 256
_NOTHING = re.compile(r'(?:""|<(\w+)>\s*</\1>)?')
"""A client's wrapping around no words."""
ONE_TEXT = -1
"""The index for a message that is a single text."""
_TEXTS = ("text", "input_text")
_RESULT_HEAD = 200
_OPENED = re.compile(rf"<({'|'.join(HARNESS_TAGS)}|{TELLING_TAGS})\b")
_BLANKS = re.compile(r"\s*")


class Line(NamedTuple):
    word: str
    before: str
    after: str
    is_alone: bool

    @property
    def is_known(self) -> bool:
        return self.word in TIERS

    @property
    def rest(self) -> str:
        """The text without the line; empty if nothing readable is left."""
        left = self.before + self.after
        return "" if _NOTHING.fullmatch(left.strip()) else left

    def filled(self, words: str) -> str:
        return self.rest or (f"{self.before}{words}{self.after}" if words else "")

    def mark(self, count: int) -> str:
        """By its number in the conversation, its tier, and the text around it."""
        written = f"{count}\0{self.word}\0{self.after[:_KNOWN_CHARS]}\0{len(self.after)}"
        return blake2b(written.encode("utf-8", "replace"), digest_size=8).hexdigest()


def say_tier(tier: Tier | None) -> str:
    """Fixed words: they identify the exchange later."""
    return f"This session is set to {tier or 'auto'}."


def may_have_line(text: str) -> bool:
    """With some client."""
    begin = begin_of_words(text)
    return _LINE.match(text, begin) is not None or text.startswith(("<", '"'), begin)


def read_line(text: str, client: Client) -> Line | None:
    """Its tier may be unknown."""
    begin = offset = begin_of_words(text)
    end = len(text)
    if client.wraps_words_in:
        tag = next((tag for tag in client.wraps_words_in if text.startswith(f"<{tag}>", begin)), None)
        if tag is None:
            return None
        begin = offset = begin + len(tag) + 2
        closes = text.find(f"</{tag}>", begin)
        end = closes if closes >= 0 else end
        offset += len(text[begin:end]) - len(text[begin:end].lstrip())
    elif client.quotes_words and text.startswith('"', begin) and text.rstrip().endswith('"') and len(text.strip()) > 1:
        begin, end = begin + 1, text.rstrip().rindex('"')
        offset = begin + len(text[begin:end]) - len(text[begin:end].lstrip())
    found = _LINE.match(text, offset, end)
    if found is None:
        return None
    after = _EMPTY_LINES.match(text, found.end(), end)
    stop = after.end() if after else found.end()
    before = text[:begin] if text[:begin].strip() else ""
    if client.wraps_words_in:
        before = text[:offset]
    return Line(found.group(1).lower(), before, text[stop:], not strip_harness(text[found.end(1) : end], client))


def without_lines(message: Json, lines: dict[int, Line], filler: str) -> Json:
    """None if nothing is left. `filler` replaces empty words."""
    given = as_object(message)
    content = given.get("content")
    if isinstance(content, str):
        left = lines[ONE_TEXT].filled(filler)
        return {**given, "content": left} if left else None
    parts: list[Json] = []
    last = max(lines)
    for index, value in enumerate(as_list(content)):
        if index not in lines:
            parts.append(value)
        elif left := lines[index].filled(filler if index == last else ""):
            parts.append({**as_object(value), "text": left})
    return {**given, "content": parts} if parts else None


def begin_of_words(text: str) -> int:
    """Where a text's words begin, after what the client put before them.

    Text quoted by a client may contain the closing tag around it, so the last closing tag counts.
    """
    begin = 0
    for mark in WORDS_BEGIN_AFTER:
        if mark in text if len(text) <= LARGE_BYTES else is_in(text, mark):
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


def texts_of(message: Json) -> list[str]:
    """By any author."""
    if not isinstance(message, dict) or message.get("role") != "user":
        return []
    content = message.get("content")
    return [content] if isinstance(content, str) else [text for _, text in _texts_of(content)]


def own_texts(message: Json, client: Client) -> list[tuple[int, str]]:
    """The texts the person wrote, with their indexes, oldest first.

    If the client's row names the person's block: that one. Otherwise: the only text that is not the client's. Of several texts
    any may be a file, so none counts.
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
    """The person's last text before each interrupt, and the last one after them all.

    Interrupted and later words come as one message. Text with tool results before an interrupt was not typed, nor was text
    after a command: the command's expansion, perhaps by another author.
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
