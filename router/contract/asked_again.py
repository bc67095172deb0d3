"""Whether a person's new words say that the turn before has to be done again: an outcome of that turn, which decides nothing.

The words are read as they arrive, since the ledger keeps no text.
"""

import re

_OPENING_CHARS = 160
_LEAST_WORDS = 4
_MAX_ALIKE = 0.8
_LEADS = r"(?:(?:no|nope|hm+|ok(?:ay)?|well|sorry|but|and|so|please|wait|now|i tried(?: it| that)?)\b[\s,.!?:;…–-]*)*"
_AGAIN = re.compile(
    _LEADS + r"(?:"
    r"(?:[\w'’]+ ){0,7}still (?:not|wrong|fail|broken|red|does|is|has|get|see|show|crash|the same)"
    r"|still\b|(?:the )?same (?:error|problem|issue|result)"
    r"|(?:it |this |that )?(?:(?:does|did)(?:n['’]?t| not) (?:work|help|fix)|not (?:working|what i|right))"
    r"|(?:that|this|it)(?:['’]?s| is| was) (?:wrong|broken|not)"
    r"|you (?:broke|forgot|missed|did(?:n['’]?t| not))\b|(?:try|do) (?:it |that )?again"
    r"|(?:undo|revert) (?:that|this|it|your)"
    r"|(?:das )?(?:geht|funktioniert) (?:immer noch )?nicht|immer noch|ça ne marche|toujours pas|sigue|no funciona"
    r"|ainda não|всё ещё|не работает|还是|仍然|まだ|여전히"
    r")"
)
_QUOTED = re.compile(r'"[^"]*+"|“[^”]*+”|`[^`]*+`')
_WORD = re.compile(r"\w+")


def asks_again(words: str, before: str) -> bool:
    """Whether new words say that the turn before went wrong, or repeat what it was asked."""
    return is_same_ask(before, words) or says_wrong(words)


def says_wrong(words: str) -> bool:
    """Whether words begin by saying that something failed."""
    opening = _QUOTED.sub(" ", words[:_OPENING_CHARS].lower()).lstrip()
    return _AGAIN.match(opening) is not None


def is_same_ask(before: str, after: str) -> bool:
    """Whether two asks are nearly identical. Short ones ("yes", "go on") say nothing."""
    first, second = (set(_WORD.findall(words[:2_000].lower())) for words in (before, after))
    if min(len(first), len(second)) < _LEAST_WORDS:
        return False
    return len(first & second) / len(first | second) >= _MAX_ALIKE
