"""Which headers of a request are kept with its job: those that are read on the road, and no others."""

from collections.abc import Mapping

from router.contract.secret import mask_keys
from router.dialects.overrides import PREFIX
from router.sessions.clients import TURN_STATE_HEADERS
from router.sessions.turns import TELLING_HEADERS

_KEPT = TELLING_HEADERS | TURN_STATE_HEADERS | {"user-agent", "anthropic-beta", "traceparent", "tracestate"}
"""A list of what is kept, not of what is left out: proxies put credentials into headers of many names."""


def keep_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """What clients say of themselves and their sessions, what callers ask of the router, and the trace."""
    return {name: mask_keys(value) for name, value in headers.items() if name in _KEPT or _is_asked_of_us(name)}


def _is_asked_of_us(name: str) -> bool:
    return name.startswith(PREFIX) and "key" not in name
