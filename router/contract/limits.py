"""Limits on requests and on time (`limits:`)."""

from typing import Annotated

from pydantic import Field

from router.contract.block import ELSEWHERE, RESTART, Block, Seconds


class Limits(Block, frozen=True):
    """Limits on callers, requests and answers, read again for each request."""

    max_body_bytes: Annotated[int, Field(ge=1_024)] = 20_971_520
    """Largest request, decompressed."""
    max_headers: Annotated[int, Field(ge=10)] = 100
    """Headers of a request."""
    max_header_bytes: Annotated[int, Field(ge=1_024)] = 32_768
    """Their size."""
    max_in_flight: Annotated[int, Field(ge=1)] = 1_024
    """Concurrent requests; more get 503."""
    share: Annotated[float, Field(ge=0.5, le=1)] = 0.875
    """Largest share of requests, WebSockets and jobs for one caller."""
    header_timeout_seconds: Seconds = 10.0
    """For a request's headers."""
    body_timeout_seconds: Seconds = 30.0
    """For its body; longer at the next rate."""
    min_body_bytes_per_second: Annotated[int, Field(ge=1)] = 8_192
    """Least rate of a body that takes longer."""
    write_idle_timeout_seconds: Seconds = 60.0
    """For a caller that stopped reading."""
    connect_timeout_seconds: Seconds = 5.0
    """To open a connection to a target."""
    first_byte_timeout_seconds: Seconds = 600.0
    """For the first byte of a stream."""
    stall_timeout_seconds: Seconds = 300.0
    """Between two pieces of a stream."""
    deadline_seconds: Seconds = 3_600.0
    """For a whole request."""
    drain_seconds: Annotated[Seconds, RESTART] = 30.0
    """For running requests at shutdown."""
    max_sockets: Annotated[int, Field(ge=0)] = 1_000
    """Concurrent WebSockets; more get 426. 0: none."""
    max_connections_per_address: Annotated[int, Field(ge=1)] = 256
    """From one IPv4 address or IPv6 /64: raise it behind proxies."""
    max_memory_mb: Annotated[int, Field(ge=100)] | None = None
    """Above this, new requests get 503."""
    max_response_bytes: Annotated[int, Field(ge=1_024)] = 67_108_864
    """Largest answer that is not streamed."""
    keep_alive_seconds: Annotated[float, ELSEWHERE] = 75.0
