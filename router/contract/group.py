"""The workers that serve one address together, as each of them sees the others: through the process that started them."""

from collections.abc import Mapping
from typing import Protocol

from router.contract.keys import NewKey
from router.contract.request import JsonObject


class Group(Protocol):
    """What a worker knows of its group, and asks of it."""

    number: int
    """Which one it is, from 1. What must be done once, and not by each of them, is done by the first."""
    own_key: NewKey
    """The key of commands of the router's own user: the same for all, since nobody knows which of them will be asked."""

    @property
    def is_ready(self) -> bool:
        """Whether every worker has been ready to serve. One that is started again does not change that."""

    def describe(self) -> JsonObject:
        """How many there are, and how many of them serve now."""

    async def gather_figures(self) -> Mapping[str, bytes]:
        """The figures of every worker that answers in time, packed, by its number."""

    async def reload(self) -> JsonObject:
        """Have all of them take the config again. Returns what changed. Raises `ConfigError`, and then nothing has."""
