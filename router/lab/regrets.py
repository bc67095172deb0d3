"""Whether a person had to ask again: they say that it is wrong, or they say the same thing once more."""

import re

_HEAD_CHARS = 240
_LEAST_WORDS = 3
_MOST_ALIKE = 0.8
_COMPLAINTS = (
    *("still wrong", "still fail", "still broken", "still not", "still doesn", "still the same", "still get", "still see"),
    *("same error", "same problem", "same issue", "doesn't work", "doesnt work", "does not work", "didn't work", "not working"),
    *("that's wrong", "thats wrong", "this is wrong", "that is wrong", "not what i", "you broke", "it broke", "try again"),
    *("undo that", "undo this", "revert that", "revert this", "you didn't", "you did not", "you forgot", "wrong file"),
)
_WORD = re.compile(r"\w+")


def is_asked_again(before: str, after: str) -> bool:
    """Whether the words after a turn take up what it was about because it was not done."""
    return is_complaint(after) or is_same_ask(before, after)


def is_complaint(words: str) -> bool:
    """Whether a person says, in the beginning of what they type, that the last turn failed."""
    head = words[:_HEAD_CHARS].lower().replace("’", "'")
    return any(phrase in head for phrase in _COMPLAINTS)


def is_same_ask(before: str, after: str) -> bool:
    """Whether two asks are nearly the same words. Short ones ("yes", "go on") say nothing."""
    first, second = (set(_WORD.findall(words[:2_000].lower())) for words in (before, after))
    if min(len(first), len(second)) < _LEAST_WORDS:
        return False
    return len(first & second) / len(first | second) >= _MOST_ALIKE
