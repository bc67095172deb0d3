"""Targets that speak Chat Completions or Responses over HTTP: bytes are relayed unchanged."""

from typing import ClassVar

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
from router.dialects.as_sent import route_for_plan, write_for_plan
from router.dialects.table import SPECS
from router.dialects.transports import headers_over_http

_FORWARDED = frozenset({"openai-beta", "x-client-request-id"})
"""The only caller headers sent upstream: credentials above all stay here."""


class OpenAiHttpAdapter(Adapter):
    """OpenAI's API, with the target's key or the caller's.

    One POST for each request. With `upstream_transport: websocket` the client sends it over the session's socket instead, where
    there may be one.
    """

    name: ClassVar[str] = "openai_http"
    speaks: ClassVar[frozenset[Dialect]] = frozenset({Dialect.CHAT, Dialect.RESPONSES})
    has_sockets: ClassVar[bool] = True
    vendor: ClassVar[Vendor | None] = Vendor.OPENAI
    plans_of: ClassVar[Vendor | None] = Vendor.CHATGPT
    takes_extra: ClassVar[frozenset[str]] = frozenset({"headers", "query"})

    def __init__(self, endpoint: Endpoint, settings: AdapterSettings, upstream: Upstream) -> None:
        self._endpoint, self._takes_callers_key = endpoint, endpoint.takes_callers_key
        self._varies = endpoint.takes_callers_key or endpoint.over_websocket or endpoint.is_traced
        self._base_url = endpoint.base_url.rstrip("/")
        self._upstream = upstream
        self._prepared: dict[tuple[Dialect, bool], PreparedRequest] = {}

    @classmethod
    def list_models(cls, endpoint: Endpoint, timeouts: Timeouts) -> UpstreamRequest:
        key = endpoint.api_key.reveal() if endpoint.api_key else ""
        headers = (("accept", "application/json"), *_key_header(key), *endpoint.extra_headers)
        url = endpoint.locate(f"{endpoint.base_url.rstrip('/')}/models")
        return UpstreamRequest("models", "GET", url, headers, b"", timeouts, tls=endpoint.tls)

    def open(self, request: OutgoingRequest, sink: Sink) -> UpstreamCall:
        view = request.view
        prepared = self._prepared.get((request.dialect, view.is_streaming)) or self._prepare(request)
        if _FORWARDED.isdisjoint(view.headers) and not self._varies:
            return prepared.open(request.body, sink)
        more: Headers = ()
        if not _FORWARDED.isdisjoint(view.headers):
            more = tuple([(name, value) for name, value in view.headers.items() if name in _FORWARDED and value])
            more = more if self._endpoint.over_websocket else headers_over_http(more)
        if self._takes_callers_key:
            if request.target.is_plan:
                return self._open_plan(request, sink)
            more = (*more, *_key_header(self._endpoint.key_for(request)))
        if request.trace and request.session is None:  # a session's socket has one set of headers
            more = (*more, *request.trace)
        return prepared.open(request.body, sink, more, request.session)

    def _open_plan(self, request: OutgoingRequest, sink: Sink) -> UpstreamCall:
        spec, endpoint = SPECS[request.dialect], self._endpoint
        over_websocket = endpoint.over_websocket and spec.has_socket
        url = self._base_url + spec.paths[Operation.CREATE]
        constant, headers = write_for_plan(request, url, endpoint, over_websocket=over_websocket)
        headers = headers if over_websocket else headers_over_http(headers)
        return self._upstream.prepare(constant).open(request.body, sink, headers, request.session)

    def connect_ahead(self, target: Target) -> None:
        """A socket needs the key, which may come only with a request."""
        for spec in map(SPECS.__getitem__, target.speaks):
            if not (spec.has_socket and self._endpoint.over_websocket and self._takes_callers_key):
                self._upstream.connect_ahead(self._write_request(target, spec.name, is_streaming=True))

    def open_route(self, target: Target, request: RouteRequest, sink: Sink) -> UpstreamCall:
        endpoint = self._endpoint
        if target.is_plan:
            return self._upstream.open(route_for_plan(request, self._base_url, target, endpoint), sink)
        key = _key_header(endpoint.key_from(target, request.callers, min(target.speaks)))
        return self._upstream.open(request.below(self._base_url, target, key, endpoint), sink)

    def _prepare(self, request: OutgoingRequest) -> PreparedRequest:
        is_streaming = request.view.is_streaming
        constant = self._write_request(request.target, request.dialect, is_streaming=is_streaming)
        prepared = self._prepared[request.dialect, is_streaming] = self._upstream.prepare(constant)
        return prepared

    def _write_request(self, target: Target, dialect: Dialect, *, is_streaming: bool) -> UpstreamRequest:
        spec, endpoint = SPECS[dialect], self._endpoint
        return UpstreamRequest(
            target=target.name,
            method="POST",
            url=endpoint.locate(self._base_url + spec.paths[Operation.CREATE]),
            headers=(
                ("content-type", "application/json"),
                ("accept", "text/event-stream" if is_streaming else "application/json"),
                *_key_header(endpoint.own_key),
                *endpoint.extra_headers,
            ),
            body=b"",
            timeouts=target.timeouts,
            waits_for_first_byte=is_streaming or target.timeouts.bounds_whole_answers,
            tls=endpoint.tls,
            over_websocket=endpoint.over_websocket and spec.has_socket,
        )


def _key_header(key: str) -> Headers:
    return (("authorization", f"Bearer {key}"),) if key else ()
