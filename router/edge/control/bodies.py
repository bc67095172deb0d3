"""The small JSON bodies that pages are sent: within their own limit, and an object."""

from msgspec.structs import replace

from router.contract.limits import Limits
from router.contract.request import JsonObject
from router.dialects.json_body import parse_body
from router.edge.control.panel import Asked
from router.edge.http.bodies import collect_body
from router.edge.routes import check_body_headers

_SMALL_BYTES = 4_096


async def read_small_body(asked: Asked, limits: Limits, max_bytes: int = _SMALL_BYTES) -> JsonObject:
    """The object that a page was sent. Raises a `TandemError` for what is not one, not JSON, or larger than any of ours."""
    check_body_headers(asked.headers, "content-length" in asked.headers)
    return parse_body(await collect_body(asked.body, replace(limits, max_body_bytes=max_bytes)))
