"""The trained reading: the chance that a turn is a long task, from what the person typed and the session's finished turns."""

from functools import lru_cache
from importlib.resources import files
from typing import ClassVar

from pydantic import Field

from router.contract.features import MARKS, Features
from router.contract.opinions import Lean, Opinion, PolicyConfig
from router.contract.reading import Reading, Weights, load_weights, read_weights
from router.contract.request import RequestView
from router.contract.signals import Signals
from router.contract.words import SAID_WRONG

_MAX_LOG_ODDS = 5.0
_MAX_KNOWN = 512
_MAX_REASONS = 3
_MAX_REASON_CHARS = 60
_QUICK_BELOW, _LONG_ABOVE = -0.85, 0.2
"""Log-odds. Between them the turn is unclear; the lower one is the score at which tiers usually change."""
_OPEN_ABOVE, _OPEN_BELOW = -1.6, 0.7
"""Words between these are open enough that the turns before settle them."""
_GOES_ON = -0.6
"""Words that follow the turn before say nothing of their own: a little above the score at which tiers change, so that what
went before decides."""
_BEFORE_SHARE, _MAX_BEFORE = 0.35, 4.0
"""How much the words of that turn count, in addition to the work that it took."""
_LEAST_SHARE = 0.03
_SHORT_PIECES = 32
"""About ten words."""
_QUESTION = list(MARKS).index("ends_with_question")
_QUESTIONS = frozenset(("what is", "how to", "why", "where", "which", "difference", "explain", "meaning", "question"))


class LearnedConfig(PolicyConfig):
    """Weigh what the person typed and the session's finished turns with the weights that `tandem train` fitted."""

    strength: float = Field(default=1.0, ge=0.0, le=3.0)
    """Multiplies what the reading says."""
    weights: str = ""
    """A file that `tandem train` wrote, relative to the config file. By default the weights that come with Tandem."""
    nothing_asked: float = Field(default=-4.0, ge=-10.0, le=0.0)
    """Log-odds for words that ask for nothing: a greeting, thanks, "ok". History does not change them."""

    paths: ClassVar[tuple[str, ...]] = ("weights",)

    @property
    def fingerprint(self) -> str:
        """Which weights these are. Values that were fitted to other weights do not apply."""
        return find_weights(self.weights).fingerprint


class LearnedPolicy:
    """Leans by the trained reading, which was fitted to as many quick turns as long ones, so that the prior counts once."""

    name: ClassVar[str] = "learned"
    Config: ClassVar[type[PolicyConfig]] = LearnedConfig

    def __init__(self, config: LearnedConfig) -> None:
        self._strength, self._nothing_asked = config.strength, config.nothing_asked
        self._weights = find_weights(config.weights)
        # Every call of a tool loop repeats the words and the history that began it, and is handed the same features: they are
        # known by who they are, since to compare two hundred numbers would cost more than the memory saves.
        self._known: dict[int, tuple[Features, Lean]] = {}

    def judge(self, request: RequestView, signals: Signals) -> tuple[Opinion, ...]:
        """One lean, which begins with what the turn looks like."""
        features = signals.features
        if features is None or not self._strength:
            return ()
        known = self._known.get(id(features))
        if known is None or known[0] is not features:
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
            known = self._known[id(features)] = (features, self._weigh(features))
        return (known[1],)

    def _weigh(self, features: Features) -> Lean:
        if not features.has_task and not features.follows:
            return Lean(self._strength * self._nothing_asked, "nothing to do in this message", names_turn=True)
        reading = self._weights.read(features)
        if features.follows:
            before = max(-_MAX_BEFORE, min(_MAX_BEFORE, reading.words)) if features.has_task else 0.0
            odds, because = _GOES_ON + _BEFORE_SHARE * before + reading.history, "unclear; follows the last turn"
        elif features.is_correction and features.history and len(features.pieces) <= _SHORT_PIECES:
            # Short words that call the last turn wrong are as large as that turn was, whatever they name.
            odds, because = max(reading.odds, _GOES_ON + reading.history), SAID_WRONG
        else:
            odds, because = reading.odds, _say(reading, features, self._weights)
        odds = max(-_MAX_LOG_ODDS, min(_MAX_LOG_ODDS, odds))
        return Lean(self._strength * odds, because, names_turn=True)


@lru_cache(maxsize=4)
def find_weights(path: str = "") -> Weights:
    """The weights of a file, or those that come with Tandem. Raises `ValueError` if they cannot be read."""
    return load_weights(path) if path else read_weights(files("policies").joinpath("learned.weights").read_bytes())


def _say(reading: Reading, features: Features, weights: Weights) -> str:
    """What the turn looks like, and which ideas made it look so. Phrases of ours alone: nothing that anybody typed."""
    is_open = _OPEN_ABOVE < reading.words < _OPEN_BELOW
    if is_open and features.history and abs(reading.odds - reading.words) > 0.3:
        return "unclear; follows the last turn"
    if _QUICK_BELOW <= reading.odds < _LONG_ABOVE:
        return "unclear whether quick or long"
    is_quick = reading.odds < _QUICK_BELOW
    reasons = _find_reasons(-1.0 if is_quick else 1.0, features, weights)
    looks = "looks like a long task"
    if is_quick:
        is_question = features.marks[_QUESTION] or (reasons and reasons[0] in _QUESTIONS)
        looks = (
            "looks like a quick question"
            if is_question
            else "looks like a quick edit"
            if reasons
            else "looks like a quick turn"
        )
    return f"{looks}: {', '.join(reasons)}" if reasons else looks


def _find_reasons(sign: float, features: Features, weights: Weights) -> list[str]:
    """The phrases whose words pointed the way that the reading went, the strongest first."""
    found = [(share * sign, phrase) for phrase, share in weights.read_shares(features).items() if share * sign > _LEAST_SHARE]
    found.sort(reverse=True)
    reasons: list[str] = []
    for _, phrase in found[:_MAX_REASONS]:
        if sum(map(len, reasons)) + len(phrase) <= _MAX_REASON_CHARS:
            reasons.append(phrase)
    return reasons
