"""The doors: which paths are create calls, in which dialect, and who may knock at all."""

import os
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from router.contract.errors import BadRequest, BodyTooLarge, Forbidden, HeadersTooLarge, WrongMediaType
from router.contract.words import Dialect, Operation
from router.edge.head import is_plain_number


@dataclass(frozen=True, slots=True)
class Door:
    """A call that travels the road: its dialect and what it asks for."""

    dialect: Dialect
    operation: Operation = Operation.CREATE


_DOORS = {
    "/chat/completions": Door(Dialect.CHAT),
    "/responses": Door(Dialect.RESPONSES),
    "/responses/input_tokens": Door(Dialect.RESPONSES, Operation.COUNT_TOKENS),
    "/responses/compact": Door(Dialect.RESPONSES, Operation.COMPACT),
    "/messages": Door(Dialect.MESSAGES),
    "/messages/count_tokens": Door(Dialect.MESSAGES, Operation.COUNT_TOKENS),
    "/completions": Door(Dialect.COMPLETIONS),
}
DOORS: Mapping[str, Door] = {prefix + path: door for path, door in _DOORS.items() for prefix in ("/v1", "")}
"""By path. Clients leave `/v1` out where they take it for part of the base URL."""

_MAX_ADMITTED = 64
_NO_HOST = re.compile(r"[^\w.:\[\]-]")
_LOOPBACK_HOST = re.compile(r"^(localhost|127(?:\.\d{1,3}){3}|\[::1\])(:\d{1,5})?$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Limits:
    """What one request may bring."""

    max_body_bytes: int
    max_headers: int
    max_header_bytes: int
    max_in_flight: int
    header_timeout_seconds: float
    body_timeout_seconds: float
    min_body_bytes_per_second: int
    write_idle_timeout_seconds: float
    keep_alive_seconds: float = 75.0


class _RequestIds:
    """Ordered by time, and not to be guessed. Randomness is drawn from the system by the page, not by the request."""

    def __init__(self) -> None:
        self._random = b""
        self._used = 0

    def __call__(self) -> str:
        if self._used >= len(self._random):
            self._random, self._used = os.urandom(4096), 0
        start = self._used
        self._used = start + 8
        return f"req_{int(time.time() * 1000):011x}{self._random[start : start + 8].hex()}"


new_request_id = _RequestIds()


def dialect_of_path(path: str) -> Dialect:
    """The dialect in which to refuse a request, whatever is wrong with it."""
    door = DOORS.get(path)
    if door is not None:
        return door.dialect
    return Dialect.MESSAGES if path.startswith(("/v1/messages", "/messages")) else Dialect.CHAT


def check_knock(headers: Mapping[str, str], hosts: int) -> None:
    """Only this machine may knock: any web page can reach loopback, and names itself in Origin when it does."""
    if hosts != 1:
        raise BadRequest("the Host header is missing or stands twice")
    _check_knock(headers.get("host", ""), headers.get("origin"), headers.get("sec-fetch-site", "none"))


@lru_cache(maxsize=_MAX_ADMITTED)
def _check_knock(host: str, origin: str | None, site: str) -> None:
    """Who was let in is remembered; who was refused is looked at anew."""
    if not host:
        raise BadRequest("the Host header is missing or stands twice")
    if _NO_HOST.search(host):
        raise BadRequest("the Host header is no host")
    if not _LOOPBACK_HOST.match(host):
        raise Forbidden("this router answers to loopback names only (localhost, 127.0.0.1, [::1])")
    if origin is not None and origin not in (f"http://{host}", f"https://{host}"):
        raise Forbidden("requests from other web pages are refused")
    if site not in ("none", "same-origin"):
        raise Forbidden("requests from other web pages are refused")


def check_headers(count: int, size: int, limits: Limits) -> None:
    """Hold headers against the limits."""
    if count > limits.max_headers:
        raise HeadersTooLarge(f"{count} headers are over the limit of {limits.max_headers}")
    if size > limits.max_header_bytes:
        raise HeadersTooLarge(f"the headers are over the limit of {limits.max_header_bytes} bytes")


def check_body_headers(headers: Mapping[str, str], limits: Limits) -> None:
    """Refuse a body by what its headers say, before a byte of it is read."""
    _check_media_type(headers.get("content-type", "application/json"))
    if headers.get("content-encoding", "identity").lower() not in ("identity", ""):
        raise WrongMediaType("content-encoding: compressed bodies are not served. Send the body as it is")
    length = headers.get("content-length", "")
    if length and not is_plain_number(length):
        raise BadRequest("content-length: must be one plain number")
    if length and int(length) > limits.max_body_bytes:
        raise too_large(limits)


@lru_cache(maxsize=_MAX_ADMITTED)
def _check_media_type(value: str) -> None:
    kind, _, parameters = value.lower().partition(";")
    if kind.strip() != "application/json" and not kind.strip().endswith("+json"):
        raise WrongMediaType(f'content-type: "{kind.strip()[:60]}" is not served. Send application/json')
    charset = re.search(r'charset\s*=\s*"?([\w-]+)', parameters)
    if charset and charset.group(1) not in ("utf-8", "utf8", "us-ascii"):
        raise WrongMediaType(f'content-type: charset "{charset.group(1)[:40]}" is not served. Send UTF-8')


def too_large(limits: Limits) -> BodyTooLarge:
    """The body is over the limit."""
    return BodyTooLarge(f"the body is over the limit of {limits.max_body_bytes} bytes")
