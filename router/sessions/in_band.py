"""A tier asked for inside a message, by people whose client cannot set headers: a first line `tier: fast`, `deep` or `auto`.

Only the person's own message counts, and only its first line. The line is taken out of every request that repeats it, always
in the same way, so that prefixes, caches and signatures hold.
"""

import re
from itertools import repeat

from msgspec.structs import replace

from router.contract.request import Conversation, InBand, Json, JsonObject, RequestView
from router.contract.words import Tier
from router.dialects.beginnings import learn
from router.dialects.fields import as_list, as_object, as_text
from router.dialects.requests import rewrite
from router.dialects.table import SPECS
from router.sessions.clients import HARNESS_TAGS

_LINE = re.compile(r'\A(<task>\n|")?tier: (fast|deep|auto)(?:(?:\r?\n)+|\Z)')
"""What may stand before it is what a client itself puts around the person's words."""
_HARNESS = tuple(f"<{tag}" for tag in HARNESS_TAGS)
_NOTHING_ELSE = "continue"
"""Replaces a message that was only the line, since hosts reject an empty message."""
_TEXTS = frozenset({"text", "input_text"})
_SMALL_BYTES = 4_096
"""A body that is searched faster than it is walked through."""
_MAX_LINES = 50
"""Places that are remembered."""
_NO_LINES: tuple[int, ...] = ()
_TIERS = {"fast": Tier.FAST, "deep": Tier.DEEP, "auto": None}


def heed_line(view: RequestView) -> RequestView:
    """The request without lines that ask for a tier, and with the last of them among its overrides."""
    raw = view.raw
    if len(raw) <= _SMALL_BYTES and b"tier: " not in raw and b"\\u" not in raw:
        return view  # with no escape in it either, the words cannot be there in any spelling
    line, changes = read_in_band(view)
    if line is None:
        return view
    return replace(rewrite(view, changes), overrides=replace(view.overrides, line=line))


def read_in_band(view: RequestView) -> tuple[InBand | None, JsonObject]:
    """The last such line in the conversation, and the fields of the body that change when the lines are removed."""
    spec = SPECS[view.dialect]
    if not spec.is_conversation:
        return None, {}
    name = spec.list_field
    given = view.body.get(name)
    if isinstance(given, str):
        found = _LINE.match(given)
        return (_read_line(found, 0), {name: _rest(given, found)}) if found else (None, {})
    places = learn(view.conversation, "lines", _NO_LINES, _find_lines)
    if not places:
        return None, {}
    override: InBand | None = None
    items = list(view.conversation.items)
    for place in places if len(places) <= _MAX_LINES else range(len(items)):
        found, items[place] = _take_line(items[place])
        override = _read_line(found, place) if found else override
    return override, {name: items}


def _find_lines(places: tuple[int, ...], conversation: Conversation, start: int, stop: int) -> tuple[int, ...]:
    """The places of messages that have such a line; one place too many where all must be looked through."""
    items = conversation.items[start:stop]
    if "user" not in map(dict.get, items, repeat("role")):  # type: ignore[arg-type]  # each is an object, or was refused
        return places
    found = [place for place, item in enumerate(items, start) if _take_line(item)[0] is not None]
    return (*places, *found)[: _MAX_LINES + 1]


def _read_line(found: "re.Match[str]", place: int) -> InBand:
    return InBand(_TIERS[found.group(2)], place)


def _take_line(message: Json) -> tuple["re.Match[str] | None", Json]:
    """A user's message without its line. A message that holds results is a tool's, whatever it says."""
    if not isinstance(message, dict) or message.get("role") != "user":
        return None, message
    content = message.get("content")
    if isinstance(content, str):
        found = _LINE.match(content)
        return (found, {**message, "content": _rest(content, found)}) if found else (None, message)
    parts = as_list(content)
    if any(as_object(part).get("type") == "tool_result" for part in parts):
        return None, message
    for index, entry in enumerate(parts):
        part = as_object(entry)
        text = as_text(part.get("text")) if as_text(part.get("type")) in _TEXTS else ""
        if not text or text.lstrip().startswith(_HARNESS):
            continue
        # The first text that is not the client's own is where a person begins; what follows may be a file or a result.
        found = _LINE.match(text)
        if found is None:
            break
        return found, {**message, "content": [*parts[:index], {**part, "text": _rest(text, found)}, *parts[index + 1 :]]}
    return None, message


def _rest(text: str, found: "re.Match[str]") -> str:
    return f"{found.group(1) or ''}{text[found.end() :]}" or _NOTHING_ELSE
