"""Refusals written for the caller's transport."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from router.contract.errors import TandemError
from router.contract.words import Dialect
from router.dialects.refusals import Refusal, write_refusal
from router.edge.http.sink import write_head
from router.telemetry import events

CLOSE = (("connection", "close"),)


def reject(error: TandemError, dialect: Dialect, request_id: str) -> Refusal:
    """Refuse a request that never became an exchange, and log it."""
    events.request_rejected(status=error.status, code=error.code, message=error.message)
    return write_refusal(error, dialect, request_id)


def refusal_bytes(error: TandemError, dialect: Dialect, request_id: str) -> bytes:
    """A rejection for a bare transport. It closes: an unread body cannot be told from the next request."""
    refusal = reject(error, dialect, request_id)
    head, _ = write_head(refusal.status, refusal.headers, closes=True)
    return head + refusal.body


async def send_refusal(
    send: Callable[[MutableMapping[str, Any]], Awaitable[None]], error: TandemError, dialect: Dialect, request_id: str
) -> None:
    """A rejection over ASGI. It closes, as `refusal_bytes` does."""
    refusal = reject(error, dialect, request_id)
    headers = [(name.encode(), value.encode("latin-1", "replace")) for name, value in refusal.headers + CLOSE]
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": refusal.body})
