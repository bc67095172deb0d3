"""The person's own words, without what their client wraps around them."""

import re
from collections.abc import Mapping
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from router.contract.request import Conversation, Message
from router.sessions.clients import (
    ATTACHMENTS_BEGIN,
    BY_NAME,
    COMMAND_OPENS,
    HARNESS_STARTS,
    HARNESS_TAGS,
    INTERRUPT,
    LOCAL_CAVEATS,
    LOCAL_COMMANDS,
    LOCAL_OUTPUTS,
    NOTICE_LINES,
    SUMMARIES,
    TELLING_TAGS,
    WORDS_ARE_IN,
    WORDS_BEGIN_AFTER,
    Client,
)

_OPENED = re.compile(rf"<(?:({'|'.join(HARNESS_TAGS)})|({TELLING_TAGS}))\b[^>]{{0,200}}>")
_NOTICE_LINE = re.compile(rf"^(?:{'|'.join(map(re.escape, NOTICE_LINES))})[^\n]*\n?", re.MULTILINE)
_NOTIFICATION = "-notification>"
_COMMAND_NAME = re.compile(r"<command-name>\s*([^<]{1,200}?)\s*</command-name>")
_COMMAND_WORDS = re.compile(r"<command-args>(.*)</command-args>", re.DOTALL)
_ELEMENT, _IMAGE = "DOM Path: ", "[Image: "
_PICKED_ELEMENT = re.compile(
    r"(?:[ \t]*+DOM Path: [^\n]*+(?:\n(?:Position|React Component|React Props|Component|Attributes|Computed Styles): [^\n]*+)*+"
    r"(?:\nHTML Element: (?:<([\w-]+)\b(?:(?!DOM Path: ).){0,1500}?</\1>|[^\n]*+))?[ \t]*+)+",
    re.DOTALL,
)
"""What Cursor's browser pastes for each picked page element."""
_IMAGE_SOURCE = re.compile(r"\[Image: (?:source|original)\b[^\]\n[]{0,400}\]")
_IMAGES_ONLY = re.compile(r"(?:\[Image #\d+\]\s*)+")
_LOOK_BACK_MESSAGES = 8
_BACKWARDS = slice(None, -1 - _LOOK_BACK_MESSAGES, -1)
LAST_TWO = slice(-2, None)
_SHORT_CHARS = 2_000
_MAX_CHARS = 20_000
"""A longer text is cut before searching, to keep pastes cheap."""
_RESULT_HEAD = 200
_MAX_CANNED = 100


class End(Struct, frozen=True):
    """The last user message and the person's words; None if nothing was typed after the last answer."""

    message: Message | None
    words: str | None


def read_end(conversation: Conversation, client: Client) -> End:
    """Searches before client notices, up to a compaction's summary."""
    last, messages = None, conversation.messages
    for index in range(len(conversation.items))[_BACKWARDS]:
        message = messages[index]
        role = message.role
        if role == "user":
            last = last or message
            if (words := words_of(message, client)) and not nobody_typed(messages, index, client):
                return End(last, words)
            if message.results or (message.texts and message.texts[0].startswith(SUMMARIES)):
                break
        elif role not in ("system", "developer"):
            break
    return End(last, None)


def nobody_typed(messages: Mapping[int, Message], index: int, client: Client) -> bool:
    """Whether the previous message shows that the client wrote this one: a command's expansion, or a local command."""
    if not index or (before := messages[index - 1]).role != "user" or not before.texts:
        return False
    ending = before.texts[-1]
    texts = messages[index].texts
    if texts and texts[0].startswith(COMMAND_OPENS):
        return ending.startswith(LOCAL_CAVEATS)
    return ending.startswith(COMMAND_OPENS) and bool(words_of(before, client))


def words_of(message: Message, client: Client) -> str:
    """Empty if all of the message is harness."""
    texts = message.texts
    if len(texts) == 1:
        text = texts[0]
        return _strip_short(text, client.name) if len(text) <= _SHORT_CHARS else _strip_any(text, client)
    if any(text.startswith(COMMAND_OPENS) for text in texts):
        return _words_with_command(texts, client)
    blocks: list[str] = []
    for text in texts:
        if text.startswith(ATTACHMENTS_BEGIN):
            break
        if words := strip_harness(text, client):
            blocks.append(words)
    if len(blocks) > 1:
        blocks = [block for block in blocks if not _IMAGES_ONLY.fullmatch(block)] or blocks
    if not blocks:
        return ""
    if client.takes_first_block:
        return blocks[0]
    return blocks[-1] if client.takes_last_block else "\n".join(blocks)


