"""Looking around for `tandem init`: the providers whose keys are set and the local servers that answer, with their models."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from router.cli.common import say
from router.cli.setup.live import Reached, ask_models, gather
from router.config.presets import Offer, Presets, Provider
from router.contract.relay import Endpoint
from router.contract.secret import Secret
from router.contract.words import Tier
from router.upstream.pool import Pool
from router.wiring import known_names

_LOCAL_SECONDS, _REMOTE_SECONDS = 0.5, 4.0


@dataclass(frozen=True, slots=True)
class Found:
    """A provider that can be used: by the variable that holds its key, or because its server answered."""

    provider: Provider
    variable: str
    reached: Reached


def look_around(presets: Presets, values: Mapping[str, str], *, is_offline: bool) -> dict[str, Found]:
    """Every provider whose key is set, and every local server that answers, with the models that they list."""
    usable: list[tuple[Provider, str]] = []
    for provider in presets.providers.values():
        variable = next((name for name in provider.keys if values.get(name, "").strip()), "")
        missing = [name for offer in _offers_of(presets, provider) for name in offer.needs if not values.get(name)]
        if variable and missing:
            say(f"{variable} is set; {' and '.join(dict.fromkeys(missing))} must be set too for {provider.title}")
        elif variable or (provider.is_local and not is_offline):
            usable.append((provider, variable))
    reached = [Reached()] * len(usable) if is_offline else asyncio.run(_ask_all(usable, values))
    found = {}
    for (provider, variable), answer in zip(usable, reached, strict=True):
        if provider.is_local and not answer.models:
            continue
        found[provider.name] = Found(provider, variable, answer)
        say(f"found {provider.title}: {_tell(found[provider.name], is_offline=is_offline)}")
    return found


def _offers_of(presets: Presets, provider: Provider) -> list[Offer]:
    return [offer for offers in presets.offers.values() for offer in offers if offer.provider is provider]


def _tell(found: Found, *, is_offline: bool) -> str:
    where = "a server on this machine" if found.provider.is_local else found.variable
    if found.reached.models:
        return f"{where}, {len(found.reached.models)} model{'s' if len(found.reached.models) > 1 else ''}"
    if is_offline:
        return f"{where}; not asked for its models, so they go by the names that ship with Tandem"
    if found.reached.is_refused:
        return f"{where}, which is not used: it {found.reached.problem}"
    if found.reached.problem:
        return f"{where}; it {found.reached.problem}, so its models go by the names that ship with Tandem"
    return f"{where}; it lists no models, so they go by the names that ship with Tandem"


async def _ask_all(usable: Sequence[tuple[Provider, str]], values: Mapping[str, str]) -> list[Reached]:
    pool, adapters = Pool(), known_names().adapters
    try:
        return await gather(
            "asking for models",
            [
                ask_models(
                    pool,
                    adapters[provider.adapter],
                    Endpoint("", _address(provider, values), Secret(f"env:{variable}", values[variable]) if variable else None),
                    _LOCAL_SECONDS if provider.is_local else _REMOTE_SECONDS,
                )
                for provider, variable in usable
            ],
        )
    finally:
        await pool.close()


def _address(provider: Provider, values: Mapping[str, str]) -> str:
    return Offer(provider, Tier.FAST, "").filled(values).provider.base_url
