"""The trained reading: the chance of a long task. The last turn matters only if the words point back at it."""

from functools import lru_cache
from importlib.resources import files
from operator import itemgetter
from typing import ClassVar, NamedTuple

from msgspec.structs import replace
from pydantic import Field

from policies.reading import Weights, load_weights, read_weights, written_at
from policies.wording import read_shapes, say_continued, say_offered, say_size
from router.contract.features import Features, Offer
from router.contract.opinions import Lean, Opinion, PolicyConfig
from router.contract.request import RequestView
from router.contract.signals import Signals
from router.contract.words import TurnKind

MAX_LOG_ODDS = 5.0
_MAX_KNOWN = 512
_PLANNED = 0.8
"""Least size of approved, planned work."""
_MODELS_PROSE = 0.5
"""Models write subagents' instructions: "thoroughly" and "every" mean less there."""
LEAST_POINTING, _POINTS_BACK, SURE_POINTING = 0.12, 0.5, 0.9
"""Chances that words point back: below the first only the words count, from the second on they are no ask of their own, and
from the third on they say nothing themselves."""
_PLANS = frozenset("plan design architecture strategy proposal phases".split())
_NOTHING_ASKED = -4.0
_LEAST_PLAN = -3.0
"""Below this, it is only a question: "what's the plan?"."""


_phrase_of = itemgetter(0)


class LearnedConfig(PolicyConfig):
    """Weigh what the person typed with trained weights."""

    strength: float = Field(default=1.0, ge=0.0, le=3.0)
    """Multiplies what it says."""
    weights: str = ""
    """File of trained weights. Default: Tandem's."""

    paths: ClassVar[tuple[str, ...]] = ("weights",)

    @property
    def fingerprint(self) -> str:
        """Values fitted to other weights do not apply."""
        return find_weights(self.weights).fingerprint


class _Read(NamedTuple):
    size: float
    pointing: float
    """Chance that the words only point back."""
    is_plan: bool
    because: str
    idea: str
    opinions: tuple[Lean, ...]
    """Opinions if nothing else applies."""
    is_plain: bool
    """The words alone decide: a task of their own."""


