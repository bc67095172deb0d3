"""A tier asked for in a message, for clients that cannot set headers: its first line is `tier: fast`, `deep` or `auto`.

It counts for its turn, and is found again at each call of it. A message of nothing else counts for the next turn as well, and
the router itself answers it. The line stays in what is sent, so that the prefix of the conversation stays warm.

Only text the person typed counts: files, selections and the output of hooks or tools must not decide about tiers.
"""

import re
from typing import NamedTuple

from router.contract.errors import UnknownOverride
from router.contract.parts import LARGE_BYTES, is_in
from router.contract.request import Json, RequestView
from router.contract.signals import TierLine
from router.contract.words import BEGINS, Feature, Operation, Tier, TurnKind
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
from router.sessions.history import History
from router.sessions.words import strip_harness

TIERS = {"fast": Tier.FAST, "deep": Tier.DEEP, "auto": None}
LINE_STARTS = frozenset('tT"')
"""What a person's words with a line begin with."""
_BLANK = r"[^\S\r\n]"
_END = rf"(?:{_BLANK}*(?:\r\n|\r|\n|\Z))"
_LINE = re.compile(rf"tier{_BLANK}*:{_BLANK}*(\w[\w.-]{{0,39}}){_END}", re.IGNORECASE)
_TEXTS = ("text", "input_text")
_PLAIN = frozenset({*_TEXTS, "tool_result"})
_RESULT_HEAD = 200
_OPENED = re.compile(rf"<({'|'.join(HARNESS_TAGS)}|{TELLING_TAGS})\b")
_BLANKS = re.compile(r"\s*")
_FREE_CHOICES = (None, "auto", "none")
_FREE_FORMATS = (None, "text")


class Line(NamedTuple):
    word: str
    is_alone: bool
    """Whether its message says nothing else."""


def find_line(view: RequestView, client: Client, kind: TurnKind, words: str | None, told: History) -> TierLine | None:
    """The line of a person's turn with these words. Raises `UnknownOverride` for a message of nothing but an unknown tier."""
    items = view.conversation.items
    if words and _may_begin_with_line(words):
        line = _line_of(items[told.words_at[-1] if told.words_at else 0], client)
        if line is not None:
            is_new = line.is_alone and kind in BEGINS and view.operation is Operation.CREATE
            if line.word in TIERS:
                return TierLine(TIERS[line.word], is_new and _may_be_answered_here(view, client))
            if is_new:
                raise UnknownOverride(f'tier: unknown tier "{line.word}". Known: {", ".join(TIERS)}')
    if told.last and len(told.words_at) > 1 and _may_begin_with_line(told.last[-1].words):
        before = _line_of(items[told.words_at[-2]], client)
        if before is not None and before.is_alone and before.word in TIERS:
            return TierLine(TIERS[before.word])
    return None


def _may_begin_with_line(words: str) -> bool:
    return words[:5].lstrip('"').lower().startswith("tier")


def _may_be_answered_here(view: RequestView, client: Client) -> bool:
    """Whether a sentence will do: no tool call or schema is demanded, and no history is known to a target alone."""
    if client.needs_calls or view.previous_response_id or view.overrides.for_session:
        return False
    body, choice = view.body, view.body.get("tool_choice")
    if isinstance(choice, dict):
        choice = choice.get("mode") if choice.get("type") == "allowed_tools" else choice.get("type")
    formats = (body.get("response_format"), as_object(body.get("text")).get("format"), body.get("output_format"))
    return (
        choice in _FREE_CHOICES
        and Feature.JSON_SCHEMA not in view.needs
        and all(as_object(given).get("type") in _FREE_FORMATS for given in formats)
    )


def _line_of(message: Json, client: Client) -> Line | None:
    """Next to an image or a file, which a model must see, a line is not alone."""
    text = own_text(message, client)
    line = read_line(text, client) if text is not None else None
    types = {as_text(as_object(part).get("type")) for part in as_list(as_object(message).get("content"))}
    return line if line is None or types <= _PLAIN else line._replace(is_alone=False)


def read_line(text: str, client: Client) -> Line | None:
    """Its tier may be unknown."""
    begin = begin_of_words(text)
    end = len(text)
    if client.wraps_words_in:
        tag = next((tag for tag in client.wraps_words_in if text.startswith(f"<{tag}>", begin)), None)
        if tag is None:
            return None
        begin += len(tag) + 2
        closes = text.find(f"</{tag}>", begin)
        end = closes if closes >= 0 else end
    elif client.quotes_words and text.startswith('"', begin) and text.rstrip().endswith('"') and len(text.strip()) > 1:
        begin, end = begin + 1, text.rstrip().rindex('"')
    found = _LINE.match(text, _skip_blanks(text, begin), end)
    return None if found is None else Line(found.group(1).lower(), not strip_harness(text[found.end(1) : end], client))


def own_text(message: Json, client: Client) -> str | None:
    """The last text of a message that the person wrote.

    If the client's row names the person's block: that one. Otherwise: the only text that is not the client's. Of several texts
    any may be a file, so none counts.
    """
    if not isinstance(message, dict) or message.get("role") != "user":
        return None
    content = message.get("content")
    if isinstance(content, str):
        return content if _is_own(content, client) else None
    parts = [as_object(part) for part in as_list(content)]
    texts = [as_text(part.get("text")) for part in parts if part.get("type") in _TEXTS and part.get("text")]
    has_results = any(part.get("type") == "tool_result" for part in parts)
    if client.takes_last_block:
        return _last_typed(texts, client, has_results=has_results)
    if has_results:
        return None
    if client.takes_first_block:
        return texts[0] if texts and _is_own(texts[0], client) else None
    own = [text for text in texts if _is_own(text, client)]
    return own[0] if len(own) == 1 and (client.result_mark is None or not _is_result(texts, client.result_mark)) else None


def _last_typed(texts: list[str], client: Client, *, has_results: bool) -> str | None:
    """The person's last text. Interrupted and later words come as one message.

    Text with tool results before an interrupt was not typed, nor was text after a command: the command's expansion, perhaps by
    another author.
    """
    found = last = None
    is_command = False
    for text in texts:
        if text.startswith(INTERRUPT):
            if last is not None and not has_results:
                found = last
            last, has_results, is_command = None, False, False
        elif text.startswith(COMMAND_OPENS):
            is_command = bool(strip_harness(text, client))
        elif text.startswith(LOCAL_OUTPUTS):
            is_command = False
        elif not is_command and _is_own(text, client):
            last = text
    return last if last is not None and not has_results else found


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


def _is_own(text: str, client: Client) -> bool:
    return not text.startswith(HARNESS_STARTS, begin_of_words(text)) and bool(strip_harness(text, client))


def _is_result(texts: list[str], mark: str) -> bool:
    return any(mark in text[:_RESULT_HEAD] for text in texts)
