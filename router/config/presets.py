"""The providers that `tandem init` knows, out of `presets.yaml`: the data is there, and here is how it is read and written."""

import fnmatch
import functools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

import yaml

from router.contract.words import Tier

_PLACEHOLDER = re.compile(r"\{([A-Z_]+)\}")
_NUMBER = re.compile(r"\d+(?:\.\d+)*")
_DATED = re.compile(r"-\d{4}-?\d{2}-?\d{2}$|-\d{8}$")


@dataclass(frozen=True, slots=True)
class Provider:
    """Where one provider, or one kind of local server, is."""

    name: str
    title: str
    adapter: str
    dialect: str
    base_url: str
    keys: tuple[str, ...] = ()
    """The variables that may hold its key. A server on this machine has none."""

    @property
    def is_local(self) -> bool:
        return not self.keys

    @property
    def needs(self) -> tuple[str, ...]:
        """The variables that its address is made of."""
        return tuple(_PLACEHOLDER.findall(self.base_url))


@dataclass(frozen=True, slots=True)
class Offer:
    """What a provider can do for a tier: a model, and the facts of it."""

    provider: Provider
    tier: Tier
    model: str
    like: tuple[str, ...] = ()
    """Patterns of models that may take its place, the best first."""
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def needs(self) -> tuple[str, ...]:
        """The variables that must be set beside the key."""
        return (*self.provider.needs, *_PLACEHOLDER.findall(self.model))

    def filled(self, values: Mapping[str, str]) -> "Offer":
        """The offer with variables in place of their names."""
        provider = self.provider
        address = _fill(provider.base_url, values)
        known = Provider(provider.name, provider.title, provider.adapter, provider.dialect, address, provider.keys)
        return Offer(known, self.tier, _fill(self.model, values), self.like, self.facts)

    def with_model(self, model: str) -> "Offer":
        """The same with another model, whose price nobody knows then."""
        facts = {name: value for name, value in self.facts.items() if name != "price" or model == self.model}
        return Offer(self.provider, self.tier, model, self.like, facts)

    def choose(self, listed: Iterable[str]) -> str:
        """The best of the models that a provider lists: the one named here, else the newest of its kind, else none.

        A local server has what its owner put there, so its first model is the right one.
        """
        models = list(listed)
        if self.model in models:
            return self.model
        for pattern in self.like:
            if matching := fnmatch.filter(models, pattern):
                return max(matching, key=_newness)
        return models[0] if models and self.provider.is_local else ""

    def write(self, name: str, variable: str) -> str:
        """Its block of the config, as an entry of `targets`."""
        settings: dict[str, Any] = {"name": name, "adapter": self.provider.adapter, "dialect": self.provider.dialect}
        settings |= {"base_url": self.provider.base_url, "model": self.model}
        settings |= {"api_key": f"env:{variable}"} if variable else {}
        lines = [f"{key}: {_scalar(value)}" for key, value in {**settings, **self.facts}.items()]
        return "".join(f"      {'- ' if index == 0 else '  '}{line}\n" for index, line in enumerate(lines))


@dataclass(frozen=True, slots=True)
class Presets:
    """All that `tandem init` can write."""

    providers: Mapping[str, Provider]
    offers: Mapping[Tier, tuple[Offer, ...]]

    def find(self, tier: Tier, provider: str) -> Offer | None:
        """What a provider offers for a tier; what it offers for the other where it has nothing of its own."""
        ranked = (*self.offers[tier], *self.offers[tier.other])
        return next((offer for offer in ranked if offer.provider.name == provider), None)


@functools.cache
def read_presets() -> Presets:
    """The shipped presets."""
    content = yaml.safe_load((resources.files("router.config") / "presets.yaml").read_text(encoding="utf-8"))
    providers = {
        name: Provider(name, **{**settings, "keys": tuple(settings.get("keys", ()))})
        for name, settings in content["providers"].items()
    }
    offers = {tier: tuple(_read_offer(entry, tier, providers) for entry in content[str(tier)]) for tier in Tier}
    return Presets(providers, offers)


def _read_offer(entry: Mapping[str, Any], tier: Tier, providers: Mapping[str, Provider]) -> Offer:
    facts = {name: value for name, value in entry.items() if name not in ("provider", "model", "like")}
    return Offer(providers[entry["provider"]], tier, entry["model"], tuple(entry.get("like", ())), facts)


def _fill(text: str, values: Mapping[str, str]) -> str:
    return _PLACEHOLDER.sub(lambda found: values[found.group(1)].strip().rstrip("/"), text)


def _newness(model: str) -> tuple[tuple[int, ...], bool, str]:
    """Higher for newer: by the numbers in its name. A name without a date is the one to use."""
    plain = _DATED.sub("", model)
    numbers = tuple(int(part) for found in _NUMBER.findall(plain) for part in found.split("."))
    return numbers, plain == model, model


def _scalar(value: Any) -> str:
    """A value in YAML, on one line."""
    written: str = yaml.safe_dump(value, default_flow_style=True, width=10_000, sort_keys=False)
    return written.removesuffix("...\n").strip()
