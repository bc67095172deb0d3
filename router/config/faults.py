"""Faults of a config, the names it may use, and checking one block."""

import copy
import difflib
import functools
import importlib.util
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from msgspec import Struct
from pydantic import BaseModel, ValidationError

from router.config.models import MAX_RULES, Config
from router.config.settings import fields_of, inner_block
from router.contract.opinions import Policy, PolicyConfig
from router.contract.relay import Adapter
from router.contract.words import Tier

_MAY_BE_SECRET = ("key", "url", "headers", "query", "secret")
_MAX_SHOWN_CHARS = 60
_WORDS = {
    **dict.fromkeys(("bool_parsing", "bool_type"), "must be true or false"),
    **dict.fromkeys(("int_parsing", "int_type", "int_from_float", "int_parsing_size"), "must be a whole number"),
    **dict.fromkeys(("float_parsing", "float_type", "finite_number"), "must be a number"),
    **dict.fromkeys(("string_type", "invalid_key"), "must be text"),
    **dict.fromkeys(("tuple_type", "list_type"), "must be a list"),
    **dict.fromkeys(("dict_type", "model_type", "model_attributes_type"), "must be a block of settings"),
    **dict.fromkeys(("literal_error", "enum"), "must be {expected}"),
    "greater_than": "must be more than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
    "string_too_short": "must not be empty",
    "string_too_long": "must have at most {max_length} characters",
    "too_short": "must not be empty",
    "too_long": "must have at most {max_length} entries",
}
"""Pydantic's own words speak of tuples and instances."""
_WITH_UNIT = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]+)\s*")
_UNITS = {
    "ms": 0.001,
    "s": 1,
    "sec": 1,
    "seconds": 1,
    "min": 60,
    "h": 3_600,
    "k": 1_000,
    "kb": 1_024,
    "kib": 1_024,
    "mb": 1 << 20,
    "mib": 1 << 20,
    "gb": 1 << 30,
    "gib": 1 << 30,
}
_ALIKE = 0.6
STAND_IN = "stand-in"
"""Names a target without a usable name while the rest is checked."""
_RULE = re.compile(r"(?:^|\.)rules\[(\d+)\]")


class Fault(Struct, frozen=True):
    path: str
    problem: str
    hint: str = ""

    @property
    def place(self) -> str:
        """For a rule also its number from 1, as explanations count."""
        rule = _RULE.search(self.path)
        return f"{self.path} (rule {int(rule.group(1)) + 1})" if rule else self.path

    def __str__(self) -> str:
        return f"{self.place}: {self.problem}" + (f"\n  hint: {self.hint}" if self.hint else "")


class ConfigError(Exception):
    """The config cannot be used. Holds every fault."""

    def __init__(self, source: str, faults: list[Fault], content: Mapping[str, object] | None = None) -> None:
        super().__init__("\n".join([f"{source}: {len(faults)} problem{'s' if len(faults) != 1 else ''}", *map(str, faults)]))
        self.source = source
        self.faults = faults
        self.content = content or {}
        """The parsed file if readable, for checks elsewhere."""


KnownAdapter: TypeAlias = type[Adapter]
"""An adapter by what its class declares: the config imports none."""


def missing_extra(adapter: KnownAdapter) -> str:
    """The uninstalled extra that an adapter needs, found without importing the library."""
    return adapter.library if adapter.library and importlib.util.find_spec(adapter.library) is None else ""


class Known(Struct, frozen=True):
    policies: Mapping[str, type[PolicyConfig]]
    adapters: Mapping[str, KnownAdapter]
    clients: tuple[str, ...] = ()
    open_policy: Callable[..., type[Policy]] | None = None
    """Opens a policy of the operator's own; None where none may be used."""
    needs_keys: bool = True
    """Whether an unset variable is a fault. It is not for commands that call no target: the router may have it."""


