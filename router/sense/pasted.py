"""What a person typed, without what they pasted: a log, a trace or a page's markup says little of how large the task is."""

import re

_LEAST_CHARS = 160
"""A shorter text is read whole."""
_LEAST_LINES = 3
_PASTED = re.compile(
    r"\s*(?:"
    r"[\[(]?\d{4}-\d\d-\d\d|[\[(]?\d\d:\d\d:\d\d"  # a time at the start of a log line
    r"|(?:\[?(?:INFO|WARN(?:ING)?|ERROR|DEBUG|TRACE|FATAL|NOTICE)\b)"
    r"|(?:at |File \"|from |#\d+ )\S+.*(?:line \d+|:\d+)|Traceback |Caused by:|\.\.\. \d+ more"
    r"|[+-]{3} |@@ |diff --git |index [0-9a-f]{6}"
    r"|<[/!a-zA-Z][^>]*>|DOM Path:|Position: |React Component:|HTML Element:"
    r"|[\w.-]+@[\w.-]+:\S*[$#] |\$ |>>> |npm (?:ERR!|WARN)|\w+(?:Error|Exception)\b:"
    r"|[}\])]+[;,)]*\s*$|\S+:\d+:\d+|[|+][-=+| ]{3,}|(?:=+|-+|\*+) ?\S.*(?:===|---)"
    r")"
)
_SIGNS = re.compile(r"[{}\[\]()=<>;|\\/$_@#*&^%~`\"]|0x|::|->")
_MAX_SIGNS = 0.12
"""The share of such signs in a line above which it is code or output rather than a sentence."""


def own_words(text: str) -> tuple[str, int]:
    """The text without its pasted lines, and how many there were. A text of nothing else stays as it is."""
    if len(text) < _LEAST_CHARS or text.count("\n") < _LEAST_LINES:
        return text, 0
    kept: list[str] = []
    pasted, is_fenced = 0, False
    for line in text.split("\n"):
        if line.lstrip().startswith("```"):
            is_fenced = not is_fenced
            pasted += 1
        elif is_fenced or _is_pasted(line):
            pasted += 1
        else:
            kept.append(line)
    own = "\n".join(kept).strip()
    return (own, pasted) if pasted >= _LEAST_LINES and len(own.split()) > 1 else (text, 0)


def _is_pasted(line: str) -> bool:
    if not line or line.isspace():
        return False
    if line.startswith(("    ", "\t")) and not line.lstrip().startswith(("-", "*", "•")):
        return True
    return _PASTED.match(line) is not None or len(_SIGNS.findall(line)) > _MAX_SIGNS * len(line)
