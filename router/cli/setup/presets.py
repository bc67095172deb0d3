"""The providers that `tandem init` knows, from `presets.yaml`, and their config blocks."""

import fnmatch
import functools
import re
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from importlib import resources
from typing import Any

import yaml

from router.config.model_facts import ModelFacts, provider_of, read_facts
from router.contract.target import Price
from router.contract.words import Feature, Tier

_PLACEHOLDER = re.compile(r"\{([A-Z_]+)\}")
_NUMBER = re.compile(r"\d+(?:\.\d+)*")
_FACTS = ("window_tokens", "accepts", "price")
_WORDS = re.compile(r"[a-z]+")
_OTHER_WORK = frozenset(
    """
    audio bge clip colbert dall embed embedding embeddings gte guard image images imagine live lyria minilm moderation ocr
    realtime rerank reranker safeguard sora speech stt transcribe transcription translate tts veo video voice whisper
    """.split()
)
"""In names of models that do not answer: they judge, embed, listen, draw or speak."""
_DATED = re.compile(r"-\d{4}-?\d{2}-?\d{2}$|-\d{8}$")


@dataclass(frozen=True, slots=True)
class Provider:
    """A provider, or a kind of local server."""

    name: str
    title: str
    adapter: str
    dialect: str
    base_url: str
    keys: tuple[str, ...] = ()
    """Variables that may hold its key; none for a local server or a plan."""
    is_plan: bool = False
    """Whether a client's login with a plan pays, instead of a key."""

    @property
    def is_local(self) -> bool:
        return not self.keys and not self.is_plan

    @property
    def needs(self) -> tuple[str, ...]:
        return tuple(_PLACEHOLDER.findall(self.base_url))


@dataclass(frozen=True, slots=True)
class Offer:
    provider: Provider
    tier: Tier
    model: str
    like: tuple[str, ...] = ()
    """Patterns of models that may replace it, best first."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    is_spare: bool = False
    """Used only if no other provider serves its tier, or its provider serves both."""

    @property
    def needs(self) -> tuple[str, ...]:
        """In addition to the key."""
        return (*self.provider.needs, *_PLACEHOLDER.findall(self.model))

    def filled(self, values: Mapping[str, str]) -> "Offer":
        provider = self.provider
        address = _fill(provider.base_url, values)
        return replace(self, provider=replace(provider, base_url=address), model=_fill(self.model, values))

    def with_model(self, model: str) -> "Offer":
        """Drops the first model's facts, unless the server is local."""
        keeps_all = model == self.model or self.provider.is_local
        facts = {name: value for name, value in self.facts.items() if keeps_all or name not in _FACTS}
        return replace(self, model=model, facts=facts)

    def choose(self, listed: Iterable[str]) -> str:
        """The preset model if listed, else the newest of its kind; of a local server, the first."""
        models = list(listed)
        if self.model in models:
            return self.model
        models = [model for model in models if _OTHER_WORK.isdisjoint(_WORDS.findall(model.lower()))]
        for pattern in self.like:
            if matching := fnmatch.filter(models, pattern):
                return max(matching, key=_newness)
        return models[0] if models and self.provider.is_local else ""

    def write(self, name: str, variable: str) -> str:
        settings: dict[str, Any] = {"name": name, "adapter": self.provider.adapter, "dialect": self.provider.dialect}
        settings |= {"base_url": self.provider.base_url, "model": self.model}
        settings |= {"api_key": f"env:{variable}"} if variable else {}
        settings |= {"api_key": "caller", "billing": "plan"} if self.provider.is_plan else {}
        lines = [f"{key}: {_scalar(value)}" for key, value in {**settings, **self.facts}.items()]
        return "".join(f"      {'- ' if index == 0 else '  '}{line}\n" for index, line in enumerate(lines))


@dataclass(frozen=True, slots=True)
class LibraryKey:
    """A provider reached through litellm alone, with the variables that reveal its use."""

    title: str
    keys: tuple[str, ...]
    model: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def write(self, variable: str) -> str:
        target = {"name": self.model.partition("/")[0], "adapter": "litellm", "model": self.model}
        more = {"options": dict(self.options)} if self.options else {"api_key": f"env:{variable}"}
        return f"- {_scalar({**target, **more})}"


