"""The address of a Valkey or Redis server, taken apart."""

from typing import NamedTuple
from urllib.parse import unquote, urlsplit

_PORT = 6379
_TLS = ("rediss", "valkeys")


class Address(NamedTuple):
    """Where the server is, and as whom it is asked."""

    host: str
    port: int
    path: str
    """Of a Unix socket; empty for a host."""
    is_tls: bool
    user: str
    password: str
    database: int

    @classmethod
    def read(cls, url: str) -> "Address":
        """An address that the config has checked."""
        parts = urlsplit(url)
        user, password = unquote(parts.username or ""), unquote(parts.password or "")
        if parts.scheme == "unix":
            return cls("", 0, unquote(parts.path), is_tls=False, user=user, password=password, database=0)
        database = int(parts.path[1:] or 0)
        return cls(parts.hostname or "127.0.0.1", parts.port or _PORT, "", parts.scheme in _TLS, user, password, database)
