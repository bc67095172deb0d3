"""Faults of a config, the names it may use, and checking one block of it."""

import difflib
import functools
import importlib.util
import inspect
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, get_args

from pydantic import BaseModel, ValidationError

from router.config.models import Config
from router.contract.opinions import PolicyConfig
from router.contract.relay import Adapter

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
"""The checker's kinds of error in words that a person can act on. Its own speak of Python: tuples, dictionaries, instances."""
_RULE = re.compile(r"(?:^|\.)rules\[(\d+)\]")


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing wrong, where it is, and what would be right."""

    path: str
    problem: str
    hint: str = ""

    @property
    def place(self) -> str:
        """The path, and the number of a rule as explanations count it: from 1, where a path counts from 0."""
        rule = _RULE.search(self.path)
        return f"{self.path} (rule {int(rule.group(1)) + 1})" if rule else self.path

    def __str__(self) -> str:
        return f"{self.place}: {self.problem}" + (f"\n  hint: {self.hint}" if self.hint else "")


KnownAdapter: TypeAlias = type[Adapter]
"""An adapter as the config knows it: by what its class declares. The config imports none of them."""


def missing_extra(adapter: KnownAdapter) -> str:
    """The extra that must be installed before an adapter; empty for none. Looking for a library does not import it."""
    return adapter.library if adapter.library and importlib.util.find_spec(adapter.library) is None else ""


def how_to_install(extra: str) -> str:
    """The command that brings an extra: of the locked versions in a checkout, of the package elsewhere."""
    is_checkout = (Path(__file__).parents[2] / "requirements" / f"{extra}.txt").is_file()
    return f"make setup-{extra}" if is_checkout else f"pip install 'tandem-router[{extra}]'"


@dataclass(frozen=True, slots=True)
class Known:
    """The names that a config may use."""

    policies: Mapping[str, type[PolicyConfig]]
    adapters: Mapping[str, KnownAdapter]
    clients: tuple[str, ...] = ()
    """The clients that are recognised."""


def as_fault(entry: Any, prefix: str = "", model: type[BaseModel] = Config) -> Fault:
    """A fault from one of pydantic's error records. `model` says which names a typo may have meant."""
    path = _write_path(entry["loc"], prefix)
    kind, seen = entry["type"], entry.get("input")
    if kind == "extra_forbidden":
        near = close_to(str(entry["loc"][-1]), _setting_names(model))
        known = _names_at(model, entry["loc"][:-1])
        return Fault(path, "no such setting", f"{near}known here: {', '.join(known)}" if known else near.strip())
    if kind == "missing":
        return Fault(path, "missing")
    if kind == "too_short" and entry["loc"][-1] == "targets":
        return Fault(path, "needs a target", "tandem init writes targets for the keys and local servers that it finds")
    if kind == "value_error":
        return Fault(path, entry["msg"].removeprefix("Value error, "))
    if seen is None:
        return Fault(path, "has no value", "give it one, or remove the line")
    return Fault(path, _word(kind, entry) + _show(seen, path))


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
    """The value as the file has it, unless it is long, or may be a secret."""
    if not isinstance(seen, (str, int, float)) or "key" in path or "url" in path:
        return ""
    shown = str(seen).lower() if isinstance(seen, bool) else repr(seen)
    return f", not {shown}" if shown != "''" and len(shown) <= _MAX_SHOWN_CHARS else ""


def _names_at(model: type[BaseModel], steps: Iterable[str | int]) -> tuple[str, ...]:
    """The settings of the block that a path leads to; none where a path leads through names of the user's own."""
    for step in steps:
        if isinstance(step, str):
            field = model.model_fields.get(step)
            inner = _inner_model(field.annotation) if field else None
            if inner is None:
                return ()
            model = inner
    return tuple(model.model_fields)


def _inner_model(annotation: Any) -> type[BaseModel] | None:
    """The class of settings in an annotation such as `tuple[TargetSettings, ...] | None`."""
    if inspect.isclass(annotation) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for part in get_args(annotation) if (found := _inner_model(part))), None)


@functools.cache
def _setting_names(model: type[BaseModel]) -> set[str]:
    """Every name that a setting has, at any depth: enough to guess what a typo meant."""
    names = set(model.model_fields)
    for field in model.model_fields.values():
        if inner := _inner_model(field.annotation):
            names |= _setting_names(inner)
    return names


def close_to(name: str, known: Iterable[str]) -> str:
    """A hint for a typo."""
    found = difflib.get_close_matches(name, list(known), n=1)
    return f"did you mean {found[0]}? " if found else ""


def check_block(model: type[BaseModel], content: object, path: str, faults: list[Fault]) -> BaseModel | None:
    """Check one block against its own class. A place that has a fault already gets no second one."""
    try:
        return model.model_validate(content or {})
    except ValidationError as error:
        faulty = {fault.path for fault in faults}
        found = [as_fault(entry, path, model) for entry in error.errors()]
        faults.extend(fault for fault in found if fault.path not in faulty)
        return None
