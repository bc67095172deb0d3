"""A turn in numbers, for the trained reading: the person's words and the session's finished turns.

Counts of structure and of concepts, alike in every language. Only the end of the text is read, so that a book costs no more
than a page and what is put before the words can hardly speak for them: the last sentence of a session's turn, the last line
of one that has only its words. Training and serving both call this.
"""

import re
from collections import Counter
from functools import lru_cache

from router.contract.features import Features
from router.contract.signals import FinishedTurn, History
from router.sense.lexicon import ANY_PART, CONCEPTS, PARTS, SMALL_EDITS, WORDS

_READ_CHARS, _BARE_CHARS, _BEFORE_CHARS = 300, 200, 200
_SENTENCE_WORDS, _SENTENCE_CHARS = 12, 160
_TELLING_WORDS = 4
_OPENING_CHARS, _OPENING_WORDS, _MOST_OPENINGS = 16, 2, 3
_STOPPED = re.compile(r"[.!?]\s|[。！？]")
_BLANK_LINE = re.compile(r"\n[ \t\r]*\n")
_MOST_CALLS, _MOST_EDITS, _MOST_TURNS = 40, 20, 20
"""Past these a turn is as long, and a session as old, as one can be."""
_SHORT_WORDS = 20
_LONG_CALLS, _LONG_EDITS = 12, 6
_QUICK_CALLS, _QUICK_EDITS = 4, 2

_WORD = re.compile(r"\w+")
_FILE = re.compile(r"\w[\w-]\.[a-z]\w{0,4}\b(?![.(])")
_LIST_ITEM = re.compile(r"\n[ \t]*(?:[-*•]|\d{1,2}[.)])[ \t]")
_LINE = re.compile(r":\d")
_UNSPACED = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]")
_MODEL_WORDS = frozenset("model tier lane llm mode".split())
_SIZE_WORDS = frozenset(
    "fast deep slow quick strong weak cheap small large big smart powerful capable expensive premium".split()
)
_ROUTE_WORDS = frozenset("route routed routing router tier tandem".split())
_TAGS = ("<|", "<system", "<admin", "<rout", "<developer", "<inst", "[system", "[admin", "[rout", "[inst", "[/inst")
_CLAIM = re.compile(
    r"\b(?:fast|deep|slow|quick|strong|weak|cheap|small|large|big|smart|powerful|capable|expensive|premium)(?:er|est)?[ -]"
    r"(?:model|tier|lane|llm|mode)\b|\b(?:route|routing|router|tier|x-tandem-\w+|tandem)\s*[=:]\s*\w*"
    r"|\brout(?:e|ed|ing) (?:this|it|me|to)\b|</?(?:system|admin|router|routing|developer|instructions?|s|inst)\b"
    r"|\[/?(?:system|admin|router|routing|inst|developer)\b|<\|"
)
"""Words that claim a tier, and tags that play the system. They are evidence of nothing, so their sentence is not read."""
_LEAD_IN = re.compile(r"(?:\b(?:please|use|using|switch|go|with|on|via|to|the|a|an|your)\s+)*$")
_SETTING = re.compile("[=:]")
_CLAIM_REST_CHARS = 40
_SENTENCE = re.compile(r"[^.!?。！？\n]*[.!?。！？\n]*")
_STOPS = ("?", "？", "؟")
_ALL = range(len(CONCEPTS))
_CONSENT = CONCEPTS.index("consent")
_LARGE = (CONCEPTS.index("whole"), CONCEPTS.index("plan"))
_BEFORE = tuple(CONCEPTS.index(name) for name in ("question", "make", "change", "operate", "plan"))


def read_features(text: str, history: History, offers_tools: bool) -> Features:
    """Measure a turn. The same words after the same turns are measured once: a tool loop repeats them on every call."""
    is_session = offers_tools or any(turn.calls for turn in history.last)
    return _measure(text.rstrip()[-_READ_CHARS:], min(history.turns, _MOST_TURNS), history.last, is_session)


@lru_cache(maxsize=512)
def _measure(text: str, turns: int, last: tuple[FinishedTurn, ...], is_session: bool) -> Features:
    lower = text.lower().strip()
    words = _WORD.findall(lower)
    if _may_claim(lower, words):
        lower = _drop_claims(lower)
    paragraph = _BLANK_LINE.split(lower)[-1] if "\n" in lower else lower
    names_small_edit = not SMALL_EDITS.isdisjoint(words) and _names_small_edit(_WORD.findall(paragraph))
    line = paragraph.rsplit("\n", 1)[-1]
    sentence, consents = _read_sentence(line)
    # Without a session there is nothing else to go by, so more is read: the line, or the paragraph where that says little.
    lower = sentence if is_session else (line if len(line.split()) >= _TELLING_WORDS else paragraph)[-_BARE_CHARS:]
    words = _WORD.findall(lower)
    said = _count_concepts(lower, words)
    said[_CONSENT] = max(said[_CONSENT], consents)
    return Features._make(
        [
            int(is_session),
            turns,
            *_measure_history(last),
            *_measure_marks(lower),
            int(names_small_edit),
            *[min(said[place], 6) for place in _ALL],
            *_measure_before(last[-1].words[:_BEFORE_CHARS].lower() if last else None, words),
        ]
    )


