"""YAML: settings at the end, or entries at the head of a list, in a marked block."""

import yaml

from router.connect import marks
from router.connect.formats import CannotEdit, Memo, Piece, Put, includes

_IN_LIST = "  "


def put(text: str | None, piece: Piece) -> Put:
    """Add the piece's `keys`, or its `items` to the list under `list`; with an empty name the file is the list.

    Existing keys are kept as comments. `missing` are keys that the file needs next to the list.
    """
    text = text or ""
    marks.check(text)
    root, before = _read(text)
    if "items" in piece:
        ways, expected = _put_items(text, root, before, piece)
    else:
        ways, expected = _put_keys(text, root, before, piece["keys"])
    for new in ways:
        if _says(new, expected):
            return Put(
                new,
                marks.note(piece.get("missing", ""), piece.get("keys", ""), piece.get("items", ""), f"{piece.get('list')}:"),
            )
    raise CannotEdit("its settings are written in a way that leaves no room for ours: add them by hand (--print shows them)")


def _says(text: str, expected: object) -> bool:
    try:
        return _read(text)[1] == expected
    except CannotEdit:
        return False


def holds(text: str, piece: Piece, tiers: frozenset[str]) -> bool:
    told, wanted = _read(text)[1], yaml.safe_load(piece.get("keys") or piece["items"])
    return marks.has_block(text) and includes(told, {piece["list"]: wanted} if piece.get("list") else wanted, tiers)


def take(text: str, memo: Memo, tiers: frozenset[str]) -> tuple[str | None, tuple[str, ...]]:
    return (marks.remove(text, memo) if marks.has_block(text) else text), ()


def _read(text: str) -> tuple[yaml.Node | None, object]:
    try:
        return yaml.compose(text, Loader=yaml.SafeLoader), yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else None
        raise CannotEdit(f"this is not valid YAML: {error.problem}", line) from error
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise CannotEdit("this is not valid YAML") from error


def _both_ends(text: str, lines: str) -> list[str]:
    """A multi-line text that ends the file without a line end would grow at the end."""
    return [marks.add_last(text, lines), marks.add_first(text, lines)]


def _put_keys(text: str, root: yaml.Node | None, before: object, keys: str) -> tuple[list[str], object]:
    ours = yaml.safe_load(keys)
    if before is not None and not isinstance(before, dict):
        raise CannotEdit("the file should hold settings, one on each line")
    text = _keep_keys(text, root, set(ours))
    return _both_ends(text, keys), {**(before or {}), **ours}


def _put_items(text: str, root: yaml.Node | None, before: object, piece: Piece) -> tuple[list[str], object]:
    name, items = piece["list"], piece["items"]
    ours = yaml.safe_load(items)
    node, found = (root, before) if not name else _entry(root, before, name)
    if node is not None and isinstance(found, list) and found:
        if not isinstance(node, yaml.SequenceNode) or node.flow_style:
            raise CannotEdit(f"{name or 'the list'} is written on one line: give each entry a line of its own", _line(node))
        # The node begins at its first dash.
        offset = node.start_mark.index - node.start_mark.column
        new = marks.add_at(text, offset, items, " " * node.start_mark.column)
        return [new], [*ours, *found] if not name else {**_as_dict(before), name: [*ours, *found]}
    if not name:
        if before not in (None, []):
            raise CannotEdit("the file should hold a list")
        return [marks.add_last(text if before is None else marks.keep(text, 0, len(text)), items)], ours
    needed = yaml.safe_load(piece.get("missing", "")) or {}
    lacking = [line for line in piece.get("missing", "").splitlines() if line.partition(":")[0] not in _as_dict(before)]
    indented = [_IN_LIST + line for line in items.strip("\n").splitlines()]
    text = _keep_keys(text, root, {name})
    lines = "\n".join([*lacking, f"{name}:", *indented])
    return _both_ends(text, lines), {**needed, **_as_dict(before), name: ours}


def _as_dict(before: object) -> dict[object, object]:
    if before is not None and not isinstance(before, dict):
        raise CannotEdit("the file should hold settings, one on each line")
    return before or {}


def _entry(root: yaml.Node | None, before: object, name: str) -> tuple[yaml.Node | None, object]:
    pairs = root.value if isinstance(root, yaml.MappingNode) else []
    node = next((value for key, value in pairs if key.value == name), None)
    return node, _as_dict(before).get(name)


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def _keep_keys(text: str, root: yaml.Node | None, names: set[str]) -> str:
    """Last first, so that offsets stay valid."""
    if not isinstance(root, yaml.MappingNode):
        return text
    if root.flow_style:
        raise CannotEdit("the settings are written on one line: give each a line of its own", _line(root))
    for key, value in reversed(root.value):
        if key.value in names:
            start = text.rfind("\n", 0, key.start_mark.index) + 1
            text = marks.keep(text, start, _end_of_value(text, value, key.end_mark.index))
    return text


def _end_of_value(text: str, value: yaml.Node, key_end: int) -> int:
    """Blank lines and comments after a block are not part of it."""
    end = max(value.end_mark.index, key_end)
    is_text = isinstance(value, yaml.ScalarNode) and value.style in ("|", ">")
    if (isinstance(value, yaml.CollectionNode) and not value.flow_style) or is_text:
        lines = text[:end].split("\n")
        lines = lines[:-1] if not lines[-1].strip() else lines
        while not is_text and lines[-1].lstrip()[:1] in ("", "#", "\r"):
            lines.pop()
        return min(len("\n".join(lines)) + 1, len(text))
    stop = text.find("\n", end)
    return len(text) if stop < 0 else stop + 1
