"""What callers' model names mean."""

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

from router.contract.errors import UnknownModel
from router.contract.signals import Alias
from router.contract.target import Target
from router.contract.words import Tier

_TIERS = {"auto": None, "fast": Tier.FAST, "deep": Tier.DEEP}
_OF_TIERS = {name: name for name in _TIERS}
_OWN_ENDINGS = tuple(f"-{name}" for name in _TIERS)
_ALL = "*"


class ModelNames:
    """The config's names added to the shipped ones.

    Exact names come first: the config's, the targets', the shipped ones, also after a provider's prefix. Then patterns: the
    config's, then the shipped. None under a name removes a shipped entry, under `*` all shipped patterns. Last and unlisted are
    the models' own names (`own_models`), for clients that know an engine's model by them.
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
        """Exact names first, then patterns in the order in which they count."""
        self._exact = {name: _as_alias(name, meaning) for name, meaning in exact.items()}
        self._shipped = frozenset(_only_exact(kept))
        self._patterns = tuple(_only_patterns(self.meanings).items())
        self._own_models = {name.lower(): meaning for name, meaning in (own_models or {}).items()}

    def resolve(self, name: str) -> Alias:
        """Raises `UnknownModel` with the known names."""
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

    def is_own(self, name: str) -> bool:
        """Whether a name is Tandem's, and not that of a model."""
        short = name.rpartition("/")[2].lower()
        return name in self._exact or short in self._exact or short.endswith(_OWN_ENDINGS)

    def listed(self) -> tuple[str, ...]:
        return tuple(self._exact)


def models_behind(targets: Iterable[tuple[Target, str]]) -> dict[str, str]:
    """The target of each model name or, if exactly one whole tier has that model, the tier. Ambiguous names are left out."""
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
    taken = {name for name, meaning in own.items() if meaning is None}
    return {
        name: meaning for name, meaning in shipped.items() if name not in taken and not (_ALL in taken and is_pattern(name))
    }


def is_pattern(name: str) -> bool:
    return "*" in name


def _only_exact(models: Mapping[str, str]) -> dict[str, str]:
    return {name: meaning for name, meaning in models.items() if not is_pattern(name)}


def _only_patterns(models: Mapping[str, str]) -> dict[str, str]:
    return {name: meaning for name, meaning in models.items() if is_pattern(name)}


def _as_alias(name: str, meaning: str, *, is_pattern: bool = False) -> Alias:
    if meaning in _TIERS:
        return Alias(name, tier=_TIERS[meaning], is_pattern=is_pattern)
    return Alias(name, target=meaning, is_pattern=is_pattern)
