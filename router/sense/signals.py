"""Assembles the signals, and tells when a token estimate is too rough."""

import math
from collections.abc import Callable, Mapping
from functools import partial
from operator import attrgetter

from msgspec.structs import replace

from router.contract.caller import SessionKey
from router.contract.decision import Decision
from router.contract.features import Features
from router.contract.request import RequestView
from router.contract.signals import RESERVE_TOKENS, Alias, Signals, TokenCounter, Turn
from router.contract.target import TargetStatus
from router.contract.words import TurnKind
from router.sense.features import read_features
from router.sense.offers import LEAST_OFFER, read_offer
from router.sense.tokens import Calibration, estimate_prompt

_CALIBRATED_TOKENS = 4_000
"""From here on, earlier counts of a session narrow the estimate."""
_SMALL_TOKENS = 700
_FILLED = 0.6
"""Share of a window. From 0.7 on, its end lies within the estimate's band: the vocabulary should be loaded by then."""
_window_of = attrgetter("target.window_tokens")


def read_signals(
    view: RequestView, turn: Turn, alias: Alias, statuses: Mapping[str, TargetStatus], calibration: Calibration
) -> Signals:
    """Costs as much for a page as for a book."""
    prompt = estimate_prompt(view)
    if prompt.tokens > _CALIBRATED_TOKENS:
        prompt = calibration.narrow(SessionKey(view.caller, turn.session), prompt)
    text = turn.person_text
    if turn.kind is TurnKind.SUBAGENT and not turn.only_reads:
        text = turn.ask_text
    features = read_features(text) if text else None
    if not turn.history.turns or features is None or not features.is_short:
        return Signals(turn, prompt, alias, statuses, view.effort, features)
    offer = partial(read_offer, turn.said, text or "") if len(turn.said) >= LEAST_OFFER else None
    return Signals(turn, prompt, alias, statuses, view.effort, features, _read_earlier(turn), read_offer=offer)


def _read_earlier(turn: Turn) -> tuple[Features, ...]:
    """Earlier turns, newest first, if their size is not remembered."""
    if turn.position.ask is not None:
        return ()
    earlier = [read_features(past.words) for past in reversed(turn.history.last)]
    if turn.ask_text and turn.ask_text != turn.person_text:
        earlier.append(read_features(turn.ask_text))  # before any number of "go on"
    return tuple(earlier)


def approaches_a_limit(signals: Signals) -> bool:
    """Cheap, and nearly always false."""
    high = signals.prompt.high
    if high < _SMALL_TOKENS:
        return False
    low, far = signals.prompt.low, (high + RESERVE_TOKENS) / _FILLED
    windows = [*map(_window_of, signals.statuses.values())]
    return far >= min(windows, default=math.inf) and any(low <= window <= far for window in windows)


def prepare_count(decision: Decision, counter: TokenCounter) -> None:
    """Load the vocabulary if a count is likely soon.

    Other targets' windows do not matter: a prompt does not move when it outgrows them.
    """
    status = decision.signals.statuses[decision.targets[0]]
    if decision.prompt_tokens > status.target.window_tokens * _FILLED:
        counter.prepare()


async def count_exactly(
    view: RequestView,
    signals: Signals,
    counter: TokenCounter,
    calibration: Calibration,
    worth: Callable[[Signals], float],
) -> Signals:
    """Count where a target's limit lies within the estimate's band; a late count still narrows the session's next estimates."""
    prompt, session = signals.prompt, SessionKey(view.caller, signals.turn.session)
    far = prompt.high + RESERVE_TOKENS  # at most: a request may need less room for its answer
    is_near = any(prompt.low <= status.target.window_tokens <= far for status in signals.statuses.values())
    if prompt.is_exact or not is_near or not (seconds := worth(signals)):
        return signals

    def learn(tokens: int) -> None:
        calibration.note(session, estimate_prompt(view).tokens, tokens)

    try:
        exact = await counter.count(view, seconds, learn)
    except TimeoutError:
        return replace(signals, prompt=replace(prompt, late_range=(prompt.low, prompt.high)))
    return signals if exact is None else replace(signals, prompt=exact)
