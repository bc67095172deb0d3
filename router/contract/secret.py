"""Secrets as references: read late, shown never."""

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field

from pydantic_core import core_schema

ENVIRONMENT = "env:"
CALLER = "caller"
UPSTREAM_KEY = "x-tandem-upstream-key"
ROUTER_KEY = "x-tandem-key"
"""The router's own key, from clients whose `authorization` is a login for a target."""
_withheld: dict[str, str] = {}
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
OWN_PREFIX = "tdm_"
_OWN_KEY = re.compile(rf"({OWN_PREFIX}[0-9a-f]{{8}}_)[a-z0-9_-]+", re.IGNORECASE)
_MIXED = re.compile(r"(?=.*[a-z])(?=.*[0-9]).{20,}")
"""Looks like a key, unlike names of variables."""


@dataclass(frozen=True, slots=True)
class Secret:
    """A key: a reference (`env:NAME`), `caller` or literal. People paste keys after `env:`: only names are printed."""

    source: str
    kept: str = field(default="", compare=False)
    """The variable's value in the file next to the config. The environment takes precedence."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: object) -> core_schema.CoreSchema:
        return core_schema.no_info_after_validator_function(cls, core_schema.str_schema())

    @property
    def is_reference(self) -> bool:
        return self.source.startswith(ENVIRONMENT)

    @property
    def is_callers(self) -> bool:
        return self.source == CALLER

    @property
    def variable(self) -> str:
        return self.source.removeprefix(ENVIRONMENT) if self.is_reference else ""

    @property
    def is_misplaced(self) -> bool:
        """Whether the text after `env:` looks like a key, or cannot be a variable's name."""
        name = self.variable
        return self.is_reference and (_VARIABLE.fullmatch(name) is None or _MIXED.fullmatch(name) is not None)

    def reveal(self) -> str:
        """The key without a file's last line break; empty if only a request has it."""
        if self.is_reference:
            return self._read_variable().strip()
        return "" if self.is_callers else self.source

    @property
    def is_padded(self) -> bool:
        """Whether the variable has spaces or line breaks around the key."""
        return self.is_reference and self._read_variable() != self.reveal()

    def _read_variable(self) -> str:
        return self._read_environment() or self.kept

    def _read_environment(self) -> str:
        return os.environ.get(self.variable) or _withheld.get(self.variable, "")

    @property
    def is_from_file(self) -> bool:
        return self.is_reference and bool(self.kept) and not self._read_environment()

    def __repr__(self) -> str:
        if self.is_misplaced:
            return f"{ENVIRONMENT}***"
        return self.source if self.is_reference or self.is_callers else "***"

    __str__ = __repr__


def looks_like_key(text: str) -> bool:
    """Whether a value looks like a key, alone or after a scheme."""
    return any(_MIXED.fullmatch(word) for word in text.split())


def mask_keys(text: str) -> str:
    """Mask callers' keys, which people put anywhere. A key's id may be seen."""
    return _OWN_KEY.sub(r"\1***", text) if OWN_PREFIX in text.lower() else text


def withhold_variables(is_denied: Callable[[str], bool]) -> None:
    """Hide variables from libraries. A `Secret` still finds them."""
    for name in [name for name in os.environ if is_denied(name)]:
        _withheld[name] = os.environ[name]  # first: another thread may be reading it
        del os.environ[name]


def release_variables(is_allowed: Callable[[str], bool]) -> None:
    """Give withheld variables back, unless they were set again."""
    for name in [name for name in _withheld if is_allowed(name)]:
        os.environ.setdefault(name, _withheld[name])
        del _withheld[name]  # from here on the environment alone says whether it is set
