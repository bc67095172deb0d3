"""For `tandem init`: providers with a key, and local servers that answer, with their models and a tier for each.

Servers are not timed: engines are slow after a start. The model with fewer parameters is taken for the faster one.
"""

import asyncio
import importlib.util
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from router.cli.common import command_name, readable, say
from router.cli.figures import plural
from router.cli.setup.engines import Reached, describe, size_of
from router.cli.setup.live import gather, look_at
from router.cli.setup.presets import Offer, Presets, Provider
from router.contract.extras import how_to_install
from router.contract.relay import Endpoint
from router.contract.secret import Secret
from router.contract.words import Tier
from router.upstream.pool import Pool
from router.wiring.build import known_names

_LOCAL_SECONDS, _REMOTE_SECONDS = 2.0, 4.0
LOADING_SECONDS, LOOK_AGAIN_SECONDS = 120.0, 0.5
_PAGE = "docs/use/providers.md"
_SAY_AGAIN_SECONDS = 5.0
_MAX_WAIT_SECONDS = 5
"""How long a request may wait for a slot before another server takes it."""
_ALONE_SECONDS = 60
"""As above without another server, where moving on would only lose its place."""


@dataclass(frozen=True, slots=True)
class Found:
    """Its key's variable is set, or its server answered."""

    provider: Provider
    variable: str
    reached: Reached


def look_around(presets: Presets, values: Mapping[str, str], *, is_offline: bool) -> dict[str, Found]:
    usable: list[tuple[Provider, str]] = []
    for provider in presets.providers.values():
        variable = _find_variable(provider.keys, values)
        offers = (offer for offers in presets.offers.values() for offer in offers if offer.provider is provider)
        missing = [name for offer in offers for name in offer.needs if not values.get(name)]
        if variable and missing:
            say(f"{variable} is set; {' and '.join(dict.fromkeys(missing))} must be set too for {provider.title}")
        elif variable or (provider.is_local and not is_offline):
            usable.append((provider, variable))
    if is_offline:
        answers = [Found(provider, variable, Reached()) for provider, variable in usable]
    else:
        answers = asyncio.run(_ask_all(presets, usable, values))
    found = {}
    for answer in _name_apart(presets, [one for one in answers if one.reached.models or not one.provider.is_local]):
        found[answer.provider.name] = answer
        say(f"found {answer.provider.title}: {_tell(answer, is_offline=is_offline)}")
    return found


def _tell(found: Found, *, is_offline: bool) -> str:
    if found.provider.is_local:
        return _tell_local(found)
    where = found.variable
    if found.reached.models:
        return f"{where}, {plural(len(found.reached.models), 'model')}"
    if is_offline:
        return f"{where}; not asked for its models; using the names that ship with Tandem"
    if found.reached.is_refused:
        return f"{where}, not used: it {found.reached.problem}"
    if found.reached.problem:
        return f"{where}; it {found.reached.problem}; using the model names that ship with Tandem"
    return f"{where}; it lists no models; using the names that ship with Tandem"


def _tell_local(found: Found) -> str:
    """The engine may be a guess by port."""
    engine, models = found.reached.engine, found.reached.models
    parts = [f"a server on this machine ({found.provider.base_url})"]
    parts += [f"{len(models)} models"] if len(models) > 1 else [readable(models[0])]
    parts += describe(engine, models[0] if len(models) == 1 else "")
    if not engine.kind:
        parts.append(f"assumed to be {found.provider.title} because of its port")
    return ", ".join(parts)


async def _ask_all(presets: Presets, usable: Sequence[tuple[Provider, str]], values: Mapping[str, str]) -> list[Found]:
    pool = Pool()
    try:
        asked = [_ask(pool, presets, provider, variable, values) for provider, variable in usable]
        return await _wait_for_loading(pool, presets, await gather("asking for models", asked), values)
    finally:
        await pool.close()


async def _ask(pool: Pool, presets: Presets, provider: Provider, variable: str, values: Mapping[str, str]) -> Found:
    """A local server may be another engine than its port suggests."""
    key = Secret(f"env:{variable}", values[variable]) if variable else None
    adapter, endpoint = known_names().adapters[provider.adapter], Endpoint("", _address(provider, values), key)
    if not provider.is_local:
        return Found(provider, variable, await look_at(pool, adapter, endpoint, _REMOTE_SECONDS))
    reached = await look_at(pool, adapter, endpoint, _LOCAL_SECONDS, kind=provider.name)
    provider = replace(presets.providers.get(reached.engine.kind, provider), base_url=provider.base_url)
    return Found(provider, variable, reached)


async def _wait_for_loading(pool: Pool, presets: Presets, answers: list[Found], values: Mapping[str, str]) -> list[Found]:
    """Wait up to two minutes for engines that load their model."""

    def find_loading() -> list[int]:
        return [index for index, found in enumerate(answers) if found.provider.is_local and found.reached.is_loading]

    if not (loading := find_loading()):
        return answers
    for index in loading:
        say(f"the server at {answers[index].provider.base_url} is {answers[index].reached.problem}")
    say(f"waiting for it for up to {LOADING_SECONDS:g} seconds (Ctrl-C stops)")
    began = said_at = time.monotonic()
    while loading and time.monotonic() - began < LOADING_SECONDS:
        await asyncio.sleep(LOOK_AGAIN_SECONDS)
        for index in loading:
            answers[index] = await _ask(pool, presets, answers[index].provider, answers[index].variable, values)
        loading = find_loading()
        if time.monotonic() - said_at >= _SAY_AGAIN_SECONDS:
            said_at = time.monotonic()
            say(f"still loading after {said_at - began:.0f} s")
    for index in loading:
        say(f"the server at {answers[index].provider.base_url} is still loading; skipped")
        say(f"  hint: run {command_name()} init again once it answers")
    return answers


def _name_apart(presets: Presets, answers: Sequence[Found]) -> list[Found]:
    """Add the port to the names of several servers of one kind."""
    named, taken = list(answers), Counter(found.provider.name for found in answers)
    for index, found in enumerate(answers):
        usual = presets.providers[found.provider.name].base_url
        if taken[found.provider.name] > 1 and found.provider.base_url != usual:
            name = f"{found.provider.name}-{urlsplit(found.provider.base_url).port}"
            named[index] = replace(found, provider=replace(found.provider, name=name))
    return named


def _address(provider: Provider, values: Mapping[str, str]) -> str:
    return Offer(provider, Tier.FAST, "").filled(values).provider.base_url


def say_litellm_keys(presets: Presets, values: Mapping[str, str]) -> bool:
    """Returns False if none is set."""
    found = [(row, name) for row in presets.by_litellm if (name := _find_variable(row.keys, values))]
    if not found:
        return False
    for row, name in found:
        say(f"{name} is set: {row.title} is reached through litellm, with a target that you add yourself:")
        say(f"      {row.write(name)}")
        if row.options:
            say(f"  what else it needs: {_PAGE}")
    first = "" if importlib.util.find_spec("litellm") is not None else f"{how_to_install('litellm')}, then "
    say(f"  hint: {first}add the line under targets: of a tier in the config")
    if any("AZURE_API_KEY" in row.keys for row, _ in found):
        variables = "AZURE_OPENAI_API_KEY, AZURE_OPENAI_ENDPOINT and AZURE_OPENAI_DEPLOYMENT"
        say(f"  hint: Azure OpenAI works without litellm: set {variables}")
    return True


def _find_variable(keys: Sequence[str], values: Mapping[str, str]) -> str:
    return next((name for name in keys if values.get(name, "").strip()), "")


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
