"""The shape of a text: the signs between its words, counted in the order of `MARKS`."""

import re
from itertools import compress

_FILE = re.compile(
    r"\.(?:py|js|ts|tsx|jsx|go|rs|rb|java|kt|c|h|cpp|cc|hpp|cs|php|md|json|ya?ml|toml|html|css|scss|vue|sh|sql|txt|ini|cfg|lock"
    r"|xml|svelte|swift|exs?|lua|r|env|conf|tf|proto|ipynb|csv)\b"
)
_LIST_ITEM = re.compile(r"\n[ \t]*(?:[-*•]|\d{1,2}[.)])[ \t]")
_LINE_NUMBER = re.compile(r"\b(?:lines? |zeilen? |lignes? |l[ií]neas? |строк\w+ )\d|\w:\d+\b|第\d+行|\d行目")
_LINES = ("line", "zeile", "ligne", "linea", "línea", "строк", "行")
"""One of these, or a colon before a digit, is part of every line number: most texts need no search for one."""
_COLON_AND_DIGIT = re.compile(r":\d").search
_HAS_DIGIT = re.compile("[0-9]").search
_QUESTION_MARKS = ("?", "？", "؟")
_COUNTED = tuple(b',\n`_(/":?')
_ALIKE = bytes.maketrans(b"{[=;<'", b'((((("')
"""Signs counted as another: brackets as one kind, both quotes as one."""
_UNCOUNTED = bytes(code for code in range(256) if _ALIKE[code] not in _COUNTED)
_CASES = bytes(b"a"[0] if chr(code).islower() else b"A"[0] if chr(code).isupper() else 0 for code in range(128)).ljust(256)
_SIGN_OF_RED = {
    **dict(zip(("FAIL", "Traceback (most", "npm ERR!", "❌", "✗"), "F(!❌✗", strict=True)),
    **dict.fromkeys(("panic: ", "Error: ", "Exception: ", "error: ", "fatal: "), ":"),
}
"""Marks of failed output, each with a sign that is rare elsewhere: a single sign is found much sooner."""
_RED, _RED_SIGNS = tuple(_SIGN_OF_RED), tuple(_SIGN_OF_RED.values())
_EXITED = re.compile("xit (?:code|status) [12]")
_FAILURES = re.compile(r"[1-9](?<!\w[1-9])\d* (?:tests? )?fail(?:ed|ing|ures?)\b")
r"""Equals a pattern that begins with `\b[1-9]`, but the search leaps from digit to digit."""


def count_marks(shown: str, lower: str, words: int, length: int, hints: list[str]) -> tuple[int, ...]:
    """`lower` is the text in lower case, `hints` what its words have shown."""
    count = lower.count
    # Only the counted signs remain, so that counting each is nearly free.
    signs = lower.encode("utf-8", "surrogatepass").translate(_ALIKE, _UNCOUNTED)
    commas, lines, ticks, underscores, brackets, slashes, quotes, colons, questions = map(signs.count, _COUNTED)
    dots = "." in lower
    sentences = (count(". ") if dots else 0) + (count("! ") if "!" in lower else 0)
    has_arrow = ">" in lower and ("->" in lower or "=>" in lower)
    if not lower.isascii():
        commas += count("、") + count("，")
        sentences += count("。")
        questions += count("？") + count("؟")
        has_arrow = has_arrow or "→" in lower
    return (
        words,
        length,
        len(_FILE.findall(lower)) if dots else 0,
        commas,
        lines,
        len(_LIST_ITEM.findall(lower)) if lines else 0,
        ticks,
        hints.count("http"),
        0 if shown == lower else shown.encode("utf-8", "surrogatepass").translate(_CASES).count(b"aA"),
        underscores,
        brackets,
        slashes,
        quotes,
        sentences,
        colons,
        questions,
        int(lower.rstrip()[-1:] in _QUESTION_MARKS),
        int(ticks > 2 and "```" in lower),
        int("traceback" in hints or "exception" in hints or (lines > 0 and "\n    at " in lower)),
        int(has_arrow),
        len(_LINE_NUMBER.findall(lower)) if _may_name_lines(lower, colons) else 0,
    )


def _may_name_lines(lower: str, colons: int) -> bool:
    if not _HAS_DIGIT(lower):
        return False
    return any(map(lower.__contains__, _LINES)) or (colons > 0 and _COLON_AND_DIGIT(lower) is not None)


def is_red(text: str) -> bool:
    if any(map(text.__contains__, compress(_RED, map(text.__contains__, _RED_SIGNS)))):
        return True
    if "xit " in text and _EXITED.search(text) is not None:
        return True
    return " fail" in text and _FAILURES.search(text) is not None
