"""What passes unchanged between a client and its plan, and the list of what may differ from a client that asks it directly.

`docs/reference/http.md` is printed from `DIFFERENCES`, and the headers that stay here are read from it.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from router.contract.credential import ACCOUNT, Credential
from router.contract.relay import Endpoint, Headers, OutgoingRequest, RouteRequest, UpstreamRequest
from router.contract.target import Target
from router.contract.words import Vendor, Word
from router.dialects.transports import OF_A_PLAN

QUERY = ":query"
"""The query of a request, among its headers. No client can send a header of that name."""

OF_VENDORS = ("anthropic-", "openai-", OF_A_PLAN)
"""Beginnings of headers that vendors write for their own clients."""


class Side(Word):
    REQUEST = "request"
    ANSWER = "answer"


class Difference(NamedTuple):
    side: Side
    what: str
    why: str
    headers: str = ""
    """Names of headers that stay here. One that ends in `*` is a beginning."""


_OF_ONE_CONNECTION = "connection keep-alive proxy-connection proxy-authenticate te trailer transfer-encoding upgrade"
DIFFERENCES = (
    Difference(
        Side.REQUEST,
        "headers of one connection",
        "Tandem has a connection of its own to the plan",
        f"host expect content-length proxy-authorization sec-websocket-* {_OF_ONE_CONNECTION}",
    ),
    Difference(
        Side.REQUEST,
        "bodies are sent uncompressed, with `accept-encoding: identity`",
        "the model, the usage and the limits are read on the way",
        "accept-encoding content-encoding",
    ),
    Difference(
        Side.REQUEST,
        "the router's own headers and keys",
        "a plan takes its login only, and everything else of this kind is the router's",
        "x-tandem-* x-api-key cookie",
    ),
    Difference(
        Side.REQUEST,
        "headers of proxies in front of the router",
        "they describe the way to the router",
        "forwarded via x-forwarded-* x-real-ip",
    ),
    Difference(Side.REQUEST, "the order of headers", "`host` and `accept-encoding` come first, the body's length after them"),
    Difference(
        Side.REQUEST, "a repeated header is sent once", "the last value counts; lists such as `anthropic-beta` are joined"
    ),
    Difference(
        Side.REQUEST,
        "a name of Tandem's as `model` becomes the target's; on fast, any name",
        "a name of Tandem's (`auto`, `deep`, a target) becomes the target's model; a fast target always gets its own",
    ),
    Difference(
        Side.REQUEST,
        "reasoning that another target wrote is left out",
        "only its maker can read it; what the plan wrote comes back to it unchanged",
    ),
    Difference(
        Side.REQUEST,
        "a conversation that continues another target's response is sent whole",
        "another target may have written a part of it",
    ),
    Difference(
        Side.REQUEST,
        "a message `thread` is left out",
        "the conversation may change its target",
    ),
    Difference(
        Side.REQUEST,
        "`/responses/compact` goes to a target with a key",
        "the router writes the request for that summary, and a plan gets only what its client sent",
    ),
    Difference(
        Side.REQUEST,
        "on a socket, a prewarm (`generate: false`) is answered here",
        "which target takes a turn is decided when its words are known",
    ),
    Difference(
        Side.REQUEST,
        "the plan's socket opens with its first turn, uncompressed",
        "Tandem has a socket of its own to the plan for each thread",
    ),
    Difference(
        Side.REQUEST,
        "with `upstream_transport: http`, and for titles and other side requests, a socket's message is sent over HTTP,"
        " with headers to fit",
        "HTTP and sockets say some things in different places",
    ),
    Difference(
        Side.ANSWER,
        "on a socket, the plan's headers come as `response.metadata`, its limits as their event",
        "the client's own handshake is over by then",
    ),
    Difference(
        Side.ANSWER,
        "on a socket, `metadata` of `response.created` has `x-tandem-*`",
        "its answers have no headers",
    ),
    Difference(
        Side.ANSWER,
        "a 401 closes the socket, and handshakes with that login get it for 30 s",
        "clients refresh a login when a handshake is refused",
    ),
    Difference(
        Side.ANSWER,
        "headers of one connection, and those that bind a browser to an address",
        "they are about the plan's address, and the client asked another one",
        f"content-length date server set-cookie alt-svc strict-transport-security {_OF_ONE_CONNECTION}",
    ),
    Difference(
        Side.ANSWER,
        "`x-tandem-*`, `x-request-id` and `request-id` are added",
        "clients read either",
    ),
    Difference(
        Side.ANSWER,
        "of a stream, `content-type`, `cache-control` and `x-accel-buffering` are Tandem's",
        "no proxy on the way may hold it back",
    ),
    Difference(Side.ANSWER, "with `combine.look`, deep's objections are added", "the person asked for them"),
    Difference(Side.ANSWER, "at most 40 headers and 6,000 characters of them", "limits and ids come first"),
    Difference(Side.ANSWER, "comments (`: heartbeat`) where a stream is silent for 10 seconds", "readers of streams skip them"),
    Difference(
        Side.ANSWER,
        "an unreachable or silent plan is Tandem's error",
        "there is no answer to pass on",
    ),
)


def _names(side: Side) -> tuple[frozenset[str], tuple[str, ...]]:
    """The headers that stay here: whole names, and beginnings."""
    names = " ".join(row.headers for row in DIFFERENCES if row.side is side).split()
    return frozenset(names), tuple(name.removesuffix("*") for name in names if name.endswith("*"))


_KEPT_OF_REQUESTS, _KEPT_BEGINNINGS = _names(Side.REQUEST)
_KEPT_OF_ANSWERS, _ = _names(Side.ANSWER)
_OF_STREAMS = frozenset({"content-type", "cache-control", "x-accel-buffering"})


@lru_cache(maxsize=1024)
def _is_sent(name: str) -> bool:
    return name not in _KEPT_OF_REQUESTS and not name.startswith((":", *_KEPT_BEGINNINGS))


@lru_cache(maxsize=1024)
def is_returned(name: str) -> bool:
    """Whether a header of a plan's answer goes to its client."""
    return name not in _KEPT_OF_ANSWERS


