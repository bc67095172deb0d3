"""Whether a decision's reason contradicts the tier, the message or the turn before.

A reason is one sentence in parts divided by "; ": what the turn looks like or who insists, then what else counted. Each rule
here names one way in which a person who knows the session would call it false.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from router.contract.words import TurnKind

_SMALL = re.compile(
    r"(?:looks like |it's )?an? ?(?:quick|small|short) |(?:quick|small|short) (?:edit|question|check|text|turn)"
)
_LONG = re.compile(r"(?:looks like )?(?:a )?long task")
_LOOKS_LONG = re.compile(r"looks like a long task|continues a long task")
_CHANGED = re.compile(r"quick edit")
_TURNED = re.compile(r"[;,] (?:but|so|yet|and yet) | but ")
_WRONG = re.compile(r"gone wrong|went wrong|you said .*(?:wrong|failed|broke)|you corrected")
_SERVED = re.compile(r"(fast|deep) (?:had )?served it|served by (\S+)")
_ON = re.compile(r"a turn on (fast|deep)")
_NAMED = re.compile(
    r"only (fast|deep) can serve this|so (fast|deep) (?:serves this|is done sooner)|stays with its session on (fast|deep)"
    r"|moved up to (fast|deep)|asks for (fast|deep)"
)
_CACHED = re.compile(r"(\d+)k tokens are cached there")
_QUESTION = re.compile(
    r"\s*(?:what(?:'s| is| are| does| do| did| was)|why (?:is|are|does|do|did|was)|where (?:is|are|does|do|did)|which of"
    r"|how (?:do|does|did|many|much|is|are|come)|is (?:it|this|that|there)|does (?:it|this|that)|was (?:macht|ist|bedeutet)|warum|为什么)"
    r"\b[^.!\n]*\s*$",
    re.IGNORECASE,
)
WITHOUT_EDITS = frozenset({"question", "plan", "review", "remark", "greeting", "command"})
"""Kinds of messages that change no file."""
SAYS_WRONG = frozenset({"correction", "red log", "again", "news"})
"""Kinds that suggest the turn before went wrong."""


@dataclass(frozen=True)
class Shown:
    """A decision and what a person knows of the session."""

    words: str
    tier: str
    because: str
    kind: TurnKind = TurnKind.ASK
    meant: str = ""
    """The kind of message, if known."""
    last_tiers: frozenset[str] = frozenset()
    """Where the turn before went, as decided and as served; empty for a first turn or after an unserved one."""
    was_last_served: bool = True
    began_on: frozenset[str] = frozenset()
    """Where the running turn began, as decided and as served; empty for its first request."""
    cached_tokens: int | None = None
    """Cached at the chosen target."""
    session: str = ""
    score: float | None = None

    @property
    def parts(self) -> list[str]:
        return self.because.split("; ")

    @property
    def is_alone(self) -> bool:
        """Whether only the first part explains it."""
        return not any(not _SMALL.match(part) and not _LONG.match(part) for part in self.parts[1:]) and not _TURNED.search(
            self.because
        )

    @property
    def is_persons(self) -> bool:
        return self.kind in (TurnKind.ASK, TurnKind.FOLLOW_UP)


def _quick_alone_on_deep(shown: Shown) -> bool:
    return shown.tier == "deep" and bool(_SMALL.match(shown.parts[0])) and shown.is_alone


def _long_alone_on_fast(shown: Shown) -> bool:
    return shown.tier == "fast" and bool(_LONG.match(shown.parts[0])) and shown.is_alone


def _long_below_even(shown: Shown) -> bool:
    return shown.score is not None and shown.score < 0.5 and bool(_LOOKS_LONG.search(shown.because))


def _follows_another_tier(shown: Shown) -> bool:
    return "follows the last turn" in shown.because and bool(shown.last_tiers) and shown.tier not in shown.last_tiers


def _follows_nothing(shown: Shown) -> bool:
    return "follows the last turn" in shown.because and not shown.last_tiers and shown.was_last_served


def _nothing_to_do(shown: Shown) -> bool:
    return "nothing to do" in shown.because and bool(shown.words.strip())


def _edit_without_edits(shown: Shown) -> bool:
    if not _CHANGED.search(shown.because) or not shown.is_persons:
        return False
    is_question = not shown.meant and bool(_QUESTION.match(shown.words))
    return shown.meant in WITHOUT_EDITS or is_question


def _wrong_unsaid(shown: Shown) -> bool:
    return bool(_WRONG.search(shown.because)) and bool(shown.meant) and shown.meant not in SAYS_WRONG


def _wrong_of_another(shown: Shown) -> bool:
    return bool(_WRONG.search(shown.because)) and bool(shown.last_tiers) and "fast" not in shown.last_tiers


def _wrong_of_nothing(shown: Shown) -> bool:
    return bool(_WRONG.search(shown.because)) and not shown.last_tiers and shown.was_last_served


def _served_by_nobody(shown: Shown) -> bool:
    found = _SERVED.search(shown.because)
    if not found or found[1] is None:
        return False
    return not shown.was_last_served or (bool(shown.last_tiers) and found[1] not in shown.last_tiers)


def _is_elsewhere(shown: Shown) -> bool:
    found = _ON.search(shown.because)
    return found is not None and found[1] != shown.tier and shown.is_alone


def _names_the_other_tier(shown: Shown) -> bool:
    named = [tier for found in _NAMED.findall(shown.because) for tier in found if tier]
    return bool(named) and shown.tier not in named and " but " not in shown.because


def _sooner_the_other_way(shown: Shown) -> bool:
    wrong = "fast is still done sooner" if shown.tier == "deep" else "fast would not be done much sooner"
    return wrong in shown.because


def _moved_up_on_fast(shown: Shown) -> bool:
    is_moved = shown.because.startswith("this turn was moved up")
    return "moved up to fast" in shown.because or (shown.tier == "fast" and is_moved and shown.is_alone)


def _nothing_cached(shown: Shown) -> bool:
    found = _CACHED.search(shown.because)
    return bool(found) and shown.cached_tokens is not None and shown.cached_tokens < 1_000 * int(found[1])


def _persons_turn_as_side_request(shown: Shown) -> bool:
    return "a side request of the client" in shown.because and shown.is_persons


RULES: dict[str, Callable[[Shown], bool]] = {
    "looks quick or small, alone, on deep": _quick_alone_on_deep,
    "looks like a long task, alone, on fast": _long_alone_on_fast,
    "looks like a long task below an even chance": _long_below_even,
    "follows the last turn, on another tier than that turn's": _follows_another_tier,
    "follows the last turn, where there was none": _follows_nothing,
    "nothing to do, for a message that somebody typed": _nothing_to_do,
    "quick edit, where nothing is to be edited": _edit_without_edits,
    "you said that it went wrong, which nobody said": _wrong_unsaid,
    "the last turn went wrong, and it was not fast's": _wrong_of_another,
    "the last turn went wrong, where there was none": _wrong_of_nothing,
    "a tier served it that did not": _served_by_nobody,
    "a turn on another tier than its own": _is_elsewhere,
    "names the other tier as the one that serves": _names_the_other_tier,
    "says of fast's time the opposite of the tier": _sooner_the_other_way,
    "moved up to fast, or moved up and alone on fast": _moved_up_on_fast,
    "tokens are cached, which are not": _nothing_cached,
    "a person's turn as a side request": _persons_turn_as_side_request,
}


def find_contradictions(shown: Shown) -> list[str]:
    return [name for name, is_broken in RULES.items() if is_broken(shown)]


@dataclass
class Findings:
    """Contradictions by rule, with examples."""

    seen: int = 0
    found: dict[str, list[Shown]] = field(default_factory=lambda: defaultdict(list))

    def add(self, decisions: Iterable[Shown]) -> "Findings":
        for shown in decisions:
            self.seen += 1
            for name in find_contradictions(shown):
                self.found[name].append(shown)
        return self

    def report(self, examples: int = 3) -> str:
        """Each broken rule, its count, and examples with different reasons."""
        lines = [f"{sum(map(len, self.found.values()))} contradictions in {self.seen} decisions"]
        for name, broken in sorted(self.found.items(), key=lambda item: -len(item[1])):
            lines.append(f"{len(broken):5}  {name}")
            for shown in list({each.because: each for each in broken}.values())[:examples]:
                last = f" after {'/'.join(sorted(shown.last_tiers))}" if shown.last_tiers else ""
                lines.append(f'         {shown.tier}{last}: "{shown.because}"  <- {shown.words[:70]!r} {shown.session}')
        return "\n".join(lines)
