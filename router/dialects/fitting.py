"""What a body must change to fit a target of its own dialect: as little as can be, since every other byte goes as it came."""

from collections.abc import Mapping
from typing import NamedTuple

from router.contract.request import Json, JsonObject, RequestView
from router.contract.target import Target
from router.contract.words import Dialect, Feature
from router.dialects.bridge.quirks import ORDINARY, Quirks
from router.dialects.bridge.seal import is_sealed
from router.dialects.compose.responses import OUR_REASONING
from router.dialects.fields import as_list, as_object, as_text
from router.dialects.opaque import LISTS, without_foreign

_ENCRYPTED = "reasoning.encrypted_content"
_REASONING_FIELDS: dict[Dialect, tuple[str, ...]] = {
    Dialect.CHAT: ("reasoning_effort", "reasoning"),
    Dialect.COMPLETIONS: (),
    Dialect.RESPONSES: ("reasoning",),
    Dialect.MESSAGES: ("thinking", "context_management"),
}
_EFFORT_HOLDERS = {Dialect.RESPONSES: "reasoning", Dialect.MESSAGES: "output_config"}
_FOREIGN = "reasoning of another target"
_SEAL_MARKS = (b"tandem~", OUR_REASONING.encode())


class Fit(NamedTuple):
    """How requests are made to fit one target: its host's ways, the config's words for effort, the tier's own instructions."""

    quirks: Quirks = ORDINARY
    efforts: Mapping[str, str] = {}
    instructions: str = ""


def fields_to_change(view: RequestView, target: Target, fit: Fit) -> tuple[JsonObject, tuple[str, ...]]:
    """The fields that differ for this target, each with what it becomes (None means that it goes), and what is thereby lost."""
    changes: JsonObject = {}
    if Feature.REASONING in view.needs and Feature.REASONING not in target.accepts:
        _drop_reasoning(view, changes)
    lost = list(changes)
    quirks = fit.quirks
    if quirks is not ORDINARY:
        for name in view.body.keys() & quirks.refuses:
            changes[name] = None
            lost.append(name)
        if view.dialect is Dialect.CHAT:
            _rename_limit(view.body, quirks, changes)
    effort = fit.efforts.get(view.effort or "") or quirks.efforts.get(view.effort or "")
    if effort:
        _map_effort(view, effort, changes)
    if view.origins:
        kept = without_foreign(view, target.name)
        if kept is not None:
            changes[LISTS[view.dialect]] = kept
            lost.append(_FOREIGN)
    if _may_hold_seals(view) and _drop_sealed(view, changes):
        lost.append(_FOREIGN)
    if fit.instructions:
        _add_instructions(view, fit.instructions, changes)
    return changes, tuple(dict.fromkeys(lost))


def _drop_reasoning(view: RequestView, changes: JsonObject) -> None:
    for name in _REASONING_FIELDS[view.dialect]:
        if name in view.body:
            changes[name] = None
    output = view.body.get("output_config")
    if isinstance(output, dict) and "effort" in output:
        changes["output_config"] = {key: value for key, value in output.items() if key != "effort"} or None
    include = view.body.get("include")
    if isinstance(include, list) and _ENCRYPTED in include:
        changes["include"] = [value for value in include if value != _ENCRYPTED] or None


def _rename_limit(body: JsonObject, quirks: Quirks, changes: JsonObject) -> None:
    other = "max_tokens" if quirks.limit_field != "max_tokens" else "max_completion_tokens"
    if body.get(other) is not None:
        changes[other] = None
        if body.get(quirks.limit_field) is None:
            changes[quirks.limit_field] = body[other]


def _map_effort(view: RequestView, effort: str, changes: JsonObject) -> None:
    holder = _EFFORT_HOLDERS.get(view.dialect)
    if holder is None:
        if "reasoning_effort" in view.body and "reasoning_effort" not in changes:
            changes["reasoning_effort"] = effort
    elif holder not in changes and "effort" in as_object(view.body.get(holder)):
        changes[holder] = {**as_object(view.body.get(holder)), "effort": effort}


def _may_hold_seals(view: RequestView) -> bool:
    return view.dialect in (Dialect.RESPONSES, Dialect.MESSAGES) and any(mark in view.raw for mark in _SEAL_MARKS)


def _drop_sealed(view: RequestView, changes: JsonObject) -> bool:
    """Leave out reasoning of targets that were reached over a bridge: this one did not write it, and would refuse it."""
    name = "input" if view.dialect is Dialect.RESPONSES else "messages"
    items = as_list(changes.get(name) or view.body.get(name))
    if view.dialect is Dialect.RESPONSES:
        kept: list[Json] = [item for item in items if not _is_our_reasoning(as_object(item))]
    else:
        kept = [message for item in items if (message := _without_sealed(item)) is not None]
    if kept == items:
        return False
    changes[name] = kept
    return True


def _without_sealed(message: Json) -> Json:
    """A message without sealed thinking; None when it was nothing else, since an empty one is refused."""
    content = as_object(message).get("content")
    if not isinstance(content, list):
        return message
    kept = [block for block in content if not is_sealed(as_text(as_object(block).get("signature")))]
    if len(kept) == len(content):
        return message
    return {**as_object(message), "content": kept} if kept else None


def _is_our_reasoning(item: JsonObject) -> bool:
    return item.get("type") == "reasoning" and (
        as_text(item.get("id")).startswith(OUR_REASONING) or is_sealed(as_text(item.get("encrypted_content")))
    )


def _add_instructions(view: RequestView, text: str, changes: JsonObject) -> None:
    """Put a tier's instructions at the end of the system prompt: always the same place, so that prefixes stay equal."""
    body = view.body
    match view.dialect:
        case Dialect.RESPONSES:
            given = as_text(body.get("instructions"))
            changes["instructions"] = f"{given}\n\n{text}" if given else text
        case Dialect.MESSAGES:
            system = body.get("system")
            blocks: list[Json] = [{"type": "text", "text": system}] if isinstance(system, str) else list(as_list(system))
            changes["system"] = [*blocks, {"type": "text", "text": text}]
        case Dialect.CHAT:
            messages = list(as_list(changes.get("messages") or body.get("messages")))
            place = 1 if messages and as_object(messages[0]).get("role") in ("system", "developer") else 0
            role = as_object(messages[0]).get("role") if place else "system"
            changes["messages"] = [*messages[:place], {"role": role, "content": text}, *messages[place:]]
        case Dialect.COMPLETIONS:
            pass