@lru_cache(maxsize=1024)
def is_returned_by_stream(name: str) -> bool:
    return name not in _KEPT_OF_ANSWERS and name not in _OF_STREAMS


def headers_to_plan(headers: Mapping[str, str], login: Credential) -> Headers:
    """A client's own headers, with the login that its plan takes."""
    sent = {name: value for name, value in headers.items() if _is_sent(name)}
    if login.vendor is not Vendor.CHATGPT:
        sent.pop(ACCOUNT, None)
    own = sent.get("authorization", "")
    if own.partition(" ")[2].strip() != login.text:
        sent["authorization"] = f"Bearer {login.text}"
    return tuple(sent.items())


def write_for_plan(
    request: OutgoingRequest, url: str, endpoint: Endpoint, *, over_websocket: bool = False
) -> tuple[UpstreamRequest, Headers]:
    """A request without its body, and the client's own headers to send with it. Raises `CallerKey` without a login."""
    view, target = request.view, request.target
    login, query = endpoint.credential_from(target, view.headers, view.dialect), view.headers.get(QUERY)
    constant = UpstreamRequest(
        target=target.name,
        method="POST",
        url=f"{url}?{query}" if query else url,
        headers=(),
        body=b"",
        timeouts=target.timeouts,
        waits_for_first_byte=view.is_streaming or target.timeouts.bounds_whole_answers,
        tls=endpoint.tls,
        over_websocket=over_websocket,
        names_tandem=False,
    )
    return constant, headers_to_plan(view.headers, login)


def route_for_plan(request: RouteRequest, base_url: str, target: Target, endpoint: Endpoint) -> UpstreamRequest:
    """A request other than a create call, with its client's own headers. Raises `CallerKey` without a login."""
    login = endpoint.credential_from(target, request.callers, min(target.speaks))
    return UpstreamRequest(
        target=target.name,
        method=request.method,
        url=base_url + request.path,
        headers=headers_to_plan(request.callers, login),
        body=request.body,
        timeouts=request.timeouts or target.timeouts,
        waits_for_first_byte=request.timeouts is not None,
        tls=endpoint.tls,
        names_tandem=False,
    )