class LearnedPolicy:
    """Leans as the classifier reads the words."""

    name: ClassVar[str] = "learned"
    Config: ClassVar[type[PolicyConfig]] = LearnedConfig

    def __init__(self, config: LearnedConfig) -> None:
        self._strength = config.strength
        self._weights = find_weights(config.weights)
        # A tool loop repeats one features object, found by identity: comparing two hundred numbers would cost more.
        self._known: dict[tuple[int, bool], tuple[Features, _Read]] = {}

    def judge(self, request: RequestView, signals: Signals) -> tuple[Opinion, ...]:
        features, turn = signals.features, signals.turn
        if features is None or not self._strength:
            return ()
        kind = turn.kind
        is_later = turn.history.turns > 0 and kind is not TurnKind.SUBAGENT
        read = self._read(features, is_later)
        if read.is_plain and not turn.is_planning and (kind is TurnKind.ASK or kind is TurnKind.TOOL_LOOP):
            return read.opinions
        lean = self._recall(features, read, signals) if turn.position.is_running else None
        if lean is None:
            lean = self._weigh(features, read, signals)
            if not lean.points_back or lean.log_odds != turn.position.ask:
                return (self._weaken(lean, _MODELS_PROSE if kind is TurnKind.SUBAGENT else 1.0),)
        return (lean,)  # remembered odds already have this strength

    def _weaken(self, lean: Lean, share: float = 1.0) -> Lean:
        """The lean at this policy's strength, within bounds."""
        return replace(lean, log_odds=self._strength * max(-MAX_LOG_ODDS, min(MAX_LOG_ODDS, share * lean.log_odds)))

    def _recall(self, features: Features, read: _Read, signals: Signals) -> Lean | None:
        """What the first request of a running turn said of words that point back."""
        ask, is_planned = signals.turn.position.ask, signals.turn.position.is_planned
        if ask is None or read.pointing < LEAST_POINTING or not _sets_off(features, signals, is_planned):
            return None
        return Lean(ask, say_continued(ask), names_turn=True, points_back=True)

    def _weigh(self, features: Features, read: _Read, signals: Signals) -> Lean:
        turn, position, read_offer = signals.turn, signals.turn.position, signals.read_offer
        if read.pointing >= LEAST_POINTING or turn.kind is TurnKind.FOLLOW_UP:
            before, is_planned = self._find_ask(signals)
            if _sets_off(features, signals, is_planned):
                if read_offer is not None:
                    return self._answer(features, read, read_offer(), None)
                if before is not None:
                    if read.pointing >= SURE_POINTING or not read.pointing or is_planned or not features.has_task:
                        return Lean(before, say_continued(before), names_turn=True, points_back=True)
                    if not (read.is_plan or turn.is_planning):
                        asked = before if position.ask is None else before / self._strength
                        return self._answer(features, read, None, asked)
        if not features.has_task:
            return _lean(_NOTHING_ASKED, "looks like a remark", goes_on=position.ask, wants_plan=position.is_planned)
        wants_plan = read.is_plan or turn.is_planning
        goes_on = max(read.size, _PLANNED) if wants_plan else None
        return _lean(read.size, read.because, goes_on=goes_on, wants_plan=wants_plan, idea=read.idea)

    def _answer(self, features: Features, read: _Read, offer: Offer | None, before: float | None) -> Lean:
        """Words that may point back: the sum of what they say and what was offered, or else asked before."""
        weights = self._weights
        odds = weights.turn.read(weights.read_values(features, read.pointing, offer, before))
        because, idea = self._say(odds, features, is_later=True)
        if read.pointing < _POINTS_BACK:
            return _lean(odds, because, idea=idea)
        because = say_continued(odds) if offer is None else say_offered(odds, offer, weights.offer)
        return Lean(odds, because, names_turn=True, points_back=True)

    def _read(self, features: Features, is_later: bool) -> _Read:
        known = self._known.get((id(features), is_later))
        if known is None or known[0] is not features:
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
            known = self._known[id(features), is_later] = (features, self._measure(features, is_later))
        return known[1]

    def _measure(self, features: Features, is_later: bool) -> _Read:
        weights = self._weights
        pointing = 0.0
        if is_later:
            pointing = weights.read_pointing(features)
            size = weights.turn.read(weights.read_values(features, 0.0, None))
        else:
            size = weights.first.read(features)
        is_plan = size > _LEAST_PLAN and not _PLANS.isdisjoint(map(_phrase_of, features.concepts))
        because, idea = self._say(size, features, is_later=is_later)
        plain = _lean(size, because, goes_on=max(size, _PLANNED) if is_plan else None, wants_plan=is_plan, idea=idea)
        is_plain = features.has_task and pointing < LEAST_POINTING
        return _Read(size, pointing, is_plan, because, idea, (self._weaken(plain),), is_plain)

    def _find_ask(self, signals: Signals) -> tuple[float | None, bool]:
        """The last ask's size and whether it wanted a plan: as remembered, else read again from the conversation."""
        position = signals.turn.position
        if position.ask is not None:
            return position.ask, position.is_planned
        for features in signals.earlier:
            if features.has_task and self._read(features, True).pointing < _POINTS_BACK:
                read = self._read(features, False)  # as an ask of its own
                return max(read.size, _PLANNED) if read.is_plan else read.size, read.is_plan
        return None, False

    def _say(self, size: float, features: Features, *, is_later: bool) -> tuple[str, str]:
        """What the turn looks like, and the idea that says most."""
        weights = self._weights
        shapes = read_shapes(weights.later if is_later else weights.first, features)
        return say_size(size, features, {**weights.read_shares(features, is_later=is_later), **shapes})


def find_weights(path: str = "") -> Weights:
    """Load weights, by default those that come with Tandem. Raises `ValueError`."""
    return read_once(path, written_at(path))


@lru_cache(maxsize=4)
def read_once(path: str, _: int) -> Weights:
    """Cached until the file is written again: a reload takes new weights."""
    return load_weights(path) if path else read_weights(files("policies").joinpath("learned.weights").read_bytes())


def _lean(odds: float, because: str, *, goes_on: float | None = None, wants_plan: bool = False, idea: str = "") -> Lean:
    return Lean(odds, because, names_turn=True, goes_on=goes_on, wants_plan=wants_plan, idea=idea)


def _sets_off(features: Features, signals: Signals, is_planned: bool) -> bool:
    """Whether the words set off work: a nod ("ok", "👍") does so only if it approves a plan or answers a question."""
    return features.has_task or is_planned or (signals.read_offer is not None and signals.read_offer().is_question)
