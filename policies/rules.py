"""The operator's rules (`rules:` in `config.yaml`): a tier or a lean at the start of a turn."""

import re
from bisect import bisect_left
from collections.abc import Set
from functools import lru_cache
from typing import Annotated, ClassVar, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from router.contract.features import UNSPACED
from router.contract.opinions import Insist, Lean, Opinion, PolicyConfig, Rank
from router.contract.request import RequestView
from router.contract.signals import Signals
from router.contract.words import Feature, Tier, TurnKind

_MAX_READ_CHARS, _NO_LIMIT = 4_000, -1
_HAS = {"image": Feature.IMAGES, "file": Feature.FILES, "tools": Feature.TOOLS}
_NOT_READ = (TurnKind.TOOL_LOOP, TurnKind.COMPACTION)
_MAX_KEPT = 512
"""Each keeps at most `_MAX_READ_CHARS` of text."""


class Conditions(BaseModel):
    """When a rule applies. All given conditions must hold."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    words: tuple[Annotated[str, Field(min_length=1, max_length=200)], ...] = ()
    """Whole words or phrases, one in the task."""
    client: str | None = None
    """As `tandem explain` names it: codex, claude-code, …"""
    turn: Literal["ask", "follow_up", "subagent", "side", "prewarm"] | None = None
    """Kind of turn."""
    has: Literal["image", "file", "tools"] | None = None
    """What the request contains."""
    more_than_tokens: int | None = Field(default=None, ge=0)
    """Longer prompts."""

    @field_validator("words", mode="before", json_schema_input_type=str | tuple[str, ...])
    @classmethod
    def _is_a_list(cls, value: object) -> object:
        return (value,) if isinstance(value, str) else value

    @field_validator("words")
    @classmethod
    def _say_something(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for words in value:
            if not any(map(str.isalnum, words)):
                raise ValueError(f"{words!r} contains no word")
        return value

    @model_validator(mode="after")
    def _ask_for_something(self) -> "Conditions":
        if self == Conditions.model_construct():
            raise ValueError("name at least one of words, client, turn, has, more_than_tokens")
        return self


class Rule(BaseModel):
    """One rule: when it applies, and what it then says."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    when: Conditions
    """The conditions."""
    tier: Literal["fast", "deep"] | None = None
    """The tier; first match wins."""
    lean: float | None = Field(default=None, ge=-10.0, le=10.0)
    """Log-odds to add; all matches add up."""

    @model_validator(mode="after")
    def _says_something(self) -> "Rule":
        if (self.tier is None) == (self.lean is None):
            raise ValueError("give exactly one of tier (fast or deep) and lean (a number)")
        return self


class RulesConfig(PolicyConfig):
    """Follow the rules under `rules:`."""

    rules: tuple[Rule, ...] = Field(default=(), max_length=200)
    """The rules, in order."""


class _Facts(NamedTuple):
    """Outcomes are cached by these, so a new condition needs a field here."""

    text: str
    client: str
    kind: TurnKind
    needs: Set[Feature]
    passed_limit: int
    """The largest `more_than_tokens` that the prompt exceeds: its own length would be new each time."""


class RulesPolicy:
    """Applies your rules as turns begin, unless overridden or their tier cannot serve."""

    name: ClassVar[str] = "rules"
    Config: ClassVar[type[PolicyConfig]] = RulesConfig

    def __init__(self, config: RulesConfig) -> None:
        self._rules = [(number, rule, _pattern_of(rule.when.words)) for number, rule in enumerate(config.rules, 1)]
        limits = {limit for rule in config.rules if (limit := rule.when.more_than_tokens) is not None}
        self._limits = [_NO_LIMIT, *sorted(limits)]
        # Retries and each "go on" repeat the words.
        self._apply_once = lru_cache(maxsize=_MAX_KEPT)(self._apply)

    def judge(self, request: RequestView, signals: Signals) -> tuple[Opinion, ...]:
        """Nothing for a turn under way."""
        if signals.turn.kind in _NOT_READ or signals.turn.goes_on:
            return ()
        turn = signals.turn
        # A "go on" is about what it continues, a subagent about its task.
        words_read = turn.person_text if turn.kind is TurnKind.ASK else turn.ask_text or turn.person_text
        passed_limit = self._limits[bisect_left(self._limits, signals.prompt.tokens, 1) - 1]
        return self._apply_once(
            _Facts((words_read or "")[:_MAX_READ_CHARS], turn.client, turn.kind, request.needs, passed_limit)
        )

    def _apply(self, facts: _Facts) -> tuple[Opinion, ...]:
        opinions: list[Opinion] = []
        has_tier = False
        for number, rule, words in self._rules:
            if not _holds(rule.when, words, facts):
                continue
            if rule.lean is not None:
                opinions.append(Lean(rule.lean, f"rule {number} of the config leans to {'deep' if rule.lean > 0 else 'fast'}"))
            elif rule.tier is not None and not has_tier:
                has_tier = True
                because = f"rule {number} of the config asks for {rule.tier}"
                opinions.append(Insist(because, Rank.OPERATOR_RULE, tier=Tier(rule.tier), yields=True))
        return tuple(opinions)


def _pattern_of(words: tuple[str, ...]) -> "re.Pattern[str] | None":
    """Any white space is alike. Scripts without spaces have no word boundaries."""
    if not words:
        return None
    patterns = [r"\s+".join(map(re.escape, phrase.split())) for phrase in words]
    whole = [text if UNSPACED.search(phrase) else rf"(?<!\w){text}(?!\w)" for text, phrase in zip(patterns, words, strict=True)]
    return re.compile("|".join(whole), re.IGNORECASE)


def _holds(when: Conditions, words: "re.Pattern[str] | None", facts: _Facts) -> bool:
    return (
        (when.client is None or when.client == facts.client)
        and (when.turn is None or when.turn == facts.kind)
        and (when.has is None or _HAS[when.has] in facts.needs)
        and (when.more_than_tokens is None or when.more_than_tokens <= facts.passed_limit)
        and (words is None or words.search(facts.text) is not None)
    )
