"""What can still be read of a config that is not well formed, so that its other faults are found in the same round."""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from router.config.target_settings import TargetSettings
from router.config.targets import TargetBlock
from router.contract.words import Tier


def salvage_targets(content: Mapping[str, object], tier: Tier) -> list[TargetBlock]:
    """The targets of a tier, without those of their settings that are not well formed. A nameless one has an empty name."""
    tiers = content.get("tiers")
    block = tiers.get(str(tier)) if isinstance(tiers, dict) else None
    targets = block.get("targets") if isinstance(block, dict) else None
    blocks = enumerate(targets if isinstance(targets, list) else [])
    return [TargetBlock(tier, index, _salvage(target)) for index, target in blocks if isinstance(target, dict)]


def salvage_text(content: Mapping[str, object], block: str, name: str) -> str | None:
    """A setting of a block, where that has one that is text."""
    settings = content.get(block)
    value = settings.get(name) if isinstance(settings, dict) else None
    return value if isinstance(value, str) else None


def _salvage(target: dict[str, Any]) -> TargetSettings:
    try:
        return TargetSettings.model_validate(target)
    except ValidationError as error:
        wrong = {entry["loc"][0] for entry in error.errors()}
    rest = {name: value for name, value in target.items() if name not in wrong}
    checked = TargetSettings.model_validate({"name": "nameless", **rest})
    stated = {name: getattr(checked, name) for name in checked.model_fields_set if name in rest}
    return TargetSettings.model_construct(**{"name": "", **stated})
