"""What several routers share, as the config names it."""

from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from router.contract.secret import Secret


class WhenBlind(StrEnum):
    """What a limit does while the store that counts it cannot be asked."""

    SHARE = "share"
    """Each router goes on with the part of each limit that it has."""
    STOP = "stop"
    """Nobody uses what is limited until the store is back."""
    OPEN = "open"
    """Each router counts by itself, as if it were the only one."""


class ValkeyTerms(Struct, frozen=True):
    """Where the Valkey or Redis server is, how long a command may take, and how the names of our keys begin."""

    url: Secret
    timeout_seconds: float = 0.25
    prefix: str = "tandem"


class PostgresTerms(Struct, frozen=True):
    """Where the database is, how long a statement may take, and how many connections a router opens at most."""

    url: Secret
    timeout_seconds: float = 0.5
    connections: int = 4

    # One connection listens for jobs, and one copies the ledger. Jobs and responses have half of the others each.

    @property
    def for_jobs(self) -> "PostgresTerms":
        """The same for background jobs, with the connection that listens."""
        return replace(self, connections=self.connections // 2)

    @property
    def for_responses(self) -> "PostgresTerms":
        """The same for responses, where nobody listens."""
        return replace(self, connections=(self.connections + 1) // 2)


class Origin(Struct, frozen=True):
    """Who writes a row of the ledger: a router by its name, and the number of its worker where it has several."""

    replica: str
    worker: int | None = None


class SharedTerms(Struct, frozen=True):
    """Everything that routers share. A router that shares nothing has none of it."""

    replica: str
    """The name of this router among the others."""
    valkey: ValkeyTerms | None = None
    postgres: PostgresTerms | None = None
    secret: Secret | None = None
    """Signs what clients carry from one router to another."""
    when_blind: WhenBlind = WhenBlind.SHARE
    worker: int = 0
    """Which of the workers of one machine this is, from 1; 0 where a router is one process. `replica` ends with it then."""

    @property
    def origin(self) -> Origin:
        """Who writes the rows of the ledger: all workers of a router have its name."""
        if not self.worker:
            return Origin(self.replica)
        return Origin(self.replica.removesuffix(f".{self.worker}"), self.worker)
