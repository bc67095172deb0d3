"""A parser of JSON with comments that keeps offsets, for changing values in place."""

import json
import re
from dataclasses import dataclass, field

from router.connect.formats import CannotEdit, line_of

_GAP = re.compile(r"(?:[ \t\r\n]+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_PLAIN = re.compile(r"true|false|null|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
_MAX_DEPTH = 200


@dataclass(slots=True)
class Node:
    start: int
    end: int
    value: object = None
    members: "list[Member]" = field(default_factory=list)
    items: "list[Node]" = field(default_factory=list)

    def find(self, key: str) -> "Member | None":
        """Of duplicates the last counts, as for all JSON readers."""
        return next((member for member in reversed(self.members) if member.key == key), None)


@dataclass(slots=True)
class Member:
    """`start` is the offset of the key."""

    start: int
    key: str
    node: Node


def parse(text: str) -> Node:
    """Raises `CannotEdit` with the line."""
    reader = _Reader(text)
    node = reader.read_value(reader.skip(0), 0)
    if (rest := reader.skip(node.end)) < len(text):
        raise reader.fault(rest, "something follows the end of the JSON")
    return node


def comma_after(text: str, offset: int) -> int | None:
    """The offset of the comma after a value, past blanks and comments."""
    found = _GAP.match(text, offset)
    at = found.end() if found else offset
    return at if text[at : at + 1] == "," else None


class _Reader:
    """Its methods take an offset and return where they ended."""

    def __init__(self, text: str) -> None:
        self._text = text

    def fault(self, offset: int, reason: str) -> CannotEdit:
        return CannotEdit(f"{reason}: this is not valid JSON", line_of(self._text, offset))

    def skip(self, offset: int) -> int:
        found = _GAP.match(self._text, offset)
        return found.end() if found else offset

    def read_value(self, offset: int, depth: int) -> Node:
        if depth > _MAX_DEPTH:
            raise self.fault(offset, "too deeply nested")
        first = self._text[offset : offset + 1]
        if first == "{":
            return self._read_object(offset, depth)
        if first == "[":
            return self._read_array(offset, depth)
        found = _STRING.match(self._text, offset) or _PLAIN.match(self._text, offset)
        if found is None:
            raise self.fault(offset, "the file ends too soon" if not first else f"unexpected {first!r}")
        return Node(offset, found.end(), self._load(found.group(), offset))

    def _load(self, raw: str, offset: int) -> object:
        try:
            return json.loads(raw)
        except ValueError:
            raise self.fault(offset, "a string with a wrong escape") from None

    def _read_object(self, offset: int, depth: int) -> Node:
        node, values = Node(offset, offset), {}
        at = self.skip(offset + 1)
        while self._text[at : at + 1] != "}":
            found = _STRING.match(self._text, at)
            if found is None:
                raise self.fault(at, "a key in double quotes is missing")
            key = str(self._load(found.group(), at))
            colon = self.skip(found.end())
            if self._text[colon : colon + 1] != ":":
                raise self.fault(colon, f'":" is missing after "{key}"')
            inner = self.read_value(self.skip(colon + 1), depth + 1)
            node.members.append(Member(at, key, inner))
            values[key] = inner.value
            at = self._next(inner.end, "}")
        node.end, node.value = at + 1, values
        return node

    def _read_array(self, offset: int, depth: int) -> Node:
        node = Node(offset, offset)
        at = self.skip(offset + 1)
        while self._text[at : at + 1] != "]":
            inner = self.read_value(at, depth + 1)
            node.items.append(inner)
            at = self._next(inner.end, "]")
        node.end, node.value = at + 1, [item.value for item in node.items]
        return node

    def _next(self, offset: int, closing: str) -> int:
        """Trailing commas are allowed."""
        at = self.skip(offset)
        if self._text[at : at + 1] == ",":
            return self.skip(at + 1)
        if self._text[at : at + 1] != closing:
            raise self.fault(at, f'"," or "{closing}" is missing')
        return at
