"""Model names: what the caller's name for a model means."""

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

from router.contract.errors import UnknownModel
from router.contract.signals import Alias
from router.contract.target import Target
from router.contract.words import Tier

_TIERS = {"auto": None, "fast": Tier.FAST, "deep": Tier.DEEP}
_OF_TIERS = {name: name for name in _TIERS}
_ALL = "*"


class ModelNames:
    """The config's names added to the shipped ones.

    Exact names count first: the config's own, then the targets', then the shipped ones, which may also follow a provider's
    prefix. Patterns come after them: the config's in their order, then the shipped ones in theirs. A shipped entry is taken
    away by None under its name, all shipped patterns by None under `*`. Last come the names of the models themselves
    (`own_models`), which are not listed: they are for clients that know an engine's model by its own name.
    """

    def __init__(
        self,
        own: Mapping[str, str | None],
        targets: tuple[str, ...],
        shipped: Mapping[str, str] | None = None,
        own_models: Mapping[str, str] | None = None,
    ) -> None:
        kept = _leave_out(_OF_TIERS if shipped is None else shipped, own)
        added = {name: meaning for name, meaning in own.items() if meaning is not None}
        exact = _only_exact(kept) | _only_exact(added) | dict(zip(targets, targets, strict=True)) | _only_exact(added)
        ours = {name: meaning for name, meaning in _only_patterns(kept).items() if name not in added}
        self.meanings = exact | _only_patterns(added) | ours
        """Every name and pattern with what it means: exact names first, then the patterns in the order in which they count."""
        self._exact = {name: _as_alias(name, meaning) for name, meaning in exact.items()}
        self._shipped = frozenset(_only_exact(kept))
        self._patterns = tuple(_only_patterns(self.meanings).items())
        self._own_models = {name.lower(): meaning for name, meaning in (own_models or {}).items()}

    def resolve(self, name: str) -> Alias:
        """What a name means. Raises `UnknownModel` with the names that are known."""
        alias = self._exact.get(name) or self._exact.get(name.lower())
        if alias is not None:
            return alias
        if "/" in name and (short := name.rpartition("/")[2].lower()) in self._shipped:
            return _as_alias(name, self.meanings[short])
        for pattern, meaning in self._patterns:
            if fnmatchcase(name, pattern) or fnmatchcase(name.lower(), pattern):
                return _as_alias(name, meaning, is_pattern=True)
        if (found := self._own_models.get(name.lower())) is not None:
            return _as_alias(name, found)
        known = ", ".join(self.listed())
        patterns = ", ".join(pattern for pattern, _ in self._patterns)
        hint = f", or a name that matches {patterns}" if patterns else ""
        raise UnknownModel(f'model: unknown model "{name[:80]}". Known: {known}{hint}', param="model")

    def listed(self) -> tuple[str, ...]:
        """The names to show in a list of models: the shipped ones, the config's exact names, the targets."""
        return tuple(self._exact)


def models_behind(targets: Iterable[tuple[Target, str]]) -> dict[str, str]:
    """What the name of each target's model means: that target or, where a whole tier has it and nobody else, the tier.

    A name that leads to some targets of a tier, or to both tiers, is left out: it would not say enough.
    """
    models: dict[str, list[Target]] = {}
    tiers: dict[Tier, int] = {}
    for target, model in targets:
        models.setdefault(model.lower(), []).append(target)
        tiers[target.tier] = tiers.get(target.tier, 0) + 1
    meanings: dict[str, str] = {}
    for model, found in models.items():
        first = found[0]
        if len(found) == 1:
            meanings[model] = first.name
        elif len({target.tier for target in found}) == 1 and len(found) == tiers[first.tier]:
            meanings[model] = first.tier
    return meanings


def _leave_out(shipped: Mapping[str, str], own: Mapping[str, str | None]) -> dict[str, str]:
    """The shipped entries without those that the config takes away."""
    taken = {name for name, meaning in own.items() if meaning is None}
    return {
        name: meaning for name, meaning in shipped.items() if name not in taken and not (_ALL in taken and is_pattern(name))
    }


def is_pattern(name: str) -> bool:
    """Whether an entry speaks of every name that looks like it."""
    return "*" in name


def _only_exact(models: Mapping[str, str]) -> dict[str, str]:
    return {name: meaning for name, meaning in models.items() if not is_pattern(name)}


def _only_patterns(models: Mapping[str, str]) -> dict[str, str]:
    return {name: meaning for name, meaning in models.items() if is_pattern(name)}


def _as_alias(name: str, meaning: str, *, is_pattern: bool = False) -> Alias:
    if meaning in _TIERS:
        return Alias(name, tier=_TIERS[meaning], is_pattern=is_pattern)
    return Alias(name, target=meaning, is_pattern=is_pattern)
