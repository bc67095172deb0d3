"""Traces: the headers that targets get, and the settings."""

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from router.contract.exchange import Exchange
from router.contract.relay import Headers
from router.contract.words import Dialect, Operation


class TraceHeaders(Protocol):
    """Headers by which a target's spans join a request's trace; none if it is not traced."""

    def __call__(self, exchange: Exchange, *, is_question: bool = False) -> Headers:
        """Called right before a call opens. `is_question`: for a look."""
        ...


class TracedRoute(NamedTuple):
    path: str
    operation: str
    """In OpenTelemetry's words."""


class TraceTerms(NamedTuple):
    """Trace settings. Prints without its headers: they hold a key."""

    endpoint: str
    sample: float
    headers: Headers
    providers: Mapping[str, str]
    """The provider of each target's model, in OpenTelemetry's words."""
    routes: Mapping[tuple[Dialect, Operation], TracedRoute]
    instance: str
    """This router among several."""
    scheme: str
    """Of this router's own address: `http` or `https`."""

    def __repr__(self) -> str:
        return f"TraceTerms({self.endpoint!r}, sample={self.sample})"
