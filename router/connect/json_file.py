"""JSON with or without comments: values are set in place, everything else stays byte for byte.

JSON has no room for marks, so what was there before goes into the memo.
"""

import json

from router.connect.formats import CannotEdit, Memo, Piece, Put, includes, is_tier, line_end
from router.connect.jsonc import Node, comma_after, parse

Path = tuple[str, ...]
_STEP = "  "
_BLANKS = " \t\r\n"


def put(text: str | None, piece: Piece) -> Put:
    """Set the piece's `values`: merge objects, prepend array items, replace the rest.

    Objects named in `whole` are replaced and removed as one value.
    """
    wanted, whole = json.loads(piece["values"]), piece.get("whole", "").split()
    if text is None or not text.strip():
        written = json.dumps(wanted, indent=2, ensure_ascii=False) + "\n"
        return Put(written, [{"kind": "file", "before": text, "written": written, "values": wanted, "whole": whole}])
    root = parse(text)
    if not isinstance(root.value, dict):
        raise CannotEdit("the file should hold one JSON object")
    edits = _Edits(text, whole)
    edits.merge((), root, wanted)
    return Put(edits.apply(), edits.memo)


def holds(text: str, piece: Piece, tiers: frozenset[str]) -> bool:
    return bool(text.strip()) and includes(parse(text).value, json.loads(piece["values"]), tiers)


class _Edits:
    """Changes to one text, collected by offset and applied from the end."""

    def __init__(self, text: str, whole: list[str]) -> None:
        self._text, self._end, self._whole = text, line_end(text), whole
        self._changes: list[tuple[int, int, str]] = []
        self.memo: Memo = []

    def merge(self, path: Path, node: Node, wanted: dict[str, object]) -> None:
        missing: dict[str, object] = {}
        for key, value in wanted.items():
            member = node.find(key)
            if member is None:
                missing[key] = value
            elif isinstance(value, dict) and isinstance(member.node.value, dict) and key not in self._whole:
                self.merge((*path, key), member.node, value)
            elif isinstance(value, list) and isinstance(member.node.value, list):
                self._add_items((*path, key), member.node, [item for item in value if item not in member.node.value])
            elif member.node.value != value:
                self._replace((*path, key), member.node, value)
        if missing:
            written = [f"{json.dumps(key, ensure_ascii=False)}: " for key in missing]
            inserted = self._insert(node, node.members[0].start if node.members else None, written, list(missing.values()))
            self.memo.append({"kind": "insert", "path": list(path), "text": inserted, "values": missing, "whole": self._whole})

    def _add_items(self, path: Path, node: Node, items: list[object]) -> None:
        if items:
            inserted = self._insert(node, node.items[0].start if node.items else None, [""] * len(items), items)
            self.memo.append({"kind": "items", "path": list(path), "text": inserted, "values": items})

    def _replace(self, path: Path, node: Node, value: object) -> None:
        before = self._text[node.start : node.end]
        self._changes.append((node.start, node.end, self._write(value, self._indent_at(node.start))))
        self.memo.append({"kind": "replace", "path": list(path), "before": before, "after": value})

    def _insert(self, node: Node, first: int | None, heads: list[str], values: list[object]) -> str:
        """Insert entries after the opening bracket, where one comma is enough."""
        outer = self._indent_at(node.start)
        inner = self._text[node.start + 1 : first if first is not None else node.end - 1]
        if first is not None and "\n" not in inner:
            flat = ", ".join(head + json.dumps(value, ensure_ascii=False) for head, value in zip(heads, values, strict=True))
            inserted = f" {flat}," if inner[:1] == " " else f"{flat}, "
        else:
            indent = self._indent_at(first) if first is not None else outer + _STEP
            lines = [head + self._write(value, indent) for head, value in zip(heads, values, strict=True)]
            inserted = self._end + indent + f",{self._end}{indent}".join(lines)
            if first is not None:
                inserted += ","
            elif "\n" not in inner:
                inserted += self._end + outer
        self._changes.append((node.start + 1, node.start + 1, inserted))
        return inserted

    def _indent_at(self, offset: int) -> str:
        line = self._text[self._text.rfind("\n", 0, offset) + 1 : offset]
        return line[: len(line) - len(line.lstrip(" \t"))]

    def _write(self, value: object, indent: str) -> str:
        return json.dumps(value, indent=len(_STEP), ensure_ascii=False).replace("\n", self._end + indent)

    def apply(self) -> str:
        text = self._text
        for start, end, new in sorted(self._changes, reverse=True):
            text = text[:start] + new + text[end:]
        return text


