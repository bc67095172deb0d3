"""Settings that older configs may have: what to write instead."""

import math
from collections.abc import Mapping
from typing import Any

from router.config.faults import Fault
from router.contract.words import Preference

_REDO_FACTOR = ("decision", "redo_factor")
_OLD_FACTORS = {Preference.SPEED: 1.5, Preference.BALANCED: 3.0, Preference.QUALITY: 6.0}
"""What `preference` picked from, where the file did not say otherwise."""

_REMOVED = {
    (
        "delegation",
        "note",
    ): "answers name the ended jobs of their session in x-tandem-jobs, and `tandem jobs` lists them",
}
"""Settings that are read and do nothing, with what there is instead."""


def warn_of_removed(content: Mapping[str, object]) -> list[str]:
    """A line for each setting of a config that no longer does anything."""
    written = [(block, name) for block, name in _REMOVED if isinstance(given := content.get(block), dict) and name in given]
    return [f"{block}.{name}: this setting is gone, so remove it; {_REMOVED[block, name]}" for block, name in written]


def find_replaced(entry: Any, content: Mapping[str, object]) -> Fault | None:
    """The fault for a setting that has been replaced, from one of pydantic's error records. None for any other."""
    if entry["type"] != "extra_forbidden" or tuple(entry["loc"]) != _REDO_FACTOR:
        return None
    stated = content.get("preference")
    preference = Preference(stated) if isinstance(stated, str) and stated in tuple(Preference) else Preference.BALANCED
    nearest = _nearest(_factor(entry.get("input"), preference))
    remove = "remove decision.redo_factor"
    if nearest is preference:
        hint = f"{remove}: `preference: {preference}` alone does the same"
    else:
        hint = f"{remove}, and write `preference: {nearest}` instead of `preference: {preference}`"
    return Fault(".".join(_REDO_FACTOR), "has been replaced: `preference` alone now sets what a wrong first answer costs", hint)


def _factor(written: object, preference: Preference) -> float:
    """The factor that was in force."""
    factor = written.get(str(preference)) if isinstance(written, dict) else written
    return float(factor) if isinstance(factor, (int, float)) and factor > 0 else _OLD_FACTORS[preference]


def _nearest(factor: float) -> Preference:
    return min(_OLD_FACTORS, key=lambda preference: abs(math.log(factor / _OLD_FACTORS[preference])))
