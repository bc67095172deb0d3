"""Whether a person had to ask again: by a complaint, or by repeating the ask."""

import re
from itertools import dropwhile

_HEAD_CHARS = 240
_OPENING_WORDS = 12
_LEAST_WORDS = 3
_MAX_ALIKE = 0.8
_COMPLAINTS = (
    *("still wrong", "still fail", "still broken", "still not", "still doesn", "still does not", "still the same"),
    *("still get", "still see", "same error", "same problem", "same issue"),
    *("doesn't work", "doesnt work", "does not work", "didn't work", "did not work", "not working"),
    *("that's wrong", "thats wrong", "this is wrong", "that is wrong", "not what i", "you broke", "it broke", "try again"),
    *("undo that", "undo this", "revert that", "revert this", "you didn't", "you did not", "you forgot", "wrong file"),
)
_QUOTED = re.compile(r'"[^"]*"|“[^”]*”|`[^`]*`')
_WORD = re.compile(r"\w+")
_SPOKEN = re.compile(r"[\w']+")
_LEADS = frozenset("no nope hm hmm ok okay well sorry but and so please now i tried just yes yeah thanks".split())
"""Words that may precede the one that points back."""
_POINTERS = frozenset(
    "it it's its that that's thats again you wrong not undo revert try does doesn't doesnt did didn't".split()
)
_POINTING_PHRASES = ("still ", "same error", "same problem", "same issue")
_THIS_ALONE = frozenset("is isn't was does doesn't doesnt did didn't broke".split())
"""Words after a "this" that points back: "this page" may be a new one."""
_COMMON = frozenset(
    """
    the and for with from into onto that this these those then than there here have has had can could should would will
    are was were been being its it's you your they them when where what which who why how all any some more most also
    too very please now just again still same not but does doesn doesnt did didn don dont isn work working
    error problem issue bug wrong broken broke fail failed failing try tried undo revert forgot see get got say report
    fix add make change use need want let run write create update remove delete implement set put show
    page file test code function method class button line app project thing way time user users new old
    """.split()
)


def is_asked_again(before: str, after: str) -> bool:
    """Whether an ask repeats the turn before because it was not done."""
    return is_same_ask(before, after) or (is_complaint(after) and (points_back(after) or shares_topic(before, after)))


def is_complaint(words: str) -> bool:
    """Whether a text begins by saying that something failed."""
    head = _head(words)
    return any(phrase in head for phrase in _COMPLAINTS)


def points_back(words: str) -> bool:
    """Whether a text at once complains of something it need not name: "it still fails", "no, that's wrong"."""
    opening = _SPOKEN.findall(_head(words))[:_OPENING_WORDS]
    text = " ".join(opening)
    if not is_complaint(text):
        return False
    if any(phrase in text for phrase in _POINTING_PHRASES):
        return True
    first, second = (*dropwhile(_LEADS.__contains__, opening), "", "")[:2]
    return first in _POINTERS or (first == "this" and second in _THIS_ALONE)


def shares_topic(before: str, after: str) -> bool:
    """Whether two texts share a topical word."""
    return not _telling_words(before[:2_000]).isdisjoint(_telling_words(_head(after)))


def is_same_ask(before: str, after: str) -> bool:
    """Whether two asks are nearly identical. Short ones ("yes", "go on") say nothing."""
    first, second = (set(_WORD.findall(words[:2_000].lower())) for words in (before, after))
    if min(len(first), len(second)) < _LEAST_WORDS:
        return False
    return len(first & second) / len(first | second) >= _MAX_ALIKE


def _head(words: str) -> str:
    return _QUOTED.sub(" ", words[:_HEAD_CHARS].lower().replace("’", "'"))


def _telling_words(text: str) -> set[str]:
    words = (word for word in _WORD.findall(text.lower()) if len(word) > 2)
    return {one for word in words if word not in _COMMON and (one := word.removesuffix("s")) not in _COMMON}