def _read_sentence(line: str) -> tuple[str, int]:
    """The end of a line's last sentence, and how many of its sentences open with consent: that holds for what follows."""
    body = line.rstrip(" .!?。！？")
    sentences = _STOPPED.split(body)
    consents = sum([_opens_with_consent(sentence.lstrip()[:_OPENING_CHARS]) for sentence in sentences])
    last = " ".join(sentences[-1].split()[-_SENTENCE_WORDS:]) + line[len(body) :]
    return last[-_SENTENCE_CHARS:], min(consents, _MOST_OPENINGS)


def _opens_with_consent(opening: str) -> int:
    """How many of the first two words agree to something."""
    words = _WORD.findall(opening)[:_OPENING_WORDS]
    if opening.isascii():
        return sum([WORDS.get(word) == _CONSENT for word in words])
    return _count_concepts(opening, words)[_CONSENT]


def _names_small_edit(words: list[str]) -> bool:
    """Whether a short text names one. Made everywhere, or part of a plan, the smallest edit is a long task."""
    if len(words) > _SHORT_WORDS or SMALL_EDITS.isdisjoint(words):
        return False
    return not any(WORDS.get(word) in _LARGE for word in words)


def _drop_claims(lower: str) -> str:
    """The text without its claims, wherever they stand."""
    if not _CLAIM.search(lower):
        return lower
    return "".join(map(_drop_claim, _SENTENCE.findall(lower))).strip() or _cut_claims(lower)


def _cut_claims(lower: str) -> str:
    """What stands before the claims, or else after them, where the whole text is one sentence with them."""
    parts = _CLAIM.split(lower)
    return _LEAD_IN.sub("", parts[0]).strip() or parts[-1].strip(" .!>]|")


def _may_claim(lower: str, words: list[str]) -> bool:
    """Whether a closer look for claims is worth its time."""
    if not _ROUTE_WORDS.isdisjoint(words) or (not _MODEL_WORDS.isdisjoint(words) and not _SIZE_WORDS.isdisjoint(words)):
        return True
    return ("<" in lower or "[" in lower) and any(tag in lower for tag in _TAGS)


def _drop_claim(sentence: str) -> str:
    """A sentence without its claim, and without what leads up to it. A short rest belongs to the claim."""
    claims = list(_CLAIM.finditer(sentence))
    if not claims:
        return sentence
    claim = claims[-1]
    rest = sentence[claim.end() :]
    if len(rest) > _CLAIM_REST_CHARS or (_SETTING.search(claim.group()) and rest.strip()):
        return rest
    return sentence[len(sentence.rstrip("\n")) :]


def _measure_marks(lower: str) -> tuple[int, ...]:
    """Structure: what stands between the words."""
    count, end = lower.count, lower[-1:]
    return (
        min(len(_LIST_ITEM.findall(f"\n{lower}")), 12) if "\n" in lower else 0,
        min(count("?") if lower.isascii() else count("?") + count("？") + count("؟"), 5),
        int(end in _STOPS),
        int(end in (":", "：")),
        int(end in (".", "。")),
        min(len(_FILE.findall(lower)), 8) if "." in lower else 0,
        min(count("/"), 12),
        min(count("`"), 12),
        min(count("(") + count("{") + count("[") + count("=") + count(";") + count("<"), 40),
        min(count("http"), 3),
        min(count("error") + count("exception") + count("traceback") + count("failed") + count("\n    at "), 6),
        min(len(_LINE.findall(lower)) + count("line "), 6),
    )


def _measure_history(last: tuple[FinishedTurn, ...]) -> tuple[int, ...]:
    calls = [min(turn.calls, _MOST_CALLS) for turn in last]
    edits = [min(turn.edits, _MOST_EDITS) for turn in last]
    if not calls:
        return (-1,) * 9 + (0, 0, 0)
    return (
        calls[-1],
        calls[-2] if len(calls) > 1 else -1,
        calls[-3] if len(calls) > 2 else -1,
        sum(calls) * 3 // len(calls),
        max(calls),
        min(calls),
        edits[-1],
        edits[-2] if len(edits) > 1 else -1,
        sum(edits),
        sum(made >= _LONG_CALLS or changed >= _LONG_EDITS for made, changed in zip(calls, edits, strict=True)),
        sum(made <= _QUICK_CALLS and changed <= _QUICK_EDITS for made, changed in zip(calls, edits, strict=True)),
        calls.count(0),
    )


def _count_concepts(lower: str, words: list[str]) -> Counter[int | None]:
    said = Counter(map(WORDS.get, words))
    if not lower.isascii() and _UNSPACED.search(lower):
        said.update(map(PARTS.__getitem__, ANY_PART.findall(lower)))
    return said


def _measure_before(lower: str | None, words: list[str]) -> tuple[int, ...]:
    """What the person said before this, and how many of its words come again."""
    if lower is None:
        return (-1,) * (len(_BEFORE) + 3)
    earlier = _WORD.findall(lower)
    said = _count_concepts(lower, earlier)
    return (
        len(lower),
        int(lower.rstrip()[-1:] in _STOPS),
        *[min(said[place], 4) for place in _BEFORE],
        min(len(set(earlier).intersection(words)), 12),
    )
