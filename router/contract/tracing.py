"""How traces reach the rest of the house: what a request carries to its target, and what a config says of them."""

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from router.contract.exchange import Exchange
from router.contract.relay import Headers
from router.contract.words import Dialect, Operation


class TraceHeaders(Protocol):
    """Returns the headers by which a target's own spans join a request's trace. Empty for a request that is not traced."""

    def __call__(self, exchange: Exchange, *, is_question: bool = False) -> Headers:
        """Asked right before a call is opened. `is_question`: the call asks for a second opinion."""
        ...


class TracedRoute(NamedTuple):
    """One kind of request, as traces show it."""

    path: str
    operation: str
    """What it asks for, in the words of the conventions."""


class TraceTerms(NamedTuple):
    """What a config says of traces. Prints without its headers: they hold a key."""

    endpoint: str
    sample: float
    headers: Headers
    providers: Mapping[str, str]
    """Who provides each target's model, in the words of the conventions."""
    routes: Mapping[tuple[Dialect, Operation], TracedRoute]
    """Every kind of request."""

    def __repr__(self) -> str:
        return f"TraceTerms({self.endpoint!r}, sample={self.sample})"
