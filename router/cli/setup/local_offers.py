"""What local servers can do for each tier, for `tandem init`.

Servers are not timed: engines are slow after a start. The model with fewer parameters is taken for the faster one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from router.cli.common import readable, say
from router.cli.setup.around import Found
from router.cli.setup.engines import size_of
from router.cli.setup.presets import Offer, Presets
from router.contract.words import Tier

_MAX_WAIT_SECONDS = 5
"""How long a request may wait for a slot before another server takes it."""
_ALONE_SECONDS = 60
"""As above without another server, where moving on would only lose its place."""


@dataclass(frozen=True, slots=True)
class LocalOffers:
    all: Sequence[Offer]
    proposed: Mapping[Tier, Sequence[Offer]]


def offer_locals(presets: Presets, found: Mapping[str, Found], *, is_alone: bool) -> LocalOffers:
    """Local servers as offers. If alone, they serve both tiers: the largest model deep, the others fast, if sizes are known."""
    offers = [_offer(presets, one) for one in found.values() if one.provider.is_local]
    sizes = {offer.provider.name: size_of(offer.model, found[offer.provider.name].reached.listed) for offer in offers}
    known = {name: size for name, size in sizes.items() if size is not None}
    if len(known) == len(offers):
        offers.sort(key=lambda offer: (known[offer.provider.name], offer.facts["window_tokens"]))
    if not is_alone or len(offers) < 2:
        return LocalOffers(offers, {Tier.FAST: offers, Tier.DEEP: []})
    if len({readable(offer.model) for offer in offers}) == 1:
        say(f"the {len(offers)} local servers have the same model, so both tiers use all of them:")
        say("  which tier a turn goes to does not change the answer, only which server gives it")
        return LocalOffers(offers, {Tier.FAST: offers, Tier.DEEP: offers[::-1]})
    if len(known) < len(offers) or len(set(known.values())) < 2:
        say("cannot tell which local server has the larger model: both tiers use all of them")
        say("  hint: --fast NAME --deep NAME assigns them")
        return LocalOffers(offers, {Tier.FAST: offers, Tier.DEEP: offers})
    *smaller, largest = offers
    faster = ", ".join(_describe(offer) for offer in smaller)
    say(f"fast gets {faster}; deep gets the larger model, {_describe(largest)}")
    return LocalOffers(offers, {Tier.FAST: smaller, Tier.DEEP: [largest]})


def _describe(offer: Offer) -> str:
    return f"{readable(offer.model)} ({offer.provider.name})"


def _offer(presets: Presets, found: Found) -> Offer:
    kind = found.reached.engine.kind or found.provider.name
    preset = next(offer for offer in presets.offers[Tier.FAST] if offer.provider.name == kind)
    model = preset.choose(_usable_models(found)) or preset.model
    return with_local_model(replace(preset, provider=found.provider), model, found)


def _usable_models(found: Found) -> list[str]:
    """Loaded models first: loading takes long."""
    models = [model for model in found.reached.models if "embed" not in model.lower()]
    return sorted(models, key=lambda model: model not in found.reached.engine.windows)


def with_local_model(offer: Offer, model: str, found: Found) -> Offer:
    chosen = offer.with_model(model)
    window = found.reached.engine.window_of(model)
    return replace(chosen, facts={**chosen.facts, "window_tokens": window}) if window else chosen


def add_quotas(chosen: dict[Tier, list[Offer]], found: Mapping[str, Found]) -> None:
    is_shared = len({offer.provider.base_url for offers in chosen.values() for offer in offers}) == 1
    for tier, offers in chosen.items():
        for index, offer in enumerate(offers):
            if not offer.provider.is_local:
                continue
            slots, quota = found[offer.provider.name].reached.engine.slots, dict[str, int]()
            if slots is not None:
                quota["in_flight"] = slots
            if tier is Tier.FAST:  # deep's queue is weighed against fast, and not bounded
                quota["max_wait_seconds"] = _ALONE_SECONDS if is_shared else _MAX_WAIT_SECONDS
            if quota:
                offers[index] = replace(offer, facts={**offer.facts, "quota": quota})


def say_windows(chosen: Mapping[Tier, Sequence[Offer]], found: Mapping[str, Found]) -> None:
    guessed = {
        offer.provider.name: offer
        for offers in chosen.values()
        for offer in offers
        if offer.provider.is_local and found[offer.provider.name].reached.engine.window_of(offer.model) is None
    }
    for offer in guessed.values():
        window = offer.facts["window_tokens"]
        say(f"{offer.provider.title} does not report the window of {readable(offer.model)}: {window} is a guess")
        say("  hint: tandem check --live loads the model and compares its window with the config")
