"""Secrets as references: read late, shown never."""

import os
from dataclasses import dataclass

ENVIRONMENT = "env:"


@dataclass(frozen=True, slots=True)
class Secret:
    """A key, by reference (`env:NAME`) or, against advice, literal. Prints as its reference or as `***`."""

    source: str

    @property
    def is_reference(self) -> bool:
        return self.source.startswith(ENVIRONMENT)

    @property
    def variable(self) -> str:
        """The environment variable that holds it; empty for a literal one."""
        return self.source.removeprefix(ENVIRONMENT) if self.is_reference else ""

    def reveal(self) -> str:
        """The key itself, for the moment at which it goes into a header."""
        return os.environ.get(self.variable, "") if self.is_reference else self.source

    def __repr__(self) -> str:
        return self.source if self.is_reference else "***"

    __str__ = __repr__
