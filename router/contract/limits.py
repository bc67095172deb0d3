"""Limits on requests and on time (`limits:`)."""

from typing import Annotated

from pydantic import Field

from router.contract.block import ELSEWHERE, Block, Seconds


class Limits(Block, frozen=True):
    """Limits on callers, requests and answers, read again for each request."""

    max_body_bytes: Annotated[int, Field(ge=1_024)] = 20_971_520
    """A larger request is refused. Of a body that came as `zstd` or `gzip`, its size before compression counts."""
    max_headers: Annotated[int, Field(ge=10)] = 100
    """More headers are refused."""
    max_header_bytes: Annotated[int, Field(ge=1_024)] = 32_768
    """Larger headers are refused."""
    max_in_flight: Annotated[int, Field(ge=1)] = 1_024
    """Concurrent requests; more are refused with 503 and `retry-after`. A waiting request takes about 23 KB and two file
    handles; `tandem serve` raises its limit of handles as far as the system allows."""
    share: Annotated[float, Field(ge=0.5, le=1)] = 0.875
    """The part of what all callers share that one may have alone: concurrent requests, WebSockets, waiting jobs and the disk of
    jobs. The rest stays free for others. Once they ask, a caller with more than an equal part is refused with 429 and
    `retry-after`. Without keys there is one caller, which has all. 1 sets nothing aside."""
    header_timeout_seconds: Seconds = 10.0
    """For a request's headers to arrive."""
    body_timeout_seconds: Seconds = 30.0
    """For a request's body to arrive, plus the time that its size allows."""
    min_body_bytes_per_second: Annotated[int, Field(ge=1)] = 8_192
    """A body that arrives more slowly than this is refused."""
    write_idle_timeout_seconds: Seconds = 60.0
    """How long to wait for a caller that has stopped reading."""
    connect_timeout_seconds: Seconds = 5.0
    """To open a connection to a target."""
    first_byte_timeout_seconds: Seconds = 600.0
    """For the first byte of a streamed answer."""
    stall_timeout_seconds: Seconds = 300.0
    """Between two pieces of a streamed answer."""
    deadline_seconds: Seconds = 3_600.0
    """For a whole request."""
    drain_seconds: Seconds = 30.0
    """For running requests to finish when the router is shut down."""
    max_sockets: Annotated[int, Field(ge=0)] = 1_000
    """Concurrent WebSockets; more are refused with 426, and clients fall back to HTTP. 0 allows none."""
    max_connections_per_address: Annotated[int, Field(ge=1)] = 256
    """Concurrent connections from one IPv4 address or IPv6 /64 network, WebSockets included; more are closed at once, before
    anything is read. Raise it behind a proxy, from whose one address all callers come."""
    max_memory_mb: Annotated[int, Field(ge=100)] | None = None
    """While the router uses more memory than this, after giving back what is free, new requests are refused with 503 and
    `retry-after`, until it is below 90 % of it. Running requests go on. Off by default; the router alone takes 60 to 100 MB."""
    max_response_bytes: Annotated[int, Field(ge=1_024)] = 67_108_864
    """The largest answer that is not streamed; a larger one fails."""
    keep_alive_seconds: Annotated[float, ELSEWHERE] = 75.0
