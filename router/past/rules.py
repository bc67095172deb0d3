"""One person's deciding words: found in the earlier part of a history, kept if they help on the later."""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from router.contract.features import UNSPACED
from router.contract.words import Tier
from router.decide.yardstick import regret_of
from router.past.cases import Sample
from router.past.history import Size

READ_CHARS = 4_000
_MAX_RULES = 5
_MAX_TRIED = 12
"""Each trial makes the held-out part a little less held out."""
_LEAST_SEEN, _LEAST_SESSIONS = 12, 3
_MAX_SHARE = 0.7
"""A word in more of the turns does not distinguish them: the offset covers it."""
_LEAST_SURE = 0.75
"""Lower bound of a rule's precision, at 95 % confidence."""
_LEAST_HELD_OUT, _LEAST_RIGHT = 4, 0.8
_MAX_LEARNED = 20_000
_WORD = re.compile(r"\w+")
_LEAST_CHARS, _MAX_CHARS = 3, 40
_SAY_NOTHING = frozenset(
    """
    the this that these those its our your they them their are was were been does did done have has had can could should would
    will shall may might must and but then than for from into off onto out over with without about after all also any each every
    here how just like more most not now only other please some still such there too very via want what when where which who why
    yes okay thanks thank hello hey you
    """.split()
)


@dataclass(frozen=True, slots=True)
class FoundRule:
    """Turns with these words go to a tier; with counts of matches and right ones in the learning part."""

    words: str
    tier: Tier
    seen: int
    right: int
    held_out_seen: int = 0
    held_out_right: int = 0

    @property
    def total_seen(self) -> int:
        return self.seen + self.held_out_seen

    @property
    def total_right(self) -> int:
        return self.right + self.held_out_right

    def holds_for(self, words: str) -> bool:
        """Whether a turn has the words, by the policy `rules`."""
        return _pattern_of(self.words).search(words[:READ_CHARS]) is not None


@lru_cache(maxsize=64)
def _pattern_of(words: str) -> re.Pattern[str]:
    spaced = r"\s+".join(map(re.escape, words.split()))
    return re.compile(rf"(?<!\w){spaced}(?!\w)", re.IGNORECASE)


def find_rules(
    learned: Sequence[Sample], held_out: Sequence[Sample], tier_of: Callable[[Sample], Tier | None]
) -> list[FoundRule]:
    """Rules that remove most regret, strongest first. `tier_of` is None if no rule could change the tier."""
    open_ones = [_Open(turn, tier) for turn in learned[-_MAX_LEARNED:] if turn.words and (tier := tier_of(turn)) is not None]
    tests = [_Open(turn, tier) for turn in held_out if turn.words and (tier := tier_of(turn)) is not None]
    found: list[FoundRule] = []
    seen = Counter(words for turn in open_ones for words in turn.candidates)
    refused = {words for words, count in seen.items() if count > _MAX_SHARE * len(open_ones)}
    tried = 0
    while len(found) < _MAX_RULES and tried < _MAX_TRIED:
        rule = _find_strongest(open_ones, refused)
        if rule is None:
            break
        tried += 1
        with_words = [turn for turn in tests if rule.words in turn.candidates]
        right = sum((turn.size is Size.LONG) is (rule.tier is Tier.DEEP) for turn in with_words)
        helps = math.fsum(turn.gain_on(rule.tier) for turn in with_words) > 0
        if len(with_words) < _LEAST_HELD_OUT or right < _LEAST_RIGHT * len(with_words) or not helps:
            refused.add(rule.words)
            continue
        found.append(FoundRule(rule.words, rule.tier, rule.seen, rule.right, len(with_words), right))
        # First match wins: turns it decides are no longer open.
        open_ones = [turn for turn in open_ones if rule.words not in turn.candidates]
        tests = [turn for turn in tests if rule.words not in turn.candidates]
    return found


class _Open:
    """A turn that a rule could decide."""

    __slots__ = ("candidates", "session", "size", "tier")

    def __init__(self, turn: Sample, tier: Tier) -> None:
        self.session, self.size, self.tier = turn.session, turn.size, tier
        self.candidates = frozenset(_candidates(turn.words))

    def gain_on(self, tier: Tier) -> float:
        """Regret saved."""
        is_long = self.size is Size.LONG
        return regret_of(self.tier, is_long=is_long) - regret_of(tier, is_long=is_long)


def _candidates(text: str) -> Iterator[str]:
    """Words and pairs of words that a rule could name. Scripts without spaces have none."""
    before, end, text = "", -1, text[:READ_CHARS].lower()
    for found in _WORD.finditer(text):
        word = found.group()
        if word.isdigit() or len(word) > _MAX_CHARS or UNSPACED.search(word):
            before = ""
            continue
        if before and text[end : found.start()].isspace() and word not in _SAY_NOTHING:
            yield f"{before} {word}"
        if len(word) >= _LEAST_CHARS and word not in _SAY_NOTHING:
            yield word
        before, end = ("" if word in _SAY_NOTHING else word), found.end()


def _find_strongest(turns: Sequence[_Open], refused: set[str]) -> FoundRule | None:
    seen = Counter(words for turn in turns for words in turn.candidates)
    often = {words for words, count in seen.items() if count >= _LEAST_SEEN and words not in refused}
    long: Counter[str] = Counter()
    gains: dict[tuple[str, Tier], float] = {}
    sessions: dict[str, set[str]] = {}
    for turn in turns:
        for words in often & turn.candidates:
            long[words] += turn.size is Size.LONG
            sessions.setdefault(words, set()).add(turn.session)
            for tier in Tier:
                gains[words, tier] = gains.get((words, tier), 0.0) + turn.gain_on(tier)
    best: tuple[float, int, str] | None = None
    rule = None
    for words in often:
        tier = Tier.DEEP if 2 * long[words] >= seen[words] else Tier.FAST
        right = long[words] if tier is Tier.DEEP else seen[words] - long[words]
        rank = (gains[words, tier], -len(words), words)
        if len(sessions[words]) < _LEAST_SESSIONS or _lower_bound(right, seen[words]) < _LEAST_SURE or rank[0] <= 0:
            continue
        if best is None or rank > best:
            best, rule = rank, FoundRule(words, tier, seen[words], right)
    return rule


def _lower_bound(right: int, seen: int) -> float:
    """Wilson's lower bound of a share, at 95 %."""
    z = 1.96
    share, spread = right / seen, z * z / seen
    return (share + spread / 2 - z * math.sqrt(share * (1 - share) / seen + spread / (4 * seen))) / (1 + spread)
