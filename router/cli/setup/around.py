"""Looking around for `tandem init`: the providers whose keys are set and the local servers that answer, with their models."""

import asyncio
import importlib.util
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from urllib.parse import urlsplit

from router.cli.common import command_name, readable, say
from router.cli.setup.engines import Engine, engine_kind, serves_at_once
from router.cli.setup.live import Reached, ask_engine, ask_models, gather
from router.cli.setup.presets import LibraryKey, Offer, Presets, Provider
from router.config.faults import KnownAdapter, how_to_install
from router.contract.relay import Endpoint
from router.contract.secret import Secret
from router.contract.words import Tier
from router.screen.figures import plural
from router.upstream.pool import Pool
from router.wiring.build import known_names

_LOCAL_SECONDS, _REMOTE_SECONDS = 2.0, 4.0
LOADING_SECONDS, LOOK_AGAIN_SECONDS = 120.0, 0.5
_PAGE = "docs/how-to/use-real-models.md"
_SAY_AGAIN_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Found:
    """A provider that can be used: by the variable that holds its key, or because its server answered."""

    provider: Provider
    variable: str
    reached: Reached
    engine: Engine = field(default_factory=Engine)


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
    if is_offline:
        answers = [Found(provider, variable, Reached()) for provider, variable in usable]
    else:
        answers = asyncio.run(_ask_all(presets, usable, values))
    found = {}
    for answer in _name_apart(presets, [one for one in answers if one.reached.models or not one.provider.is_local]):
        found[answer.provider.name] = answer
        say(f"found {answer.provider.title}: {_tell(answer, is_offline=is_offline)}")
    return found


def _offers_of(presets: Presets, provider: Provider) -> list[Offer]:
    return [offer for offers in presets.offers.values() for offer in offers if offer.provider is provider]


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
    """The server, and what it says of the model that is loaded. Which engine it is may be a guess by its port."""
    told, engine, models = f"a server on this machine ({found.provider.base_url})", found.engine, found.reached.models or ()
    parts = [told, f"{len(models)} models" if len(models) > 1 else readable(models[0])]
    if len(models) == 1 and models[0] in engine.windows:
        parts.append(f"window of {engine.windows[models[0]]:,} tokens")
    if engine.slots is not None:
        parts.append(serves_at_once(engine.slots))
    if not engine.kind:
        parts.append(f"assumed to be {found.provider.title} because of its port")
    return ", ".join(parts)


async def _ask_all(presets: Presets, usable: Sequence[tuple[Provider, str]], values: Mapping[str, str]) -> list[Found]:
    pool, adapters = Pool(), known_names().adapters
    try:
        asked = [_ask(pool, adapters[provider.adapter], provider, variable, values) for provider, variable in usable]
        answers = await gather("asking for models", asked)
        answers = await _wait_for_loading(pool, adapters, answers, values)
        return await gather("asking local servers", [_ask_local(pool, adapters, presets, found) for found in answers])
    finally:
        await pool.close()


async def _ask(pool: Pool, adapter: KnownAdapter, provider: Provider, variable: str, values: Mapping[str, str]) -> Found:
    key = Secret(f"env:{variable}", values[variable]) if variable else None
    endpoint = Endpoint("", _address(provider, values), key)
    within_seconds = _LOCAL_SECONDS if provider.is_local else _REMOTE_SECONDS
    return Found(provider, variable, await ask_models(pool, adapter, endpoint, within_seconds))


async def _wait_for_loading(
    pool: Pool, adapters: Mapping[str, KnownAdapter], answers: list[Found], values: Mapping[str, str]
) -> list[Found]:
    """The same, after waiting up to two minutes for engines that are loading their model."""
    loading = [found for found in answers if found.provider.is_local and found.reached.is_loading]
    if not loading:
        return answers
    for found in loading:
        say(f"the server at {found.provider.base_url} is {found.reached.problem}")
    say(f"waiting for it for up to {LOADING_SECONDS:g} seconds (Ctrl-C stops)")
    began = said_at = time.monotonic()
    while any(found.reached.is_loading for found in answers) and time.monotonic() - began < LOADING_SECONDS:
        await asyncio.sleep(LOOK_AGAIN_SECONDS)
        answers = [
            await _ask(pool, adapters[found.provider.adapter], found.provider, found.variable, values)
            if found.provider.is_local and found.reached.is_loading
            else found
            for found in answers
        ]
        if time.monotonic() - said_at >= _SAY_AGAIN_SECONDS:
            said_at = time.monotonic()
            say(f"still loading after {said_at - began:.0f} s")
    for found in answers:
        if found.reached.is_loading:
            say(f"the server at {found.provider.base_url} is still loading; skipped")
            say(f"  hint: run {command_name()} init again once it answers")
    return answers


async def _ask_local(pool: Pool, adapters: Mapping[str, KnownAdapter], presets: Presets, found: Found) -> Found:
    """The same with what a local server says of itself: which engine it is, its windows and its slots."""
    provider = found.provider
    if not provider.is_local or not found.reached.models:
        return found
    endpoint = Endpoint("", provider.base_url, None)
    adapter = adapters[provider.adapter]
    engine = await ask_engine(pool, adapter, endpoint, found.reached, _LOCAL_SECONDS, provider.name)
    said = engine_kind(found.reached.listed, found.reached.server)
    provider = replace(presets.providers.get(said, provider), base_url=provider.base_url)
    return replace(found, provider=provider, engine=replace(engine, kind=said))


def _name_apart(presets: Presets, answers: Sequence[Found]) -> list[Found]:
    """The same, with names that differ: of several servers of one kind, those at other ports have the port in their name."""
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
    """Say which of these variables are set, and how to use them. False where none is."""
    found = [(row, name) for row in presets.by_litellm if (name := _find_variable(row, values))]
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


def _find_variable(row: LibraryKey, values: Mapping[str, str]) -> str:
    return next((name for name in row.keys if values.get(name, "").strip()), "")
