"""What a Responses request and its answer say in headers over HTTP and in messages over a WebSocket.

Codex marks a body in its lite form by a header over HTTP and in `client_metadata` on a socket. It reads a plan's limits from
headers over HTTP and from an event on a socket.
"""

from collections.abc import Mapping

import orjson

from router.contract.credential import ACCOUNT
from router.contract.relay import Headers
from router.contract.request import JsonObject
from router.dialects.fields import as_object

LITE = "x-openai-internal-codex-responses-lite"
LIMITS_EVENT = "codex.rate_limits"
OF_A_PLAN = "x-codex-"
"""How the headers of ChatGPT's plans begin, in requests and answers."""
SPEAKS_SOCKETS = "responses_websockets="
"""In `openai-beta` of a handshake: the version of the protocol."""
_BETA = "openai-beta"
_IN_METADATA = "ws_request_header_"
_LITE_IN_METADATA = _IN_METADATA + LITE.replace("-", "_")
_WINDOWS = ("primary", "secondary")
_OF_A_WINDOW = ("used_percent", "window_minutes", "reset_at")
_CREDITS = ("has_credits", "unlimited", "balance")
_PLAN, _LIMIT_NAME = f"{OF_A_PLAN}plan-type", f"{OF_A_PLAN}limit-name"


def headers_over_http(headers: Headers) -> Headers:
    """Headers for HTTP, where `openai-beta` must not mention sockets."""
    if not any(SPEAKS_SOCKETS in value for _, value in headers):
        return headers
    told = ((name, _without_sockets(value) if name == _BETA else value) for name, value in headers)
    return tuple(header for header in told if header[1])


def _without_sockets(betas: str) -> str:
    return ",".join(beta.strip() for beta in betas.split(",") if not beta.strip().startswith(SPEAKS_SOCKETS))


def header_named(field: str) -> str:
    """The header that a field of `client_metadata` stands for."""
    name = field.lower()
    return name.removeprefix(_IN_METADATA).replace("_", "-") if name.startswith(_IN_METADATA) else name


def mark_in_message(headers: Headers, body: JsonObject) -> JsonObject:
    """Fields to change in a message, so that it says what these headers say over HTTP."""
    told, metadata = dict(headers), as_object(body.get("client_metadata"))
    changes: JsonObject = {"stream": body.get("stream")} if ACCOUNT in told else {}  # Codex sends it on a socket, too
    if LITE in told and _LITE_IN_METADATA not in metadata:
        changes["client_metadata"] = {**metadata, _LITE_IN_METADATA: told[LITE]}
    return changes


def limits_as_headers(event: JsonObject) -> Headers:
    """The headers that say what a `codex.rate_limits` event says."""
    limits, credits_left = as_object(event.get("rate_limits")), as_object(event.get("credits"))
    told = {
        f"{OF_A_PLAN}{window}-{_dashed(figure)}": as_object(limits.get(window)).get(figure)
        for window in _WINDOWS
        for figure in _OF_A_WINDOW
    }
    told |= {f"{OF_A_PLAN}credits-{_dashed(name)}": credits_left.get(name) for name in _CREDITS}
    told |= {_PLAN: event.get("plan_type"), _LIMIT_NAME: event.get("metered_limit_name") or event.get("limit_name")}
    written = ((name, _as_header(value)) for name, value in told.items() if isinstance(value, str | int | float))
    return tuple(header for header in written if header[1].isascii() and header[1].isprintable())


def limits_as_event(headers: Mapping[str, str]) -> bytes:
    """The event that says what a plan's headers say; empty without limits."""
    windows = {window: _read_window(headers, f"{OF_A_PLAN}{window}-") for window in _WINDOWS}
    if not any(windows.values()):
        return b""
    has, unlimited, balance = (headers.get(f"{OF_A_PLAN}credits-{_dashed(name)}") for name in _CREDITS)
    told: JsonObject = {"type": LIMITS_EVENT, "plan_type": headers.get(_PLAN), "rate_limits": {**windows}}
    if has is not None and unlimited is not None:
        told["credits"] = {"has_credits": has == "true", "unlimited": unlimited == "true", "balance": balance}
    if _LIMIT_NAME in headers:
        told["limit_name"] = headers[_LIMIT_NAME]
    try:
        return orjson.dumps(told)
    except orjson.JSONEncodeError:  # an integer of more than 64 bits
        return b""


def _read_window(headers: Mapping[str, str], prefix: str) -> JsonObject | None:
    try:
        used, *others = (headers.get(prefix + _dashed(figure)) for figure in _OF_A_WINDOW)
        if used is None:
            return None
        minutes, reset_at = (None if text is None else int(text) for text in others)
        return {"used_percent": float(used), "window_minutes": minutes, "reset_at": reset_at}
    except ValueError:
        return None


def _dashed(name: str) -> str:
    return name.replace("_", "-")


def _as_header(value: str | float) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
