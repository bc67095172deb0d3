"""A modest first reading of the person's words: what kind of verb, how much text, how many things asked for."""

import re
from typing import ClassVar

from pydantic import Field

from router.contract.opinions import Lean, Opinion, PolicyConfig
from router.contract.request import RequestView
from router.contract.signals import Signals

_WINDOW_CHARS = 2_000
# What these match is shown in headers and logs, so they hold fixed words only: nothing of a prompt may pass through them.
_QUICK = re.compile(
    r"\b(typos?|rename|re-?word|docstrings?|comment(s|ed)? out|add a comment|reformat|format this|indent|spelling|"
    r"one[- ]?liner?|this line|bump|remove the (unused|print|import)|unused import|what (is|does|version)|explain|"
    r"show me|"
    r"print|log line|change the (text|name|colou?r|label|value))\b",
    re.IGNORECASE,
)
_LONG = re.compile(
    r"\b(implement|refactor|migrat\w*|redesign|architect\w*|rewrite|port (it|this|the)|build (a|an|the|me)|create (a|an|the) "
    r"(new )?(app|service|project|module|package|system|website|api|game)|end[- ]to[- ]end|from scratch|across the|whole "
    r"(code ?base|project|repo\w*)|entire|all (the )?(tests|files|modules)|test[- ]suite|step by step|"
    r"until (everything|all|it)|"
    r"investigate|debug|figure out|root cause|race condition|deadlock|memory leak|performance|optimi[sz]e|integrat\w+|"
    r"comprehensive|extensive|thorough\w*|in parallel|security review|audit)\b",
    re.IGNORECASE,
)
_TROUBLE = re.compile(r"\b(still (wrong|fail\w*|broken|not)|does ?n[o']t work|again the same|same error)\b", re.IGNORECASE)
_LIST_ITEM = re.compile(r"^\s*(?:[-*•]|\d+[.)])\s", re.MULTILINE)


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
        shares = [(log_odds, words) for log_odds, words in _read(text) if log_odds]
        total = max(-3.0, min(3.0, sum(log_odds for log_odds, _ in shares)))
        same_way = sorted((share for share in shares if share[0] * total > 0), key=lambda share: -abs(share[0]))
        because = " and ".join(words for _, words in same_way[:2]) or "the words are balanced"
        return (Lean(self._strength * total, because),) if total else ()


def _read(text: str) -> list[tuple[float, str]]:
    window = text if len(text) <= _WINDOW_CHARS else f"{text[: _WINDOW_CHARS // 2]}\n{text[-_WINDOW_CHARS // 2 :]}"
    quick = {match.group().lower() for match in _QUICK.finditer(window)}
    long = {match.group().lower() for match in _LONG.finditer(window)}
    asked = len(_LIST_ITEM.findall(window))
    length = len(text)
    return [
        (-1.3 * min(len(quick), 2), f'it asks to "{min(quick)}"' if quick else ""),
        (0.8 * min(len(long), 4), f'it asks to "{min(long)}"' if long else ""),
        (1.2 if _TROUBLE.search(window) else 0.0, "it says that something still fails"),
        (0.5 * min(asked, 4) if asked >= 3 else 0.0, f"it lists {asked} things"),
        (-0.7 if length < 60 else 0.0 if length < 300 else 0.5 if length < 1_200 else 0.9, f"it is {length} characters long"),
    ]
