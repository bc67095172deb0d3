"""Settings of older releases that are gone or renamed. A router refuses most of them; `tandem check --fix` rewrites all."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from router.contract.words import Preference

Steps = tuple[str | int, ...]
"""The way to a setting through blocks and lists."""


class Gone(NamedTuple):
    problem: str
    cure: str
    is_ignored: bool = False
    """Accepted with a warning."""
    new_name: str = ""
    """In the same block. The value counts under this name, unless that is set too."""


def _renamed(new_name: str) -> Gone:
    cure = "the old name goes with the next release (tandem check --fix rewrites it)"
    return Gone(f"this setting is now called {new_name}", cure, is_ignored=True, new_name=new_name)


_BOUND = Gone(
    "is no longer used: a growing turn is weighed again as it runs",
    "remove it; failure_seconds (default 120) decides how soon such turns move up: a larger number, sooner",
)
_REDO_FACTOR = "decision.redo_factor"
GONE = {
    _REDO_FACTOR: Gone(
        "has been replaced: `preference` alone now sets what a wrong first answer costs",
        "remove it, and choose the nearest `preference`: speed was 1.5, balanced 3, quality 6",
    ),
    **{f"policies.boundary.{name}_to_move": _BOUND for name in ("edits", "files", "written_tokens", "calls")},
    "policies.trajectory.correction_log_odds": Gone(
        "is no longer used: the policy `learned` reads complaints, and weighs them with the rest of the words", "remove it"
    ),
    "delegation.note": Gone(
        "this setting is gone, so remove it",
        "answers name the ended jobs of their session in x-tandem-jobs, and `tandem jobs list` shows them",
        is_ignored=True,
    ),
    "ledger.keep_places": _renamed("keep_word_hashes"),
    "shared.when_blind": _renamed("on_store_outage"),
}
_FACTORS = {Preference.SPEED: 1.5, Preference.BALANCED: 3.0, Preference.QUALITY: 6.0}
"""What `preference` picked from where `redo_factor` did not say otherwise."""


def find_gone(steps: Sequence[str | int]) -> Gone | None:
    return GONE.get(_name(steps))


def list_gone(content: Mapping[str, object]) -> Iterator[Steps]:
    """Every setting of a file that is gone or renamed."""
    for steps in _walk(content, ()):
        if find_gone(steps) is not None:
            yield steps


def list_ignored(content: Mapping[str, object]) -> dict[Steps, Gone]:
    return {steps: gone for steps in list_gone(content) if (gone := find_gone(steps)) is not None and gone.is_ignored}


def find_preference(content: Mapping[str, object]) -> Preference | None:
    """The preference nearest to the `redo_factor` of a file, if that is not the one it has."""
    decision, stated = content.get("decision"), content.get("preference")
    written = decision.get("redo_factor") if isinstance(decision, dict) else None
    preference = Preference(stated) if isinstance(stated, str) and stated in tuple(Preference) else Preference.BALANCED
    factor = written.get(str(preference)) if isinstance(written, dict) else written
    if not isinstance(factor, int | float) or factor <= 0:
        return None
    nearest = min(_FACTORS, key=lambda one: abs(math.log(factor / _FACTORS[one])))
    return nearest if nearest is not preference else None


def _walk(node: object, way: Steps) -> Iterator[Steps]:
    inner = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for step, value in inner:
        if isinstance(step, str | int):
            yield (*way, step)
            yield from _walk(value, (*way, step))


def _name(steps: Sequence[str | int]) -> str:
    return ".".join(step for step in steps if isinstance(step, str))
