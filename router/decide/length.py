"""The way back to fast, for turns that only their length keeps from it."""

from collections.abc import Mapping, Sequence

from msgspec import structs

from router.contract.economics import Economics
from router.contract.opinions import Insist, Opinions, RuleOut
from router.contract.signals import SessionPosition, Signals, TokenCount
from router.contract.words import Tier
from router.decide.estimate import costs_of, project_first, rank_tier, redo_between
from router.decide.explain import say_looks

_NOTHING = TokenCount(0, 0, 0)
_IN_THOUSANDS = 10_000


def because_too_long(
    signals: Signals, opinions: Opinions, ruled_out: Mapping[str, RuleOut], score: float, economics: Economics
) -> str:
    """What would bring a turn back to fast, compared for a compacted conversation; empty if it would not go there anyway."""
    names = signals.names_of(Tier.FAST)
    words = say_way_back(ruled_out, names)
    if not words:
        return ""
    compacted = structs.replace(
        signals, prompt=_NOTHING, turn=structs.replace(signals.turn, position=SessionPosition(tier=Tier.FAST))
    )
    others_out = set(ruled_out) - set(names)
    ranked = [rank_tier(compacted, others_out, tier, score, economics) for tier in (Tier.FAST, Tier.DEEP)]
    if not ranked[1].names:
        return ""
    fast, deep = (project_first(tier, compacted, economics) for tier in ranked)
    redo = redo_between(fast, deep, compacted, economics)
    fast_cost, deep_cost = costs_of(fast, deep, redo, score, economics)
    looks = opinions.looks
    return "" if fast_cost >= deep_cost else f"{words}; {say_looks(looks, score)}" if looks else words


def say_way_back(ruled_out: Mapping[str, RuleOut], names: Sequence[str]) -> str:
    """How much a conversation exceeds the largest fast window; empty if another reason rules a target out."""
    lengths = [ruled_out[name].tokens if name in ruled_out else None for name in names]
    known = [length for length in lengths if length is not None]
    if not known or len(known) < len(lengths):
        return ""
    needed, window = max(known, key=lambda length: length[1])
    return f"{_round_up(needed)} of {_round_down(window)} tokens: compact to use fast"


def say_too_long(reasons: Sequence[RuleOut], insist: Insist | None) -> str:
    """The refusal of a prompt that fits nowhere. It begins with the words and two numbers on which clients compact.

    They are the prompt's tokens and its maximum: the largest window, less the room for the answer if the prompt alone would
    fit.
    """
    known = [(reason.tokens, reason.reserved_tokens) for reason in reasons if reason.tokens is not None]
    (needed, window), reserve = max(known, key=lambda length: length[0][1])
    prompt = needed - reserve
    max_tokens = window if prompt > window else window - reserve
    room = f" {reserve} of the window's {window} tokens are kept free for the answer." if reserve else ""
    asked = f"{insist.because}, and no target there has a larger window" if insist else "no target has a larger window"
    if not insist and (rights := [reason for reason in reasons if reason.is_right]):
        asked = f"{rights[0].because}, and no target there has a larger window"
    return f"prompt is too long: {prompt} tokens > {max_tokens} maximum.{room} {asked[:1].upper()}{asked[1:]}"


def _round_up(tokens: int) -> str:
    return f"{-(-tokens // 1000)}k" if tokens >= _IN_THOUSANDS else str(tokens)


def _round_down(tokens: int) -> str:
    return f"{tokens // 1000}k" if tokens >= _IN_THOUSANDS else str(tokens)
