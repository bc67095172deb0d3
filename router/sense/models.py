"""Model names: what the caller's name for a model means."""

from collections.abc import Mapping
from fnmatch import fnmatchcase

from router.contract.errors import UnknownModel
from router.contract.signals import Alias
from router.contract.words import Tier

_TIERS = {"auto": None, "fast": Tier.FAST, "deep": Tier.DEEP}


class ModelNames:
    """Exact names first (tiers, targets, the config's own), then the config's patterns in their order."""

    def __init__(self, models: Mapping[str, str], targets: tuple[str, ...]) -> None:
        self._targets = targets
        self._exact = {
            name: self._alias(name, meaning, is_pattern=False) for name, meaning in models.items() if "*" not in name
        }
        self._exact.update({name: Alias(name, target=name) for name in targets})
        self._exact.update({name: Alias(name, tier=tier) for name, tier in _TIERS.items()})
        self._patterns = [(name, meaning) for name, meaning in models.items() if "*" in name]
        self._models = models

    def resolve(self, name: str) -> Alias:
        """What a name means. Raises `UnknownModel` with the names that are known."""
        alias = self._exact.get(name) or self._exact.get(name.lower())
        if alias is not None:
            return alias
        for pattern, meaning in self._patterns:
            if fnmatchcase(name, pattern) or fnmatchcase(name.lower(), pattern):
                return self._alias(name, meaning, is_pattern=True)
        known = ", ".join(self.listed())
        patterns = ", ".join(pattern for pattern, _ in self._patterns)
        hint = f", or a name that matches {patterns}" if patterns else ""
        raise UnknownModel(f'model: unknown model "{name[:80]}". Known: {known}{hint}', param="model")

    def listed(self) -> tuple[str, ...]:
        """The names to show in a list of models: the tiers, the config's exact names, the targets."""
        return tuple(
            dict.fromkeys(("auto", "fast", "deep", *(name for name in self._models if "*" not in name), *self._targets))
        )

    def _alias(self, name: str, meaning: str, *, is_pattern: bool) -> Alias:
        if meaning in _TIERS:
            return Alias(name, tier=_TIERS[meaning], is_pattern=is_pattern)
        return Alias(name, target=meaning, is_pattern=is_pattern)
