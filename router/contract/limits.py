"""What one request may bring, and how long its caller may take."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one plan. Every way in reads them again for each request."""

    max_body_bytes: int
    max_headers: int
    max_header_bytes: int
    max_in_flight: int
    header_timeout_seconds: float
    body_timeout_seconds: float
    min_body_bytes_per_second: int
    write_idle_timeout_seconds: float
    max_sockets: int = 1_000
    max_connections_per_address: int = 256
    max_memory_mb: int | None = None
    keep_alive_seconds: float = 75.0
