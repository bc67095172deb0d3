"""Marked blocks in files that have comments with `#`: TOML, YAML, shell.

Our block lies between two marks. A line that it replaces is kept as a comment and restored when the block is removed. All of it
can be undone from the text alone, even if the text around it has changed.
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
    """Whether a text has a block of ours."""
    return _BLOCK.search(text) is not None


def wrap(lines: str, indent: str, end: str) -> str:
    """A block with its marks, each line with this indent, and without the last line's end."""
    inner = lines.strip("\n").splitlines()
    marked = [f"{_BEGIN} (tandem connect CLIENT --undo removes it)", *inner, _FINISH]
    return end.join(indent + line if line else line for line in marked)


def check(text: str) -> None:
    """Refuse a text that has marks of ours, but no whole block. Raises `CannotEdit`."""
    found = _MARK.search(text) or _KEPT_LINE.search(text)
    if found is not None:
        raise CannotEdit("a mark of tandem connect without its block: remove this line", line_of(text, found.start()))


def add_first(text: str, lines: str) -> str:
    """Put a block at the top."""
    end = line_end(text)
    return wrap(lines, "", end) + end + text


def add_last(text: str, lines: str) -> str:
    """Put a block at the end. It always ends its last line, or what is appended to the file would become part of our mark.

    Where the person's last line had no end, the mark notes it: so the block leaves no trace.
    """
    end = line_end(text)
    block = wrap(lines, "", end)
    return text + end + block + _JOINT + end if text and not text.endswith("\n") else text + block + end


def add_at(text: str, offset: int, lines: str, indent: str) -> str:
    """Put a block before the line that begins at an offset."""
    end = line_end(text)
    return text[:offset] + wrap(lines, indent, end) + end + text[offset:]


def keep(text: str, start: int, stop: int) -> str:
    """Turn the lines between two offsets into comments."""
    return text[:start] + _LINE.sub(rf"{_KEPT}\g<0>", text[start:stop]) + text[stop:]


def note(*pieces: str) -> Memo:
    """What is remembered of blocks: their lines, so that others' lines between the marks can be told from ours."""
    return [{"lines": [line.strip() for piece in pieces for line in piece.splitlines() if line.strip()]}]


def remove(text: str, memo: Memo | None = None, sign: str = "") -> str:
    """The text without our blocks, and with the lines that they replaced.

    Clients write between our marks, too: what is not ours stays. `sign` is what follows a setting's name, where a setting of
    ours with another value is still ours. Without the memo, only tables after the first one are known to be others',
    unless they have our name.
    """
    lines = memo[0].get("lines") if memo else None
    ours = frozenset(map(str, lines)) if isinstance(lines, list) else None
    while (found := _BLOCK.search(text)) is not None:
        start, after = found.start(), text[found.end() :]
        theirs = _theirs(found.group(), ours, sign)
        # Blocks of older versions ended without a line's end, so what was appended there is on the mark's line.
        mark = found.group(1)
        if mark.strip() and not mark.startswith(" ("):
            theirs += mark + ("\n" if found.group().endswith("\n") else "")
        elif not theirs and not after and start and (mark.startswith(_JOINT) or not found.group().endswith("\n")):
            start -= len(line_end(found.group()))
        text = text[:start] + theirs + after
    return _KEPT_LINE.sub("", text)


def lines_of(text: str) -> list[str] | None:
    """The lines between our marks; None where there is no block."""
    found = _BLOCK.search(text)
    return None if found is None else [line.strip() for line in found.group().splitlines()[1:-1]]


def _theirs(block: str, ours: frozenset[str] | None, sign: str) -> str:
    """The lines of a block that others wrote. A table's header that is not ours begins what is theirs to the end."""
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