@dataclass(frozen=True, slots=True)
class Presets:
    providers: Mapping[str, Provider]
    offers: Mapping[Tier, tuple[Offer, ...]]

    spares: Mapping[Tier, tuple[Offer, ...]] = field(default_factory=lambda: dict.fromkeys(Tier, ()))
    by_litellm: tuple[LibraryKey, ...] = ()
    plans: Mapping[str, Mapping[Tier, Offer]] = field(default_factory=dict)

    def with_plans(self, names: Iterable[str]) -> "Presets":
        """Plans come first in deep. Their small models serve fast if nothing else does."""
        chosen = [self.plans[name] for name in names]
        deep = (*(plan[Tier.DEEP] for plan in chosen), *self.offers[Tier.DEEP])
        fast = (*(plan[Tier.FAST] for plan in chosen), *self.spares[Tier.FAST])
        return replace(self, offers={**self.offers, Tier.DEEP: deep}, spares={**self.spares, Tier.FAST: fast})

    def find(self, tier: Tier, provider: str, *, serves_both: bool = False) -> Offer | None:
        """A provider's offer for a tier, else for the other. A provider of both uses its two models."""
        first, second = (self.spares, self.offers) if serves_both else (self.offers, self.spares)
        ranked = (*first[tier], *second[tier], *self.offers[tier.other])
        return next((offer for offer in ranked if offer.provider.name == provider), None)

    def usable(self, found: Container[str]) -> dict[Tier, list[Offer]]:
        """Spare models serve a tier without offers; their provider then uses its other model for the other tier."""
        usual = {tier: [offer for offer in self.offers[tier] if offer.provider.name in found] for tier in Tier}
        offers = {tier: usual[tier] or [offer for offer in self.spares[tier] if offer.provider.name in found] for tier in Tier}
        for tier in Tier:
            lent = {offer.provider.name for offer in offers[tier.other] if offer.is_spare}
            own = {offer.provider.name: offer for offer in self.spares[tier] if offer.provider.name in lent}
            offers[tier] = [own.get(offer.provider.name, offer) for offer in offers[tier]]
        return offers

    def with_own_facts(self, offer: Offer) -> Offer:
        """Facts from a preset, else from the table of models, with no more abilities than the provider's presets have."""
        if offer.provider.is_local:
            return offer
        every = (
            *self.offers[offer.tier],
            *self.spares[offer.tier],
            *self.offers[offer.tier.other],
            *self.spares[offer.tier.other],
        )
        rows = [row for row in every if row.provider.name == offer.provider.name]
        if own := next((row for row in rows if row.model == offer.model), None):
            return replace(offer, facts=own.facts)
        name = (provider_of(offer.provider.base_url), offer.model)
        known = read_facts([name]).get(name)
        if known is None:
            return offer
        able = {feature for row in rows for feature in row.facts.get("accepts", ())}
        return replace(offer, facts={**offer.facts, **_write_facts(known, able)})


def _write_facts(known: ModelFacts, able: Container[str]) -> dict[str, Any]:
    accepted = {Feature.TEXT, *known.accepts}
    facts: dict[str, Any] = {"accepts": [str(feature) for feature in Feature if feature in accepted and feature in able]}
    if known.window_tokens is not None:
        facts["window_tokens"] = known.window_tokens
    if known.price is not None:
        facts["price"] = _write_price(known.price)
    return facts


def _write_price(price: Price) -> dict[str, Any]:
    names = ("input", "cached_input", "cache_write", "output")
    written: dict[str, Any] = {name: value for name in names if (value := getattr(price, name)) is not None}
    steps = [
        {name: value for name in ("above_tokens", *names) if (value := getattr(step, name)) is not None} for step in price.steps
    ]
    return {**written, "steps": steps} if steps else written


@functools.cache
def read_presets() -> Presets:
    content = yaml.safe_load((resources.files("router.cli.setup") / "presets.yaml").read_text(encoding="utf-8"))
    providers = {
        name: Provider(name, **{**settings, "keys": tuple(settings.get("keys", ()))})
        for name, settings in content["providers"].items()
    }
    rows = {tier: [_read_offer(entry, tier, providers) for entry in content[str(tier)]] for tier in Tier}
    offers = {tier: tuple(offer for offer in rows[tier] if not offer.is_spare) for tier in Tier}
    spares = {tier: tuple(offer for offer in rows[tier] if offer.is_spare) for tier in Tier}
    by_litellm = tuple(LibraryKey(**{**row, "keys": tuple(row["keys"])}) for row in content["by_litellm"])
    plans = {name: _read_plan(name, row, providers, offers) for name, row in content["plans"].items()}
    return Presets(providers, offers, spares, by_litellm, plans)


def _read_offer(entry: Mapping[str, Any], tier: Tier, providers: Mapping[str, Provider]) -> Offer:
    facts = {name: value for name, value in entry.items() if name not in ("provider", "model", "like", "spare")}
    like = tuple(entry.get("like", ()))
    return Offer(providers[entry["provider"]], tier, entry["model"], like, facts, entry.get("spare", False))


def _read_plan(
    name: str, row: Mapping[str, str], providers: Mapping[str, Provider], offers: Mapping[Tier, tuple[Offer, ...]]
) -> dict[Tier, Offer]:
    """A plan has the models of its vendor's API, under the vendor's address for plans."""
    vendor = row["provider"]
    plan = replace(providers[vendor], name=f"{name}-plan", title=row["title"], base_url=row["base_url"], keys=(), is_plan=True)
    found = {tier: next(offer for offer in offers[tier] if offer.provider.name == vendor) for tier in Tier}
    return {tier: replace(offer, provider=plan, is_spare=tier is Tier.FAST) for tier, offer in found.items()}


def _fill(text: str, values: Mapping[str, str]) -> str:
    return _PLACEHOLDER.sub(lambda found: values[found.group(1)].strip().rstrip("/"), text)


def _newness(model: str) -> tuple[tuple[int, ...], bool, str]:
    """By the numbers in a name. Names without a date are preferred."""
    plain = _DATED.sub("", model)
    numbers = tuple(int(part) for found in _NUMBER.findall(plain) for part in found.split("."))
    return numbers, plain == model, model


def _scalar(value: Any) -> str:
    written: str = yaml.safe_dump(value, default_flow_style=True, width=10_000, sort_keys=False)
    return written.removesuffix("...\n").strip()
