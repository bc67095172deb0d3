"""The headers `traceparent` and `tracestate` (W3C Trace Context), and the ids of a request's own spans.

The ids follow from the request's id and a secret of this process. So what a target is sent, and what is exported much later by
another thread, agree without anything being kept in between.
"""

import os
import re
from collections.abc import Mapping
from hashlib import blake2b
from typing import NamedTuple

from router.contract.relay import Headers

TRACEPARENT, TRACESTATE = "traceparent", "tracestate"
LOOK = "look"
_PARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_KEY = r"[a-z0-9][a-z0-9_\-*/@]{0,255}"
_VALUE = r"[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]"
_MEMBER = re.compile(rf"{_KEY}={_VALUE}")
_MAX_MEMBERS = 32
_MAX_STATE_CHARS = 4_096
_SAMPLED = 1
_secret = os.urandom(32)


class Parent(NamedTuple):
    """The caller's span that a request belongs to."""

    trace_id: str
    span_id: str
    is_sampled: bool
    written: str
    """The header as it came."""
    state: str = ""
    """The caller's `tracestate`; empty where it sent none, or an invalid one."""

    @property
    def unchanged(self) -> Headers:
        """What came in, for a target of a request that is not traced here."""
        return ((TRACEPARENT, self.written), *self.state_header)

    @property
    def state_header(self) -> Headers:
        return ((TRACESTATE, self.state),) if self.state else ()


class Ids(NamedTuple):
    """The ids of a request's trace, in hexadecimal."""

    trace: str
    request: str
    decide: str


def read_parent(headers: Mapping[str, str]) -> Parent | None:
    """The caller's trace. None without one, or where it is malformed: then the request begins a trace of its own."""
    written = headers.get(TRACEPARENT, "").strip()
    found = _PARENT.fullmatch(written)
    if found is None:
        return None
    version, trace_id, span_id, flags, more = found.groups()
    # A later version may have more fields after these four. Version 255 is not one, and neither id may be zero.
    if version == "ff" or (more and version == "00") or not trace_id.strip("0") or not span_id.strip("0"):
        return None
    is_sampled = bool(int(flags, 16) & _SAMPLED)
    return Parent(trace_id, span_id, is_sampled, written, _read_state(headers.get(TRACESTATE, "")))


def _read_state(written: str) -> str:
    """A `tracestate` that may be passed on; empty for one that is not valid."""
    if not written or len(written) > _MAX_STATE_CHARS:
        return ""
    members = [member.strip(" \t") for member in written.split(",")]
    members = [member for member in members if member]
    keys = {member.partition("=")[0] for member in members}
    is_valid = all(map(_MEMBER.fullmatch, members)) and len(keys) == len(members) <= _MAX_MEMBERS
    return written if is_valid and members else ""


def ids_of(request_id: str, parent: Parent | None) -> Ids:
    """The ids of a request's spans, in the caller's trace or in one of its own."""
    digest = blake2b(request_id.encode(), digest_size=32, key=_secret).hexdigest()
    return Ids(parent.trace_id if parent is not None else digest[:32], digest[32:48], digest[48:])


def attempt_id(request_id: str, attempt: int | str) -> str:
    """The id of one attempt's span: by its number, from 0 on, or `LOOK`."""
    return blake2b(f"{request_id} {attempt}".encode(), digest_size=8, key=_secret).hexdigest()


def write_parent(trace_id: str, span_id: str) -> str:
    """The header for a target of a request that is traced."""
    return f"00-{trace_id}-{span_id}-01"


def name_conversation(caller: str, session: str) -> str:
    """A session as traces show it: without what the client calls it, and different for each caller."""
    return blake2b(f"{caller}\n{session}".encode(), digest_size=16).hexdigest()
