"""Faults of a config, the names it may use, and checking one block of it."""

import difflib
import importlib.util
import inspect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from router.config.models import Config
from router.contract.opinions import PolicyConfig
from router.contract.relay import AdapterSettings
from router.contract.words import Dialect


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing wrong, where it is, and what would be right."""

    path: str
    problem: str
    hint: str = ""

    def __str__(self) -> str:
        return f"{self.path}: {self.problem}" + (f"\n  hint: {self.hint}" if self.hint else "")


@dataclass(frozen=True, slots=True)
class KnownAdapter:
    """What the config must know of an adapter, without importing it."""

    speaks: frozenset[Dialect]
    needs_address: bool
    settings: type[AdapterSettings]
    library: str = ""
    """Who dials for it, if that is not the router itself. An extra of the same name brings it."""

    @property
    def missing_extra(self) -> str:
        """The extra that must be installed first; empty for none. Looking for a library does not import it."""
        return self.library if self.library and importlib.util.find_spec(self.library) is None else ""


@dataclass(frozen=True, slots=True)
class Known:
    """The names that a config may use."""

    policies: Mapping[str, type[PolicyConfig]]
    adapters: Mapping[str, KnownAdapter]
    clients: tuple[str, ...] = ()
    """The clients that are recognised."""


def as_fault(entry: Any, prefix: str = "") -> Fault:  # pydantic's own error records
    steps = [f"[{step}]" if isinstance(step, int) else f".{step}" for step in entry["loc"]]
    path = (prefix + "".join(steps)).lstrip(".") or "file"
    kind, seen = entry["type"], entry.get("input")
    if kind == "extra_forbidden":
        near = close_to(str(entry["loc"][-1]), _setting_names(Config))
        return Fault(path, "no such setting", f"{near}docs/reference/config.md lists them all")
    if kind == "missing":
        return Fault(path, "missing")
    shown = f", not {seen!r}" if isinstance(seen, (str, int, float, bool)) and "key" not in path and "url" not in path else ""
    return Fault(path, f"{entry['msg'].removeprefix('Value error, ')}{shown}")


def _setting_names(model: type[BaseModel]) -> set[str]:
    """Every name that a setting has, at any depth: enough to guess what a typo meant."""
    names = set(model.model_fields)
    for field in model.model_fields.values():
        for inner in (field.annotation, *get_args(field.annotation)):
            if inspect.isclass(inner) and issubclass(inner, BaseModel):
                names |= _setting_names(inner)
    return names


def close_to(name: str, known: Iterable[str]) -> str:
    """A hint for a typo."""
    found = difflib.get_close_matches(name, list(known), n=1)
    return f"did you mean {found[0]}? " if found else ""


def check_block(model: type[BaseModel], content: object, path: str, faults: list[Fault]) -> BaseModel | None:
    try:
        return model.model_validate(content or {})
    except ValidationError as error:
        faults.extend(as_fault(entry, path) for entry in error.errors())
        return None