def _words_with_command(texts: tuple[str, ...], client: Client) -> str:
    """The last words among blocks with commands, without what those expand to."""
    words = before = command = ""
    is_local = False
    for text in texts:
        if text.startswith(COMMAND_OPENS):
            command = "" if is_local else strip_harness(text, client)
            before, words, is_local = words, command or words, False
        elif text.startswith(LOCAL_CAVEATS):
            is_local = True
        elif text.startswith(LOCAL_OUTPUTS):
            words, command = (before, "") if command else (words, "")
        elif text.startswith(INTERRUPT):
            command = ""
        elif not command:
            words = strip_harness(text, client) or words
    return words


def opening_words(message: Message, client: Client) -> str:
    """The beginning of a message's typed part, enough to identify it."""
    texts = message.texts
    if len(texts) == 1:
        text = texts[0]
        if len(text) <= _SHORT_CHARS:
            return _strip_short(text, client.name)
    if texts and max(map(len, texts)) > _SHORT_CHARS:
        cut = tuple([text if text.startswith("<") else text[:_SHORT_CHARS] for text in texts])
        return words_of(replace(message, texts=cut), client)
    return words_of(message, client)


def strip_harness(text: str, client: Client) -> str:
    """The typed part of a text. Short ones are cached, since a turn's calls repeat them."""
    return _strip_short(text, client.name) if len(text) <= _SHORT_CHARS else _strip_any(text, client)


@lru_cache(maxsize=256)
def _strip_short(text: str, client_name: str) -> str:
    return _strip_any(text, BY_NAME[client_name])


def _strip_any(text: str, client: Client) -> str:
    has_tags = "<" in text
    if has_tags:
        if (inside := _find_wrapped(text, client)) is not None:
            text = inside
        elif text.startswith(COMMAND_OPENS):
            return _read_command(text)
    if client.result_mark and client.result_mark in text[:_RESULT_HEAD]:
        return ""
    if len(text) > _MAX_CHARS:
        text = text[: _MAX_CHARS // 2] + text[-_MAX_CHARS // 2 :]
    for mark in WORDS_BEGIN_AFTER:
        if mark in text:
            text = text.rpartition(mark)[2]
    for mark in client.words_end_at:
        text = text.partition(mark)[0]
    if has_tags:
        is_notice = _NOTIFICATION in text
        text = _drop_tags(text)
        if is_notice:
            text = _NOTICE_LINE.sub("", text)
    if _ELEMENT in text:
        text = _PICKED_ELEMENT.sub(" ", text)
    if _IMAGE in text:
        text = _IMAGE_SOURCE.sub("", text)
    text = text.strip()
    return "" if text.startswith(HARNESS_STARTS) or (len(text) <= _MAX_CANNED and text in client.canned) else text


def _drop_tags(text: str) -> str:
    """Drop a client's tags with their content. A known tag that is never closed runs to the end."""
    opened = _OPENED.search(text)
    if opened is None:
        return text
    parts: list[str] = []
    unclosed: set[str] = set()
    offset = 0
    while opened is not None:
        known, telling = opened.groups()
        closes, after = f"</{known or telling}>", opened.end()
        end = -1 if closes in unclosed else text.find(closes, after)
        if end < 0:
            unclosed.add(closes)
        if end >= 0 or known:
            parts.append(text[offset : opened.start()])
            offset = after = end + len(closes) if end >= 0 else len(text)
        opened = _OPENED.search(text, after)
    return "".join(parts) + text[offset:]


def _find_wrapped(text: str, client: Client) -> str | None:
    """The content of a client's tags around the person's words; None without such tags."""
    tags = client.wraps_words_in
    if tags and client.result_mark and client.result_mark in text[:_RESULT_HEAD]:
        head = text[: 2 * _RESULT_HEAD]
        tags = tags if any(mark in head for mark in client.replies_in) else ()
    for tag in (*tags, *WORDS_ARE_IN):
        _, begins, rest = text.partition(f"<{tag}>")
        inside, ends, _ = rest.partition(f"</{tag}>")
        if begins and ends:
            return inside
    return None


def _read_command(text: str) -> str:
    """Name and arguments; empty for a command that the client runs itself."""
    name, words = _COMMAND_NAME.search(text), _COMMAND_WORDS.search(text)
    if name is None or name.group(1) in LOCAL_COMMANDS or any(output in text for output in LOCAL_OUTPUTS):
        return ""
    return f"{name.group(1)} {words.group(1).strip()}".rstrip() if words else name.group(1)
