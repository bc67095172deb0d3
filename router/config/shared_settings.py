"""What the config says of several routers that share their sessions, limits, responses, ledger and background jobs."""

import re

from pydantic import Field, field_validator

from router.config.settings import Settings
from router.contract.shared import WhenBlind

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")


def check_name(value: str) -> str:
    """A name that can be part of a key or of a row."""
    if _NAME.fullmatch(value) is None:
        raise ValueError("must have 1 to 64 letters, digits, or the characters . _ -")
    return value


class ValkeySettings(Settings):
    """A Valkey or Redis server for what routers share from one moment to the next. Needs the extra `shared`."""

    url: str
    """Its address, always as env:NAME: redis://user:password@host:6379/0, rediss:// for TLS, unix:///path for a Unix socket."""
    timeout_ms: int = Field(default=250, ge=20, le=10_000)
    """How long a command may take. Then the server counts as away, until a probe in the background is answered."""
    prefix: str = "tandem"
    """How the names of all keys and channels begin."""

    @field_validator("prefix")
    @classmethod
    def _is_a_prefix(cls, value: str) -> str:
        return check_name(value)


class PostgresSettings(Settings):
    """A PostgreSQL database for what routers share for good. Needs the extra `shared`."""

    url: str
    """Its address with user, password and database, always as env:NAME: postgresql://user:password@host:5432/database."""
    timeout_ms: int = Field(default=500, ge=50, le=60_000)
    """How long a statement may take, and opening a connection. Then the database counts as away."""
    connections: int = Field(default=4, ge=2, le=100)
    """How many connections a router opens at most, next to one that copies the ledger. One of them listens for what other
    routers do."""


class SharedSettings(Settings):
    """What several routers share."""

    valkey: ValkeySettings | None = None
    """The server for sessions, limits, repeated requests and live figures. Off by default."""
    postgres: PostgresSettings | None = None
    """The database for stored responses, a copy of the ledger, and background jobs. Off by default."""
    secret: str | None = None
    """32 bytes or more, the same on every router, always as env:NAME. Signs what clients carry from one router to another."""
    when_blind: WhenBlind = WhenBlind.SHARE
    """What limits do while the server that counts them cannot be asked: `share` (each router goes on with its part), `stop`
    (nobody uses what is limited), `open` (each router counts by itself)."""
    replica: str | None = None
    """The name of this router in the ledger and on pages. By default the name of its machine and a random end."""

    @field_validator("replica")
    @classmethod
    def _is_a_name(cls, value: str | None) -> str | None:
        return None if value is None else check_name(value)
