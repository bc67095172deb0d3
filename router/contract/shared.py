"""The config of what several routers share."""

import re
from enum import StrEnum
from typing import Annotated, Self

from msgspec.structs import replace
from pydantic import AfterValidator, Field, ValidatorFunctionWrapHandler, WrapValidator

from router.contract.block import Block
from router.contract.secret import Secret

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")


class OnStoreOutage(StrEnum):
    """What a limit does while its store is away."""

    SHARE = "share"
    """Each router keeps to its part of each limit."""
    STOP = "stop"
    """Limited things are not used until the store is back."""
    OPEN = "open"
    """Each router counts alone, as if it were the only one."""


def _check_name(value: str) -> str:
    """A name that can be part of a key or row."""
    if _NAME.fullmatch(value) is None:
        raise ValueError("must have 1 to 64 letters, digits, or the characters . _ -")
    return value


Name = Annotated[str, AfterValidator(_check_name)]


def _own_name(value: object, check: ValidatorFunctionWrapHandler) -> object:
    return "" if value is None else check(value)


class _StoreTerms(Block, frozen=True):
    url: Secret
    timeout_ms: int

    @property
    def timeout_seconds(self) -> float:
        return self.timeout_ms / 1_000

    def waiting(self, seconds: float) -> Self:
        """Terms for a command that may take at least this long."""
        return replace(self, timeout_ms=max(self.timeout_ms, round(seconds * 1_000)))


class ValkeyTerms(_StoreTerms, frozen=True):
    """A Valkey or Redis server for what routers share from one moment to the next. Needs the extra `shared`."""

    url: Secret
    """As env:NAME: redis://user:password@host:6379/0, rediss://… for TLS, unix:///path."""
    timeout_ms: Annotated[int, Field(ge=20, le=10_000)] = 250
    """For a command; then it counts as unavailable."""
    prefix: Name = "tandem"
    """Of keys and channels."""


class PostgresTerms(_StoreTerms, frozen=True):
    """A PostgreSQL database for what routers share for good. Needs the extra `shared`."""

    url: Secret
    """As env:NAME: postgresql://user:password@host:5432/database."""
    timeout_ms: Annotated[int, Field(ge=50, le=60_000)] = 500
    """For a statement or a connection."""
    connections: Annotated[int, Field(ge=2, le=100)] = 4
    """Of each router at most, and one that copies the ledger."""

    # One connection listens for jobs, and one copies the ledger. Jobs and responses share the others equally.

    @property
    def for_jobs(self) -> "PostgresTerms":
        """Terms for background jobs, including the listening connection."""
        return replace(self, connections=self.connections // 2)

    @property
    def for_responses(self) -> "PostgresTerms":
        """Terms for responses, without a listening connection."""
        return replace(self, connections=(self.connections + 1) // 2)


class SharedTerms(Block, frozen=True):
    """What several routers share (`shared:`)."""

    replica: Annotated[Name, WrapValidator(_own_name)] = ""
    """Router's name. Default: its machine's, with a random end."""
    valkey: ValkeyTerms | None = None
    """Server for sessions, limits, repeated requests, live figures."""
    postgres: PostgresTerms | None = None
    """Database for responses, jobs and a copy of the ledger."""
    secret: Secret | None = None
    """As env:NAME: 32 bytes or more, equal on all routers."""
    on_store_outage: OnStoreOutage = OnStoreOutage.SHARE
    """Limits without Valkey: `share` (its part), `stop` (none), `open` (by itself)."""