def as_fault(entry: Any, prefix: str = "", model: type[BaseModel] = Config) -> Fault:
    """`model` has the names that a typo may have meant."""
    path = _write_path(entry["loc"], prefix)
    kind, seen = entry["type"], entry.get("input")
    if fault := _explain_form(path, kind, entry["loc"], seen):
        return fault
    if kind == "extra_forbidden":
        name, known = str(entry["loc"][-1]), _names_at(model, entry["loc"][:-1])
        near = close_to(name, known) or close_to(name, _setting_names(model))
        return Fault(path, "no such setting", f"{near}known here: {', '.join(known)}" if known else near.strip())
    if kind == "missing":
        return Fault(path, "missing")
    if kind == "value_error":
        return Fault(path, entry["msg"].removeprefix("Value error, "))
    if seen is None:
        return Fault(path, "has no value", "give it one, or remove the line")
    return Fault(path, _word(kind, entry) + _show(seen, path), _without_unit(path, seen))


def _explain_form(path: str, kind: str, place: tuple[str | int, ...], seen: object) -> Fault | None:
    """Structural mistakes with one likely cause, reported instead of their consequences."""
    last = place[-1] if place else ""
    if place == ("tiers",) and (seen is None or kind == "missing"):
        return Fault(path, "needs fast and deep", "tandem init writes both")
    if place in (("tiers", "fast"), ("tiers", "deep")) and (seen is None or kind == "missing"):
        return Fault(path, "missing", "one model may serve both tiers: list it under fast and under deep, by two names")
    if kind == "extra_forbidden" and place[:1] == ("tiers",) and len(place) > 2 and last in ("fast", "deep"):
        return Fault(path, "is indented too far", f"move {last} and its block to the left, below tiers")
    if last == "targets" and (kind == "too_short" or seen is None):
        return Fault(path, "needs a target", "tandem init writes targets for the keys and local servers that it finds")
    if place == ("rules",) and kind == "too_long" and isinstance(seen, list | tuple):
        hint = "list the phrases of rules for one tier in the words of one rule; for more, write a policy of your own (- file:)"
        return Fault(path, f"has {len(seen)} entries, and at most {MAX_RULES} are allowed", hint)
    if last == "targets" and isinstance(seen, dict):
        return Fault(path, "must be a list of targets", 'begin each target with "- "')
    if last == "[key]" and isinstance(seen, (int, float)):
        hint = f'put the name in quotes, as in "{seen}"'
        return Fault(_write_path(place[:-2], ""), f"a name is read as {seen} and not as text", hint)
    return None


def _without_unit(path: str, seen: object) -> str:
    """A hint for a number with a unit: `10s`, `20MB`, `128k`."""
    found = _WITH_UNIT.fullmatch(seen) if isinstance(seen, str) else None
    factor = _UNITS.get((found[2] if found else "").lower())
    if found is None or factor is None:
        return ""
    number = f"{float(found[1]) * factor:g}" if factor < 1_000 else f"{int(float(found[1]) * factor)}"
    unit = next((name for name in ("seconds", "bytes", "tokens", "minutes") if path.endswith(f"_{name}")), "")
    if unit == "minutes":
        return "write the number of minutes alone"
    return f"in {unit}, as a number alone: {number}" if unit else f"as a number alone: {number}"


def _word(kind: str, entry: Any) -> str:
    if kind not in _WORDS:
        return str(entry["msg"]).replace("Input should", "must")
    bounds = {
        name: int(value) if isinstance(value, float) and value.is_integer() else value
        for name, value in entry.get("ctx", {}).items()
    }
    return _WORDS[kind].format(**bounds)


def _write_path(steps: Iterable[str | int], prefix: str) -> str:
    written = [f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps if step != "[key]"]
    return (prefix + "".join(written)).lstrip(".") or "file"


def _show(seen: object, path: str) -> str:
    """Nothing if it is long or may be secret."""
    if not isinstance(seen, (str, int, float)) or any(word in path for word in _MAY_BE_SECRET):
        return ""
    shown = str(seen).lower() if isinstance(seen, bool) else repr(seen)
    return f", not {shown}" if shown != "''" and len(shown) <= _MAX_SHOWN_CHARS else ""


