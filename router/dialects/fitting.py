"""The fewest changes that make a body fit a target of its own dialect."""

from collections.abc import Mapping
from typing import NamedTuple

from msgspec import Struct

from router.contract.request import JsonObject, RequestView
from router.contract.target import Target
from router.contract.words import Dialect, Feature
from router.dialects.cap import Cap, state_cap
from router.dialects.fields import as_list, as_object
from router.dialects.hosts import ORDINARY, Quirks
from router.dialects.marks import holds
from router.dialects.opaque import without_foreign
from router.dialects.spec import DialectSpec
from router.dialects.table import SPECS
from router.dialects.translate.envelope import MARK

_EFFORT = "reasoning_effort"
_ENCRYPTED = "reasoning.encrypted_content"
_FOREIGN = "reasoning of another target"


class Fit(NamedTuple):
    quirks: Quirks = ORDINARY
    efforts: Mapping[str, str] = {}
    instructions: str = ""
    caches_when_asked: bool = False
    """Whether it caches a prompt only up to a mark, which translated requests then need."""
    cap: Cap | None = None
    """Of one request's answer, for a caller with a budget."""


class Reasons(Struct, frozen=True):
    """What a request must contain to need any change for one target."""

    fields: frozenset[str]
    list_field: str
    """The field with the messages, if they may contain reasoning that a bridge wrapped."""

    def leave_alone(self, view: RequestView, target: Target) -> bool:
        """Whether `fields_to_change` would find nothing, as is usual."""
        return (
            self.fields.isdisjoint(view.body)
            and view.needs <= target.accepts
            and not view.origins
            and not (self.list_field and holds(view.raw, view.body.get(self.list_field), MARK))
        )


def reasons_to_change(target: Target, fit: Fit) -> Mapping[Dialect, Reasons]:
    """The reasons by dialect that a target speaks. Empty if every request changes (instructions, a cap), and for plans."""
    if fit.instructions or fit.cap is not None or target.is_plan:
        return {}
    spoken = {dialect: spec for dialect, spec in SPECS.items() if target.dialect_for(dialect) is dialect}
    return {dialect: _reasons(spec, fit) for dialect, spec in spoken.items()}


def _reasons(spec: DialectSpec, fit: Fit) -> Reasons:
    quirks, fields = fit.quirks, set(spec.unsent_fields)
    if quirks is not ORDINARY:
        fields |= quirks.refuses
        fields |= _other_limits(spec, quirks)
    if fit.efforts or quirks.efforts:
        fields.add(spec.effort_holder or _EFFORT)
    return Reasons(frozenset(fields), spec.list_field if spec.without_wrapped is not None else "")


def fields_to_change(view: RequestView, target: Target, fit: Fit) -> tuple[JsonObject, tuple[str, ...]]:
    """The fields to change for a target (None removes one), and the names of what is lost."""
    spec = SPECS[view.dialect]
    lacks_reasoning = Feature.REASONING in view.needs and Feature.REASONING not in target.accepts
    changes: JsonObject = {}
    if lacks_reasoning:
        _drop_reasoning(view.body, spec, changes)
    changes |= dict.fromkeys(view.body.keys() & spec.unsent_fields)
    lost = list(changes)
    quirks = fit.quirks
    if quirks is not ORDINARY:
        for name in view.body.keys() & quirks.refuses:
            changes[name] = None
            lost.append(name)
        _rename_limit(view.body, spec, quirks, changes)
    effort = fit.efforts.get(view.effort or "") or quirks.efforts.get(view.effort or "")
    if effort:
        _map_effort(view.body, spec, effort, changes)
    if view.origins:
        kept = without_foreign(view, target.name)
        if kept is not None:
            changes[spec.list_field] = kept
            lost.append(_FOREIGN)
    if spec.without_wrapped is not None and holds(view.raw, view.body.get(spec.list_field), MARK):
        items = as_list(changes.get(spec.list_field) or view.body.get(spec.list_field))
        kept = spec.without_wrapped(items)
        if kept != items:
            changes[spec.list_field] = kept
            lost.append(_FOREIGN)
    if fit.instructions:
        spec.add_instructions(view.body, fit.instructions, changes)
    if fit.cap is not None:
        lost += state_cap(view.body, spec.name, spec.limit_fields, quirks, fit.cap, changes)
    return changes, tuple(dict.fromkeys(lost))


def _drop_reasoning(body: JsonObject, spec: DialectSpec, changes: JsonObject) -> None:
    for name in spec.reasoning_fields:
        if name in body:
            changes[name] = None
    output = body.get("output_config")
    if isinstance(output, dict) and "effort" in output:
        changes["output_config"] = {key: value for key, value in output.items() if key != "effort"} or None
    include = body.get("include")
    if isinstance(include, list) and _ENCRYPTED in include:
        changes["include"] = [value for value in include if value != _ENCRYPTED] or None


def _other_limits(spec: DialectSpec, quirks: Quirks) -> set[str]:
    return set(spec.limit_fields) - {quirks.limit_field} if quirks.limit_field in spec.limit_fields else set()


def _rename_limit(body: JsonObject, spec: DialectSpec, quirks: Quirks, changes: JsonObject) -> None:
    taken = quirks.limit_field
    for other in _other_limits(spec, quirks):
        if body.get(other) is not None:
            changes[other] = None
            if body.get(taken) is None:
                changes[taken] = body[other]


def _map_effort(body: JsonObject, spec: DialectSpec, effort: str, changes: JsonObject) -> None:
    holder = spec.effort_holder
    if holder is None:
        if _EFFORT in body and _EFFORT not in changes:
            changes[_EFFORT] = effort
    elif holder not in changes and "effort" in as_object(body.get(holder)):
        changes[holder] = {**as_object(body.get(holder)), "effort": effort}
