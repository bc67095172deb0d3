"""Secrets as references: read late, shown never."""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pydantic_core import core_schema

from router.contract.words import Dialect

ENVIRONMENT = "env:"
CALLER = "caller"
UPSTREAM_KEY = "x-tandem-upstream-key"
_withheld: dict[str, str] = {}
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
OWN_PREFIX = "tdm_"
"""How the keys begin that this router gives to callers."""
_OWN_KEY = re.compile(rf"({OWN_PREFIX}[0-9a-f]{{8}}_)[a-z0-9_-]+", re.IGNORECASE)
_MIXED = re.compile(r"(?=.*[a-z])(?=.*[0-9]).{20,}")
"""As keys look, and names of variables do not."""


@dataclass(frozen=True, slots=True)
class Secret:
    """A key: by reference (`env:NAME`), the caller's own (`caller`) or, against advice, literal.

    Prints as its reference, or as `***`. What follows `env:` is shown only where it can be a variable's name: people paste keys
    there.
    """

    source: str
    kept: str = field(default="", compare=False)
    """The value that a file next to the config has for its variable. The environment's own counts before it."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: object) -> core_schema.CoreSchema:
        """A setting that is text in the file."""
        return core_schema.no_info_after_validator_function(cls, core_schema.str_schema())

    @property
    def is_reference(self) -> bool:
        return self.source.startswith(ENVIRONMENT)

    @property
    def is_callers(self) -> bool:
        return self.source == CALLER

    @property
    def variable(self) -> str:
        """The environment variable that holds it; empty for a literal one."""
        return self.source.removeprefix(ENVIRONMENT) if self.is_reference else ""

    @property
    def is_misplaced(self) -> bool:
        """Whether what follows `env:` looks like a key, or can be no variable's name."""
        name = self.variable
        return self.is_reference and (_VARIABLE.fullmatch(name) is None or _MIXED.fullmatch(name) is not None)

    def reveal(self) -> str:
        """The key itself, for the moment at which it goes into a header. Empty where only a request can tell it.

        A variable is often read from a file, whose last line break is not part of the key.
        """
        if self.is_reference:
            return self._read_variable().strip()
        return "" if self.is_callers else self.source

    @property
    def is_padded(self) -> bool:
        """Whether its variable holds more than the key: spaces or a line break around it."""
        return self.is_reference and self._read_variable() != self.reveal()

    def _read_variable(self) -> str:
        return self._read_environment() or self.kept

    def _read_environment(self) -> str:
        return os.environ.get(self.variable) or _withheld.get(self.variable, "")

    @property
    def is_from_file(self) -> bool:
        """Whether its value comes out of the file next to the config."""
        return self.is_reference and bool(self.kept) and not self._read_environment()

    def __repr__(self) -> str:
        if self.is_misplaced:
            return f"{ENVIRONMENT}***"
        return self.source if self.is_reference or self.is_callers else "***"

    __str__ = __repr__


def looks_like_key(text: str) -> bool:
    """Whether a value that nobody called a key looks like one, alone or after the name of a scheme."""
    return any(_MIXED.fullmatch(word) for word in text.split())


def mask_keys(text: str) -> str:
    """A text without the secrets of callers' keys, which people put where they do not belong. A key's id may be seen."""
    return _OWN_KEY.sub(r"\1***", text) if OWN_PREFIX in text.lower() else text


def read_callers_key(headers: Mapping[str, str], dialect: Dialect) -> str:
    """The caller's own credential: the header that is meant for it, else what its client sends anyway. Empty for none.

    Of two, the one that the dialect's own API calls the key: with `x-api-key` next to it, a bearer is a gateway's token.
    """
    scheme, _, token = headers.get("authorization", "").strip().partition(" ")
    bearer = token.strip() if scheme.lower() == "bearer" else ""
    key = headers.get("x-api-key", "").strip()
    sent = key or bearer if dialect is Dialect.MESSAGES else bearer or key
    return headers.get(UPSTREAM_KEY, "").strip() or sent


def withhold_variables(is_denied: Callable[[str], bool]) -> None:
    """Take variables out of this process's environment, so that no library finds them there. A `Secret` still does."""
    for name in [name for name in os.environ if is_denied(name)]:
        _withheld[name] = os.environ[name]  # kept first: another thread may ask for it at this moment
        del os.environ[name]


def release_variables(is_allowed: Callable[[str], bool]) -> None:
    """Give withheld variables back to the environment. One that was set again since then stays as it is."""
    for name in [name for name in _withheld if is_allowed(name)]:
        os.environ.setdefault(name, _withheld[name])
        del _withheld[name]  # once it is there again, the environment alone says whether it is set