def _names_at(kind: type, steps: Iterable[str | int]) -> tuple[str, ...]:
    """Empty if the path contains the user's own names."""
    for step in steps:
        if isinstance(step, str):
            field = fields_of(kind).get(step)
            inner = inner_block(field) if field else None
            if inner is None:
                return ()
            kind = inner
    return tuple(fields_of(kind))


@functools.cache
def _setting_names(kind: type) -> set[str]:
    inner = filter(None, map(inner_block, fields_of(kind).values()))
    return set(fields_of(kind)).union(*map(_setting_names, inner))


def close_to(name: str, known: Iterable[str]) -> str:
    others, words = [other for other in known if other != name], set(name.split("_"))
    found = [near for near in difflib.get_close_matches(name, others) if _is_typo(name, near)]
    found += [other for other in others if words <= set(other.split("_"))]
    return f"did you mean {found[0]}? " if found else ""


def _is_typo(name: str, known: str) -> bool:
    """Whether two names are alike without the words that they share: `correction_log_odds` is not `red_log_odds`."""
    ours, theirs = name.split("_"), known.split("_")
    own, other = ([word for word in words if word not in shared] for words, shared in ((ours, theirs), (theirs, ours)))
    return difflib.SequenceMatcher(None, "_".join(own), "_".join(other)).ratio() >= _ALIKE or not (own and other)


def check_block(model: type[BaseModel], content: object, path: str, faults: list[Fault]) -> BaseModel | None:
    """A path gets one fault at most."""
    try:
        return model.model_validate(content or {})
    except ValidationError as error:
        faulty = {fault.path for fault in faults}
        found = [as_fault(entry, path, model) for entry in error.errors()]
        faults.extend(fault for fault in found if fault.path not in faulty)
        return None


def leave_out_consequences(entries: list[Any]) -> list[Any]:
    """Drop faults that follow from others: a list that is empty because its entry is wrong."""
    places = [entry["loc"] for entry in entries]
    return [
        entry
        for entry in entries
        if entry["type"] != "too_short"
        or not any(len(place) > len(entry["loc"]) and place[: len(entry["loc"])] == entry["loc"] for place in places)
    ]


def repair(content: Mapping[str, object], entries: list[Any]) -> Any:
    """A file without its faulty settings, with stand-ins for unusable targets and lists of them."""
    whole: Any = copy.deepcopy(dict(content))
    for entry in entries:
        steps = [step for step in entry["loc"] if step != "[key]"]
        if steps[:1] == ["tiers"] and len(steps) > 3 and steps[2] == "targets":
            parent, steps = whole["tiers"][steps[1]]["targets"], steps[3:]
            if not isinstance(parent[steps[0]], dict) or steps[1:] == ["name"]:
                parent[steps[0]] = {**(parent[steps[0]] if steps[1:] else {"adapter": "simulated"}), "name": STAND_IN}
                continue
            parent, steps = parent[steps[0]], steps[1:]
        else:
            parent = whole
        if entry["type"] == "missing":
            steps = steps[:-1]
        _remove(parent, steps[:1] if any(isinstance(step, int) for step in steps) else steps)
    tiers = whole["tiers"] if isinstance(whole.get("tiers"), dict) else {}
    stand_in = {"targets": [{"name": STAND_IN, "adapter": "simulated"}]}
    whole["tiers"] = {tier: tiers.get(tier) if _has_targets(tiers.get(tier)) else stand_in for tier in map(str, Tier)}
    return whole


def _remove(block: Any, steps: Sequence[str | int]) -> None:
    for step in steps[:-1]:
        block = block.get(step) if isinstance(block, dict) else None
    if isinstance(block, dict) and steps:
        block.pop(steps[-1], None)


def _has_targets(tier: Any) -> bool:
    return isinstance(tier, dict) and isinstance(tier.get("targets"), list) and bool(tier["targets"])
