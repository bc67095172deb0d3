"""Traces as the config asks for them. What sends them is loaded with the first config that names a collector."""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

from router.contract.exchange import Handler
from router.contract.facts import Fact
from router.contract.tracing import TraceHeaders, TraceTerms
from router.telemetry.losses import Losses

if TYPE_CHECKING:
    from router.telemetry.traces import Traces

_CLOSE_SECONDS = 1.0
"""How long the router waits, when it stops, for the last traces to be sent."""


class Tracing:
    """Observes requests for the traces in use, if any."""

    def __init__(self) -> None:
        self.losses = Losses()
        self._traces: Traces | None = None
        self._terms: TraceTerms | None = None

    def handlers(self) -> Mapping[type[Fact], Handler]:
        return self._traces.handlers() if self._traces is not None else {}

    def follow(self, terms: TraceTerms | None) -> TraceHeaders | None:
        """Trace requests by these terms from now on; None: not at all. Returns what asks for the headers of a call.

        What waits to be sent by other terms is still sent by them.
        """
        if terms != self._terms:
            if self._traces is not None:
                self._traces.stop()
            self._traces, self._terms = _begin(terms, self.losses), terms
        return self._traces.headers_for if self._traces is not None else None

    async def close(self) -> None:
        """Send what waits, as far as that takes no more than a second."""
        if self._traces is not None:
            await asyncio.to_thread(self._traces.close, _CLOSE_SECONDS)


def _begin(terms: TraceTerms | None, losses: Losses) -> "Traces | None":
    if terms is None:
        return None
    from router.telemetry.traces import Traces  # with the HTTP client that it brings, which nothing else needs

    return Traces(terms, losses)
