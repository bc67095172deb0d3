"""Putting the signals together, and knowing when an estimate of tokens is not good enough."""

from collections.abc import Mapping

from msgspec.structs import replace

from router.contract.request import RequestView
from router.contract.signals import Alias, Signals, TokenCounter, Turn
from router.contract.target import TargetStatus
from router.contract.words import Feature, TurnKind
from router.sense.calibration import Calibration
from router.sense.features import leaves_open, read_features, says_what
from router.sense.tokens import estimate_prompt

_SMALL_TOKENS = 4_000
"""No model's window is near this."""
_ROOM_TOKENS = 8_000
"""What a window policy keeps free for the answer by default. It may also be nothing."""
_TOOLS = frozenset({Feature.TOOLS, Feature.CUSTOM_TOOLS})


def read_signals(
    view: RequestView, turn: Turn, alias: Alias, statuses: Mapping[str, TargetStatus], calibration: Calibration
) -> Signals:
    """Measure what policies may look at. Costs the same for a page and for a book."""
    prompt = estimate_prompt(view)
    if prompt.tokens > _SMALL_TOKENS:
        prompt = calibration.narrow(view.caller, turn.session, prompt)
    text, follows = _find_words(turn)
    features = None
    if text:
        features = read_features(text, turn.history, offers_tools=not _TOOLS.isdisjoint(view.needs), follows=follows)
    return Signals(turn=turn, prompt=prompt, alias=alias, statuses=statuses, effort=view.effort, features=features)


def _find_words(turn: Turn) -> tuple[str | None, bool]:
    """The words to read: the person's, or what a subagent was given, unless it only searches.

    Words that do not say what is to be done stand for those of the turn before; then the second is True.
    """
    kind, words = turn.kind, turn.person_text
    if kind is TurnKind.ASK and not turn.history.last:
        return words, False
    if kind is TurnKind.SUBAGENT:
        return None if turn.only_reads else turn.ask_text, False
    if kind is TurnKind.FOLLOW_UP and turn.ask_text and says_what(turn.ask_text):
        return turn.ask_text, True
    if kind is TurnKind.FOLLOW_UP or (words and turn.history.last and leaves_open(words)):
        earlier = (past.words for past in reversed(turn.history.last) if says_what(past.words))
        return next(earlier, turn.ask_text or words), True
    return words, False


def is_near_a_limit(signals: Signals) -> bool:
    """Whether the band of the estimate holds the limit of some target, so that only an exact count can tell."""
    prompt = signals.prompt
    if prompt.is_exact or prompt.high < _SMALL_TOKENS:
        return False
    low, high = prompt.low, prompt.high
    far = high + _ROOM_TOKENS
    for standing in signals.statuses.values():
        window = standing.target.window_tokens
        if window <= far and (low <= window <= high or low <= window - _ROOM_TOKENS):
            return True
    return False


async def count_exactly(view: RequestView, signals: Signals, counter: TokenCounter, calibration: Calibration) -> Signals:
    """The signals with the prompt counted, where that can be done; what it taught narrows the session's next estimates."""
    exact = await counter.count(view)
    if exact is None:
        return signals
    calibration.note(view.caller, signals.turn.session, estimate_prompt(view).tokens, exact.tokens)
    return replace(signals, prompt=exact)