def take(text: str, memo: Memo, tiers: frozenset[str]) -> tuple[str | None, tuple[str, ...]]:
    """Restore what was set. Clients rewrite these files, so what is not found literally is looked for by value."""
    notes: list[str] = []
    for edit in memo:
        values, path = edit.get("values"), tuple(map(str, _as_list(edit.get("path"))))
        if edit["kind"] == "file" and text == edit["written"]:
            return _as_text(edit["before"]), ()
        if edit["kind"] == "replace":
            text = _set_back(text, path, edit, tiers, notes)
            continue
        if edit["kind"] != "file" and (shorter := _take_literally(text, path, str(edit["text"]), values)) is not None:
            text = shorter
            continue
        if isinstance(values, dict):
            for key, value in values.items():
                if key in _as_list(edit.get("whole")):
                    text = _take_whole(text, (*path, key), value, notes)
                else:
                    text = _prune(text, (*path, key), value, tiers, notes)
        else:
            text = _drop_items(text, path, _as_list(values))
        if edit["kind"] == "file" and not text.strip(_BLANKS + "{}"):
            return _as_text(edit["before"]), tuple(notes)
    return text, tuple(notes)


def _as_text(before: object) -> str | None:
    return before if isinstance(before, str) else None


def _as_list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def find_node(text: str, path: Path) -> Node | None:
    node = parse(text)
    for key in path:
        member = node.find(key)
        if member is None:
            return None
        node = member.node
    return node


def _take_literally(text: str, path: Path, inserted: str, values: object) -> str | None:
    node = find_node(text, path)
    at = -1 if node is None else text.find(inserted, node.start + 1, node.end - 1)
    if node is None or at < 0:
        return None
    shorter = text[:at] + text[at + len(inserted) :]
    left: object
    if isinstance(values, dict):
        left = {key: value for key, value in node.value.items() if key not in values} if isinstance(node.value, dict) else None
    else:
        left = [item for item in _as_list(node.value) if item not in _as_list(values)]
    try:
        now = find_node(shorter, path)
    except CannotEdit:
        return None
    return shorter if now is not None and now.value == left else None


def _set_back(text: str, path: Path, edit: dict[str, object], tiers: frozenset[str], notes: list[str]) -> str:
    node = find_node(text, path)
    if node is None:
        return text
    if node.value == edit["after"] or is_tier(node.value, tiers):
        return text[: node.start] + str(edit["before"]) + text[node.end :]
    notes.append(_changed(path))
    return text


def _changed(path: Path) -> str:
    return f"{'.'.join(path)} was changed since, and stays"


def _take_whole(text: str, path: Path, ours: object, notes: list[str]) -> str:
    node = find_node(text, path)
    if node is None or node.value == ours:
        return text if node is None else drop_member(text, path)
    notes.append(_changed(path))
    return text


def _prune(text: str, path: Path, ours: object, tiers: frozenset[str], notes: list[str]) -> str:
    """Remove our value; from an object or array with others' values, only ours."""
    node = find_node(text, path)
    if node is None:
        return text
    if node.value == ours or is_tier(node.value, tiers):
        return drop_member(text, path)
    if isinstance(ours, dict) and isinstance(node.value, dict):
        for key, value in ours.items():
            text = _prune(text, (*path, key), value, tiers, notes)
    elif isinstance(ours, list) and isinstance(node.value, list):
        text = _drop_items(text, path, ours)
    else:
        notes.append(_changed(path))
        return text
    left = find_node(text, path)
    return drop_member(text, path) if left is not None and left.value in ({}, []) else text


def drop_member(text: str, path: Path) -> str:
    holder = find_node(text, path[:-1])
    assert holder is not None
    index = max(at for at, member in enumerate(holder.members) if member.key == path[-1])
    return _drop(text, [(member.start, member.node.end) for member in holder.members], index)


def _drop_items(text: str, path: Path, ours: list[object]) -> str:
    for item in ours:
        node = find_node(text, path)
        if node is not None and item in (found := [entry.value for entry in node.items]):
            text = _drop(text, [(entry.start, entry.end) for entry in node.items], found.index(item))
    return text


def drop_item(text: str, path: Path, item: object) -> str:
    return _drop_items(text, path, [item])


def _drop(text: str, spans: list[tuple[int, int]], index: int) -> str:
    start, end = spans[index]
    begin = len(text[:start].rstrip(_BLANKS))
    comma = comma_after(text, end)
    if comma is not None:
        return text[:begin] + text[comma + 1 :]
    before = comma_after(text, spans[index - 1][1]) if index else None
    if before is not None:
        return text[:before] + text[before + 1 : max(begin, before + 1)] + text[end:]
    return text[:begin] + text[end:]
