"""What a turn looks like, in words: our phrases, never the person's. An idea is named only if it carried the sum."""

import math
from collections.abc import Mapping
from itertools import compress
from operator import ge, itemgetter

from policies.reading import MIDDLE, Table
from router.contract.features import MARKS, OFFER_SIZE, Features, Offer
from router.contract.words import LONG_TASK, MAY_BE_LONG

QUICK_BELOW = -1.5
"""Log-odds below which a turn looks quick. From there to 0 it may be long."""
_MAX_IDEAS, _MAX_CHARS = 3, 60
_LEAST_SHARE, _LEAST_OF_LARGEST = 0.25, 0.35
"""Log-odds, and part of the largest idea's, from which on an idea carried the sum."""
_FEW_WORDS, _MUCH_TEXT, _ASKED = "few words", "a long message", "asked as a question"
_MUCH = 1.0
_USUAL_LENGTH = 0.37
"""That of 60 characters: a longer or shorter text is named as such."""
_SHAPES = {
    "list_items": (2, "a list"),
    "commas": (5, "many clauses"),
    "files": (1, "a named file"),
    "ticks": (1, "quoted code"),
    "pasted_lines": (1, "pasted lines"),
    "pasted_code": (1, "pasted code"),
    "pasted_log": (1, "a pasted log"),
    "pasted_diff": (1, "a pasted diff"),
    "ends_with_question": (1, _ASKED),
}
"""Marks that a reason may name, and the step from which on."""
SHAPES = frozenset((_FEW_WORDS, _MUCH_TEXT, *(name for _, name in _SHAPES.values())))
_NAMES = tuple(MARKS)
_SHAPES_AT = tuple((_NAMES.index(mark), name) for mark, (_, name) in _SHAPES.items())
_LEAST_STEPS = tuple(least for least, _ in _SHAPES.values())
_shapes_of = itemgetter(*(at for at, _ in _SHAPES_AT))
_WORDS, _QUESTION_MARKS, _ENDS_WITH_ONE, _PASTED, _ITEMS, _SENTENCES = map(
    _NAMES.index, ("words", "questions", "ends_with_question", "pasted_lines", "list_items", "sentences")
)
_COMMAND_STEPS, _EDIT_STEPS, _LIST_STEPS = 4, 8, 2
"""Of `words`: a command has at most seven, an edit 27. Of `list_items`."""
_QUESTIONS = frozenset(("what", "how to", "why", "where", "which", "difference", "explain", "meaning", "question"))
_NO_LONG_TASK = _QUESTIONS | {_ASKED}
_EDITS = frozenset("rename typo bump whitespace indent remove add change replace move undo fix".split())
_CHECKS = frozenset("review audit security analyse compare evaluate investigate find debug".split())
_COMMANDS = frozenset(("run", "commit", "push", "install", "open or show", "list", "deploy"))
_TEXTS = frozenset("write example snippet guide report".split())


def say_size(size: float, features: Features, shares: Mapping[str, float]) -> tuple[str, str]:
    """What a turn of this size looks like, and the idea that says most. `shares` are those of ideas and shapes."""
    is_quick = size < QUICK_BELOW
    ideas = _find_ideas(-1.0 if is_quick else 1.0, shares)
    if is_quick:
        name = _name_quick(features, ideas)
        looks = f"looks like a {name}"
        ideas = [idea for idea in ideas if idea != _ASKED or "question" not in name]
    else:
        name, looks = ("long task", LONG_TASK) if size >= 0 else ("unclear", MAY_BE_LONG)
        ideas = ideas if _NO_LONG_TASK.isdisjoint(ideas) else [idea for idea in ideas if idea not in _NO_LONG_TASK]
    return (f"{looks}: {', '.join(ideas)}", ideas[0]) if ideas else (looks, name)


def say_continued(odds: float) -> str:
    """What words look like that only point back at the last ask."""
    if odds < QUICK_BELOW:
        return "continues a quick turn"
    return "continues a long task" if odds >= 0 else f"continues what {MAY_BE_LONG}"


def say_offered(odds: float, offer: Offer, table: Table) -> str:
    """What words look like that take up what the assistant's last message offers, by the reader of offers."""
    named = "an offer" if offer.is_question else "the last message"
    if odds < QUICK_BELOW:
        return f"answers {named}; little is to be done"
    work = "long work" if odds >= 0 else f"work that {MAY_BE_LONG}"
    ideas = _find_ideas(1.0, _read_offered(table, offer))
    return f"takes up {named}: {work}" + (f" ({', '.join(ideas)})" if ideas else "")


def _read_offered(table: Table, offer: Offer) -> dict[str, float]:
    """How far each idea in an offer moved the odds."""
    unit = table.unit / math.sqrt(len(offer.features.pieces) or 1)
    shares: dict[str, float] = {}
    for idea, own, pair in offer.features.concepts:
        places = (*own, pair)
        shares[idea] = unit * sum(table.table[place % OFFER_SIZE] - MIDDLE for place in places)
    return shares


def read_shapes(table: Table, features: Features) -> dict[str, float]:
    """How far the shape of a text moved the odds, compared with one that has none of it."""
    shares = {}
    for at, name in compress(_SHAPES_AT, map(ge, _shapes_of(features.marks), _LEAST_STEPS)):
        weights = table.marks[at]
        shares[name] = weights[features.marks[at]] - weights[0]
    length = table.length * (features.length - _USUAL_LENGTH)
    if abs(length) >= _MUCH and (length > 0 or not features.marks[_PASTED]):
        shares[_MUCH_TEXT if length > 0 else _FEW_WORDS] = length
    return shares


def _find_ideas(sign: float, shares: Mapping[str, float]) -> list[str]:
    """Ideas in the words first, then the shape of the text: few words only if there is nothing else."""
    found = sorted(((share * sign, idea) for idea, share in shares.items() if share * sign >= _LEAST_SHARE), reverse=True)
    words = [(share, idea) for share, idea in found if idea not in SHAPES]
    shapes = [idea for _, idea in found if idea in SHAPES]
    if words or len(shapes) > 1:
        shapes = [idea for idea in shapes if idea != _FEW_WORDS]
    ideas: list[str] = []
    for idea in [*(idea for share, idea in words if share >= _LEAST_OF_LARGEST * words[0][0]), *shapes]:
        if len(ideas) < _MAX_IDEAS and sum(map(len, ideas)) + len(idea) <= _MAX_CHARS:
            ideas.append(idea)
    return ideas


def _name_quick(features: Features, ideas: list[str]) -> str:
    """The kind of quick turn, if its ideas show it."""
    first = features.concepts[0][0] if features.concepts else ""
    if first in _QUESTIONS and (features.marks[_QUESTION_MARKS] or first in ideas):
        return "quick question"
    if not _CHECKS.isdisjoint(ideas):
        return "small check"
    if features.marks[_ENDS_WITH_ONE]:
        return "quick turn"
    if not _EDITS.isdisjoint(ideas) and _may_be_edit(features):
        return "quick edit"
    if ideas and ideas[0] in _COMMANDS and features.marks[_WORDS] <= _COMMAND_STEPS:
        return "quick command"
    return "short text" if ideas and ideas[0] in _TEXTS else "quick turn"


def _may_be_edit(features: Features) -> bool:
    """Whether an edit is asked for: in longer texts and next to pasted lines, the word for it mostly says what happened."""
    marks = features.marks
    return marks[_WORDS] <= _EDIT_STEPS and marks[_SENTENCES] <= 1 and not marks[_PASTED]
