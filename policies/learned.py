"""The trained reading: the chance that a turn is a long task, from the person's words and the session's finished turns."""

import math
from collections.abc import Callable
from functools import lru_cache
from importlib.resources import files
from typing import ClassVar

import orjson
from pydantic import Field

from router.contract.features import Features
from router.contract.forest import Forest, read_forest
from router.contract.opinions import Lean, Opinion, PolicyConfig
from router.contract.request import RequestView
from router.contract.signals import Signals

_MOST_LOG_ODDS = 5.0
_MOST_REASONS = 3
_MOST_SHOWN_CALLS = 40


class LearnedConfig(PolicyConfig):
    """Weigh the person's words and the session's finished turns as `tandem train` found them to count."""

    strength: float = Field(default=1.0, ge=0.0, le=3.0)
    """Multiplies what the reading says."""
    small_edit: float = Field(default=-3.2, ge=-10.0, le=0.0)
    """Log-odds for a short request that names an edit which is small by its name (a typo, a docstring). Set by hand:
    the turns that the weights were fitted to hold hardly any."""


class LearnedPolicy:
    """Answers the log-odds of the reading less those of the base rate, so that the prior counts once.

    A client that offers no tools, and whose history shows no calls, is read by its words alone.
    """

    name: ClassVar[str] = "learned"
    Config: ClassVar[type[PolicyConfig]] = LearnedConfig

    def __init__(self, config: LearnedConfig) -> None:
        self._strength, self._small_edit = config.strength, config.small_edit
        self._base, self._sessions, self._words = load_weights()
        # Every call of a tool loop repeats the words and the history that began it.
        self._weigh = lru_cache(maxsize=512)(self._weigh_once)

    def judge(self, request: RequestView, signals: Signals) -> tuple[Opinion, ...]:
        """One lean, with the things that moved it most."""
        features = signals.features
        if features is None or not self._strength:
            return ()
        return (self._weigh(features),)

    def _weigh_once(self, features: Features) -> Lean:
        odds, shares = (self._sessions if features.is_session else self._words).read(features)
        odds -= self._base
        if features.names_small_edit:
            odds += self._small_edit
        odds = max(-_MOST_LOG_ODDS, min(_MOST_LOG_ODDS, odds))
        return Lean(self._strength * odds, _explain(odds, shares, features))


@lru_cache(maxsize=1)
def load_weights() -> tuple[float, Forest, Forest]:
    """The log-odds of the base rate, the reading of sessions and the reading of words alone, from the file beside this one."""
    found = orjson.loads(files("policies").joinpath("learned.json").read_bytes())
    fields = Features._fields
    rate = found["base_rate"]
    return math.log(rate / (1 - rate)), read_forest(found["sessions"], fields), read_forest(found["words"], fields)


def _explain(odds: float, shares: list[float], features: Features) -> str:
    """What moved the reading most, the same way as it went. Fixed words and numbers: nothing that anybody typed."""
    moved: dict[Callable[[Features], str], float] = {}
    for place, share in enumerate(shares):
        if share and (say := _SAYINGS[place]) is not None:
            moved[say] = moved.get(say, 0.0) + share
    if features.names_small_edit:
        moved[_small_edit] = -_MOST_LOG_ODDS
    sign = 1.0 if odds > 0 else -1.0
    found = sorted(((share * sign, say) for say, share in moved.items() if share * sign > 0), key=lambda pair: -pair[0])
    reasons = [text for _, say in found if (text := say(features))]
    return ", ".join(reasons[:_MOST_REASONS]) or "its words and history taken together"


def _past_calls(features: Features) -> str:
    calls = [made for made in (features.calls_3, features.calls_2, features.calls_1) if made >= 0]
    if not calls:
        return ""
    numbers = ", ".join(f"{made}+" if made >= _MOST_SHOWN_CALLS else f"{made}" for made in calls)
    return (
        f"last {len(calls)} turns needed {numbers} tool calls"
        if len(calls) > 1
        else f"the last turn needed {numbers} tool calls"
    )


def _age(features: Features) -> str:
    if features.turns == 0:
        return "it opens the session"
    return f"it is turn {features.turns + 1} of its session" if features.turns < 20 else "the session has over 20 turns"


def _question(features: Features) -> str:
    if features.questions:
        return "it asks a question"
    return "it has words of a question" if features.says_question else "it asks no question"


def _places(features: Features) -> str:
    files = f"names {features.files} file{'s' if features.files != 1 else ''}" if features.files else ""
    lines = f"{features.places} line{'s' if features.places != 1 else ''}" if features.places else ""
    return f"{files} and {lines}" if files and lines else files or (f"names {lines}" if lines else "")


def _list(features: Features) -> str:
    return f"it lists {features.list_items} things" if features.list_items > 1 else ""


def _code(features: Features) -> str:
    return "it holds code" if features.brackets > 3 or features.ticks > 2 else ""


def _errors(features: Features) -> str:
    return "it shows errors" if features.errors else ""


def _before(features: Features) -> str:
    return "what was asked before it" if features.before_characters >= 0 else ""


def _small_edit(features: Features) -> str:
    return "it names a small edit"


_CONCEPTS = {
    "consent": "it agrees to go on",
    "explain": "it asks to explain or show",
    "make": "it asks to make something",
    "change": "it asks to change something",
    "operate": "it asks to run or check something",
    "whole": "it speaks of all or everything",
    "trouble": "it says that something fails",
    "plan": "it speaks of a plan",
    "test": "it speaks of tests",
    "document": "it speaks of documents",
    "analyse": "it asks to look into something",
    "detail": "it is about looks or names",
}


def _concept(name: str, text: str) -> Callable[[Features], str]:
    return lambda features: text if getattr(features, f"says_{name}") else ""


_GROUPS: dict[Callable[[Features], str], tuple[str, ...]] = {
    _past_calls: ("calls_", "edits_", "long_turns", "quick_turns", "idle_turns"),
    _age: ("turns",),
    _question: ("questions", "ends_with_question", "says_question"),
    _places: ("files", "places", "slashes"),
    _list: ("list_items",),
    _code: ("brackets", "ticks"),
    _errors: ("errors",),
    _before: ("before_", "shared_words"),
    **{_concept(name, text): (f"says_{name}",) for name, text in _CONCEPTS.items()},
}
_SAYINGS = tuple(next((say for say, starts in _GROUPS.items() if field.startswith(starts)), None) for field in Features._fields)
"""For each feature the sentence that speaks of it, if one does."""
