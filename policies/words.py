"""A modest first reading of the person's words: what kind of verb, how much text, how many things asked for."""

from functools import lru_cache
from typing import ClassVar

from pydantic import Field

from router.contract.opinions import Lean, Opinion, PolicyConfig
from router.contract.request import RequestView
from router.contract.signals import Signals

_WINDOW_CHARS = 2_000
# What is found is shown in headers and logs, so these are fixed words only: nothing of a prompt may pass through them.
_QUICK = frozenset("typo typos rename reword docstring docstrings reformat indent spelling bump explain print".split())
_QUICK_PHRASES = (
    "this line",
    "add a comment",
    "one-liner",
    "one line",
    "show me",
    "what is",
    "what does",
    "what version",
    "unused import",
    "remove the print",
    "change the text",
    "change the name",
    "change the color",
    "change the label",
)
_LONG = frozenset(
    """
    implement refactor migrate migration redesign architect architecture rewrite investigate debug deadlock optimize optimise
    integrate integration entire comprehensive extensive thorough thoroughly audit performance test-suite
    """.split()
)
_LONG_PHRASES = (
    "build a ",
    "build an ",
    "create a new",
    "from scratch",
    "end to end",
    "end-to-end",
    "test suite",
    "step by step",
    "until everything",
    "until all",
    "across the",
    "whole project",
    "whole code",
    "all tests",
    "all the tests",
    "all files",
    "figure out",
    "root cause",
    "race condition",
    "memory leak",
    "in parallel",
    "security review",
)
_TROUBLE_PHRASES = ("still wrong", "still fail", "still broken", "still not", "n't work", "not work", "same error")
_MARKS = str.maketrans(dict.fromkeys(",.;:!?()[]{}\"'`*#", " "))
_LIST_STARTS = ("\n- ", "\n* ", "\n• ", "\n1.", "\n2.", "\n3.", "\n4.", "\n5.", "\n1)", "\n2)", "\n3)", "\n4)", "\n5)")


class WordsConfig(PolicyConfig):
    """Read the person's words by rule."""

    strength: float = Field(default=1.0, ge=0.0, le=3.0)
    """Multiplies what the words say."""


class WordsPolicy:
    """Looks at the first and last thousand characters of what was typed, whatever its length."""

    name: ClassVar[str] = "words"
    Config: ClassVar[type[PolicyConfig]] = WordsConfig

    def __init__(self, config: WordsConfig) -> None:
        self._strength = config.strength

    def judge(self, request: RequestView, signals: Signals) -> tuple[Opinion, ...]:
        """One lean, with the two things that moved it most. A tool loop is read by the words that began it."""
        text = signals.turn.ask_text
        if not text or not self._strength:
            return ()
        window = text if len(text) <= _WINDOW_CHARS else f"{text[: _WINDOW_CHARS // 2]}\n{text[-_WINDOW_CHARS // 2 :]}"
        total, because = _weigh(window, len(text))
        return (Lean(self._strength * total, because),) if total else ()


@lru_cache(maxsize=256)
def _weigh(window: str, length: int) -> tuple[float, str]:
    """What the words say. Remembered, since every call of a tool loop repeats the words that began it."""
    shares = [(log_odds, words) for log_odds, words in _read(window, length) if log_odds]
    total = max(-3.0, min(3.0, sum(log_odds for log_odds, _ in shares)))
    same_way = sorted((share for share in shares if share[0] * total > 0), key=lambda share: -abs(share[0]))
    return total, " and ".join(words for _, words in same_way[:2]) or "the words are balanced"


def _read(window: str, length: int) -> list[tuple[float, str]]:
    lower = window.lower()
    words = set(lower.translate(_MARKS).split())
    quick = [*(words & _QUICK), *(phrase for phrase in _QUICK_PHRASES if phrase in lower)]
    long = [*(words & _LONG), *(phrase for phrase in _LONG_PHRASES if phrase in lower)]
    asked = sum(map(f"\n{lower}".count, _LIST_STARTS)) if "\n" in lower else 0
    return [
        (-1.3 * min(len(quick), 2), f'it says "{min(quick).strip()}"' if quick else ""),
        (0.8 * min(len(long), 4), f'it says "{min(long).strip()}"' if long else ""),
        (1.2 if any(phrase in lower for phrase in _TROUBLE_PHRASES) else 0.0, "it says that something still fails"),
        (0.5 * min(asked, 4) if asked >= 3 else 0.0, f"it lists {asked} things"),
        (
            -1.1 if length < 30 else -0.7 if length < 60 else 0.0 if length < 300 else 0.5 if length < 1_200 else 0.9,
            f"it is {length} characters long",
        ),
    ]
