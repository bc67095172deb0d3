"""Marked blocks in files with `#` comments: TOML, YAML, shell.

Replaced lines are kept as comments, so that removal needs only the text, even if the rest of it changed.
"""

import re

from router.connect.formats import CannotEdit, Memo, line_end, line_of

_BEGIN = "# >>> tandem connect"
_FINISH = "# <<< tandem connect"
_OWN_TABLE = ".tandem]"
_JOINT = " (the line before it had no end)"
_KEPT = "# kept by tandem connect: "
_BLOCK = re.compile(rf"^[ \t]*{_BEGIN}.*?^[ \t]*{_FINISH}([^\n]*)(?:\n|\Z)", re.MULTILINE | re.DOTALL)
_MARK = re.compile(rf"^[ \t]*(?:{_BEGIN}|{_FINISH})", re.MULTILINE)
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_KEPT_LINE = re.compile(rf"^{_KEPT}", re.MULTILINE)


def has_block(text: str) -> bool:
    return _BLOCK.search(text) is not None


def wrap(lines: str, indent: str, end: str) -> str:
    """A block with its marks, indented, without the last line end."""
    inner = lines.strip("\n").splitlines()
    marked = [f"{_BEGIN} (tandem connect CLIENT --undo removes it)", *inner, _FINISH]
    return end.join(indent + line if line else line for line in marked)


def check(text: str) -> None:
    """Refuse marks without a whole block. Raises `CannotEdit`."""
    found = _MARK.search(text) or _KEPT_LINE.search(text)
    if found is not None:
        raise CannotEdit("a mark of tandem connect without its block: remove this line", line_of(text, found.start()))


def add_first(text: str, lines: str) -> str:
    end = line_end(text)
    return wrap(lines, "", end) + end + text


def add_last(text: str, lines: str) -> str:
    """Append a block, with a line end, so that later additions do not join our mark.

    The mark notes if the person's last line had no end, so that removal leaves no trace.
    """
    end = line_end(text)
    block = wrap(lines, "", end)
    return text + end + block + _JOINT + end if text and not text.endswith("\n") else text + block + end


def add_at(text: str, offset: int, lines: str, indent: str) -> str:
    end = line_end(text)
    return text[:offset] + wrap(lines, indent, end) + end + text[offset:]


def keep(text: str, start: int, stop: int) -> str:
    return text[:start] + _LINE.sub(rf"{_KEPT}\g<0>", text[start:stop]) + text[stop:]


def note(*pieces: str) -> Memo:
    """The blocks' lines, to distinguish them from others' lines between the marks."""
    return [{"lines": [line.strip() for piece in pieces for line in piece.splitlines() if line.strip()]}]


def remove(text: str, memo: Memo | None = None, sign: str = "") -> str:
    """The text without our blocks, and with the lines that they replaced.

    Others' lines between our marks stay. `sign` follows a setting's name: our settings with another value are still ours.
    Without the memo, only later tables are taken as others', unless they have our name.
    """
    lines = memo[0].get("lines") if memo else None
    ours = frozenset(map(str, lines)) if isinstance(lines, list) else None
    while (found := _BLOCK.search(text)) is not None:
        start, after = found.start(), text[found.end() :]
        theirs = _theirs(found.group(), ours, sign)
        # Older versions ended blocks without a line end, so an addition is on the mark's line.
        mark = found.group(1)
        if mark.strip() and not mark.startswith(" ("):
            theirs += mark + ("\n" if found.group().endswith("\n") else "")
        elif not theirs and not after and start and (mark.startswith(_JOINT) or not found.group().endswith("\n")):
            start -= len(line_end(found.group()))
        text = text[:start] + theirs + after
    return _KEPT_LINE.sub("", text)


def lines_of(text: str) -> list[str] | None:
    found = _BLOCK.search(text)
    return None if found is None else [line.strip() for line in found.group().splitlines()[1:-1]]


def _theirs(block: str, ours: frozenset[str] | None, sign: str) -> str:
    """A block's lines that others wrote. Everything after a foreign table header is theirs."""
    lines = _LINE.findall(block)[1:-1]
    if ours is None:
        first = next((index for index, line in enumerate(lines) if line.startswith("[")), len(lines))
        later = (index for index, line in enumerate(lines) if index > first and line.startswith("["))
        theirs = next((index for index in later if not lines[index].strip().endswith(_OWN_TABLE)), len(lines))
        return "".join(lines[theirs:])
    names = {line.partition(sign)[0].strip() for line in ours if sign and sign in line}
    kept: list[str] = []
    is_theirs = False
    for line in lines:
        bare = line.strip()
        is_theirs = is_theirs or (bare.startswith("[") and bare not in ours)
        is_ours = not bare or bare in ours or (bool(sign) and sign in bare and bare.partition(sign)[0].strip() in names)
        if is_theirs or not is_ours:
            kept.append(line)
    return "".join(kept)
