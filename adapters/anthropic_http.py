"""Targets that speak Anthropic Messages over HTTP: bytes are relayed unchanged."""

from collections.abc import Mapping
from typing import ClassVar

from router.contract.credential import credential_for
from router.contract.relay import (
    Adapter,
    AdapterSettings,
    Endpoint,
    Headers,
    OutgoingRequest,
    PreparedRequest,
    RouteRequest,
    Sink,
    Upstream,
    UpstreamCall,
    UpstreamRequest,
)
from router.contract.target import Target, Timeouts
from router.contract.words import Dialect, Operation, Vendor
from router.dialects.as_sent import write_for_plan

_VERSION, _BETA = "anthropic-version", "anthropic-beta"
"""The only caller headers sent upstream: credentials above all stay here."""
_USUAL_VERSION: Headers = ((_VERSION, "2023-06-01"),)
_LOGIN_PREFIX = "sk-ant-oat"
_LOGIN_FLAG = "oauth-"
"""In `anthropic-beta`: the request has a login. With an API key it is not sent."""
_THREADS_FLAG = "message-threads-"
"""Not sent either: some hosts refuse flags that they do not know, and no target gets a `thread`."""


class AnthropicHttpAdapter(Adapter):
    """Anthropic's API, likewise."""

    name: ClassVar[str] = "anthropic_http"
    speaks: ClassVar[frozenset[Dialect]] = frozenset({Dialect.MESSAGES})
    key_header: ClassVar[str] = "x-api-key"
    vendor: ClassVar[Vendor | None] = Vendor.ANTHROPIC
    plans_of: ClassVar[Vendor | None] = Vendor.ANTHROPIC
    takes_extra: ClassVar[frozenset[str]] = frozenset({"headers", "query"})
    own_headers: ClassVar[frozenset[str]] = frozenset({_VERSION})

    def __init__(self, endpoint: Endpoint, settings: AdapterSettings, upstream: Upstream) -> None:
        self._endpoint, self._takes_callers_key = endpoint, endpoint.takes_callers_key
        self._varies = endpoint.takes_callers_key or endpoint.is_traced
        self._base_url = _versioned(endpoint.base_url)
        self._upstream = upstream
        self._prepared: dict[tuple[Operation, bool], PreparedRequest] = {}

    @classmethod
    def list_models(cls, endpoint: Endpoint, timeouts: Timeouts) -> UpstreamRequest:
        key = endpoint.api_key.reveal() if endpoint.api_key else ""
        headers = (("accept", "application/json"), *_USUAL_VERSION, *_key_header(key), *endpoint.extra_headers)
        url = endpoint.locate(f"{_versioned(endpoint.base_url)}/models?limit=1000")
        return UpstreamRequest("models", "GET", url, headers, b"", timeouts, tls=endpoint.tls)

    def open(self, request: OutgoingRequest, sink: Sink) -> UpstreamCall:
        view = request.view
        prepared = self._prepared.get((view.operation, view.is_streaming)) or self._prepare(request)
        # The caller's version is for its own body. A bridge may write fields that newer versions refuse.
        version = view.headers.get(_VERSION) if view.dialect is request.dialect else None
        beta = view.headers.get(_BETA)
        more = ((_VERSION, version),) if version else _USUAL_VERSION
        if beta:
            more = (*more, *_beta_header(beta, self._endpoint, request.target, view.headers))
        if self._varies:
            if request.target.is_plan:
                return self._open_plan(request, sink)
            more = (*more, *request.trace)
            if self._takes_callers_key:
                more = (*more, *_key_header(self._endpoint.key_for(request)))
        return prepared.open(request.body, sink, more)

    def _open_plan(self, request: OutgoingRequest, sink: Sink) -> UpstreamCall:
        constant, headers = write_for_plan(request, self._locate(request.view.operation), self._endpoint)
        return self._upstream.prepare(constant).open(request.body, sink, headers)

    def _locate(self, operation: Operation) -> str:
        return self._base_url + ("/messages/count_tokens" if operation is Operation.COUNT_TOKENS else "/messages")

    def connect_ahead(self, target: Target) -> None:
        request = UpstreamRequest(target.name, "POST", self._base_url, (), b"", target.timeouts, tls=self._endpoint.tls)
        self._upstream.connect_ahead(request)

    def open_route(self, target: Target, request: RouteRequest, sink: Sink) -> UpstreamCall:
        """The route gets the key of create calls and the caller's version."""
        callers, endpoint = request.callers, self._endpoint
        version, beta = callers.get(_VERSION), callers.get(_BETA)
        more = ((_VERSION, version),) if version else _USUAL_VERSION
        key = _key_header(endpoint.key_from(target, callers, min(target.speaks)))
        headers = (*more, *_beta_header(beta or "", endpoint, target, callers), *key)
        return self._upstream.open(request.below(self._base_url, target, headers, endpoint), sink)

    def _prepare(self, request: OutgoingRequest) -> PreparedRequest:
        view, endpoint = request.view, self._endpoint
        constant = UpstreamRequest(
            target=request.target.name,
            method="POST",
            url=endpoint.locate(self._locate(view.operation)),
            headers=(
                ("content-type", "application/json"),
                ("accept", "text/event-stream" if view.is_streaming else "application/json"),
                *(() if self._takes_callers_key else _key_header(endpoint.key_for(request))),
                *endpoint.extra_headers,
            ),
            body=b"",
            timeouts=request.target.timeouts,
            waits_for_first_byte=view.is_streaming or request.target.timeouts.bounds_whole_answers,
            tls=endpoint.tls,
        )
        prepared = self._prepared[view.operation, view.is_streaming] = self._upstream.prepare(constant)
        return prepared


def _beta_header(beta: str, endpoint: Endpoint, target: Target, headers: Mapping[str, str]) -> Headers:
    """The caller's flags, without those of a login where the key is another."""
    if _LOGIN_FLAG in beta or _THREADS_FLAG in beta:
        own = credential_for(target, headers, min(target.speaks)) if endpoint.takes_callers_key else None
        unsent = (_THREADS_FLAG,) if own is not None and own.is_login else (_THREADS_FLAG, _LOGIN_FLAG)
        beta = ",".join(flag for flag in map(str.strip, beta.split(",")) if not flag.startswith(unsent))
    return ((_BETA, beta),) if beta else ()


def _versioned(base_url: str) -> str:
    """Anthropic's SDK takes the address without the version, most other clients with it: accept both."""
    base = base_url.rstrip("/")
    return base if base.endswith("/v1") else f"{base}/v1"


def _key_header(key: str) -> Headers:
    """Callers may send a login token, which goes into `authorization` instead of `x-api-key`."""
    if not key:
        return ()
    return (("authorization", f"Bearer {key}"),) if key.startswith(_LOGIN_PREFIX) else (("x-api-key", key),)
