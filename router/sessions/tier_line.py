"""A line that asks for a tier, inside one text: where it is, what it asks for, and what is left without it."""

import re
from hashlib import blake2b
from typing import NamedTuple

from router.contract.request import Json
from router.contract.words import Tier
from router.dialects.fields import as_list, as_object
from router.sessions.clients import Client
from router.sessions.own_texts import ONE_TEXT, begin_of_words
from router.sessions.words import strip_harness

TIERS = {"fast": Tier.FAST, "deep": Tier.DEEP, "auto": None}
_BLANK = r"[^\S\r\n]"
_END = rf"(?:{_BLANK}*(?:\r\n|\r|\n|\Z))"
_LINE = re.compile(rf"tier{_BLANK}*:{_BLANK}*(\w[\w.-]{{0,39}}){_END}", re.IGNORECASE)
_EMPTY_LINES = re.compile(rf"(?:{_BLANK}*(?:\r\n|\r|\n))*")
_KNOWN_CHARS = 256
_NOTHING = re.compile(r'(?:""|<(\w+)>\s*</\1>)?')
"""What a client puts around words, without any."""


class Line(NamedTuple):
    """A line inside one text: what it asks for, and the text around it."""

    word: str
    before: str
    after: str
    is_alone: bool
    """Whether the person wrote nothing else there."""

    @property
    def is_known(self) -> bool:
        return self.word in TIERS

    @property
    def rest(self) -> str:
        """The text without the line; empty where nothing is left that anybody should read."""
        left = self.before + self.after
        return "" if _NOTHING.fullmatch(left.strip()) else left

    def filled(self, words: str) -> str:
        """`rest`, with other words where nothing is left."""
        return self.rest or (f"{self.before}{words}{self.after}" if words else "")

    def mark(self, count: int) -> str:
        """By which the line is known again: which of the conversation it is, what it asks for, and what came with it."""
        written = f"{count}\0{self.word}\0{self.after[:_KNOWN_CHARS]}\0{len(self.after)}"
        return blake2b(written.encode("utf-8", "replace"), digest_size=8).hexdigest()


def say_tier(tier: Tier | None) -> str:
    """What a message is answered that is only a line. An exchange is known again by this sentence, so its words are fixed."""
    return f"This session is set to {tier or 'auto'}."


def may_have_line(text: str) -> bool:
    """Whether a text may begin with such a line, with some client."""
    begin = begin_of_words(text)
    return _LINE.match(text, begin) is not None or text.startswith(("<", '"'), begin)


def read_line(text: str, client: Client) -> Line | None:
    """The line with which a person's words begin inside a text; its tier may not exist."""
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
    """A message without its lines; None where nothing is left of it. `filler` stands for the words of one that has none."""
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
