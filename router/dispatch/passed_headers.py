"""The target's headers that callers see: a fixed list, without keys, and no more than clients take."""

from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import chain, compress
from operator import itemgetter

from router.contract.relay import Headers
from router.contract.words import Dialect
from router.dialects.as_sent import OF_VENDORS
from router.dialects.headers import sdk_id_headers, with_both_ids
from router.dialects.table import SPECS
from router.dispatch.keys import KeyGuard

_PASSED_HEADERS = frozenset(
    """
    content-type retry-after retry-after-ms x-request-id request-id openai-processing-ms openai-version
    anthropic-organization-id x-reasoning-included
    """.split()
)
_LIMITS = tuple({spec.limits.prefix for spec in SPECS.values()})
_MAX_PASSED, _MAX_PASSED_BYTES = 40, 6_000
"""Twice what any host sends."""
STREAM_HEADERS = (
    ("content-type", "text/event-stream; charset=utf-8"),
    ("cache-control", "no-cache"),
    ("x-accel-buffering", "no"),
)
"""Proxies on the way must not buffer or cache a stream."""

_name_of = itemgetter(0)


# Cached: every header of every answer is looked up, but few names differ.


@lru_cache(maxsize=1024)
def is_limit(name: str) -> bool:
    return name.startswith(_LIMITS)


@lru_cache(maxsize=1024)
def is_passed(name: str) -> bool:
    return name in _PASSED_HEADERS or is_limit(name)


@lru_cache(maxsize=1024)
def is_passed_by_stream(name: str) -> bool:
    return name != "content-type" and is_passed(name)


@lru_cache(maxsize=1024)
def is_passed_to_keys(name: str) -> bool:
    """Callers with keys have limits of their own: a target's would mislead them, and show them the operator's account."""
    return name in _PASSED_HEADERS


@lru_cache(maxsize=1024)
def is_passed_to_keys_by_stream(name: str) -> bool:
    return name != "content-type" and name in _PASSED_HEADERS


def passed_headers(headers: Headers, request_id: str, guard: KeyGuard, may_pass: Callable[[str], bool]) -> Headers:
    """A fixed list: `openai-model` and the like never leave us. Adds the request's id under the names that SDKs read."""
    passed = tuple(compress(headers, map(may_pass, map(_name_of, headers))))
    text = "\n".join(chain.from_iterable(passed))
    if guard.mark_text in text:
        passed = guard.clean_headers(passed)
    if len(passed) > _MAX_PASSED or len(text) > _MAX_PASSED_BYTES:
        passed = tuple(_bounded(passed))
    return with_both_ids(passed, request_id) if "request-id" in text else passed + sdk_id_headers(request_id)


def _bounded(headers: Headers) -> Iterator[tuple[str, str]]:
    """Those listed by name first, then limits: some clients take no more than a hundred."""
    room, count = _MAX_PASSED_BYTES, _MAX_PASSED
    for name, value in sorted(headers, key=lambda header: 0 if header[0] in _PASSED_HEADERS else 1 if _tells(header[0]) else 2):
        size = len(name) + len(value)
        if count and size <= room:
            room, count = room - size, count - 1
            yield name, value


def _tells(name: str) -> bool:
    """Whether clients read a header: limits, and what a vendor says to its own client."""
    return is_limit(name) or name.startswith(OF_VENDORS)


def without_other_limits(headers: Headers, dialect: Dialect) -> Headers:
    """Headers without rate limits under names that clients of this dialect do not read."""
    own = SPECS[dialect].limits.prefix
    return tuple(header for header in headers if not is_limit(header[0]) or header[0].startswith(own))


def without_type(headers: Headers) -> Headers:
    """Headers for a rewritten body."""
    return tuple(header for header in headers if header[0] not in ("content-type", "content-length"))
