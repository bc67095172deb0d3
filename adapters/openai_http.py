"""Targets that speak Chat Completions or Responses over HTTP, natively: bytes out, bytes back."""

from typing import ClassVar

from router.contract.relay import (
    Adapter,
    AdapterSettings,
    Endpoint,
    Headers,
    OutgoingRequest,
    PreparedRequest,
    Sink,
    Upstream,
    UpstreamCall,
    UpstreamRequest,
)
from router.contract.target import Timeouts
from router.contract.words import Dialect, Operation
from router.dialects.table import SPECS

_FORWARDED = frozenset({"openai-beta", "x-client-request-id"})
"""The caller's headers that go upstream. Everything else, credentials above all, stays here."""


class OpenAiHttpAdapter(Adapter):
    """One POST for each request, with the target's own key or, with `api_key: caller`, the caller's."""

    name: ClassVar[str] = "openai_http"
    speaks: ClassVar[frozenset[Dialect]] = frozenset({Dialect.CHAT, Dialect.RESPONSES})

    def __init__(self, endpoint: Endpoint, settings: AdapterSettings, upstream: Upstream) -> None:
        self._endpoint, self._takes_callers_key = endpoint, endpoint.takes_callers_key
        self._base_url = endpoint.base_url.rstrip("/")
        self._upstream = upstream
        self._prepared: dict[tuple[Dialect, bool], PreparedRequest] = {}

    @classmethod
    def list_models(cls, endpoint: Endpoint, timeouts: Timeouts) -> UpstreamRequest:
        """Ask for the models with the target's own key."""
        key = endpoint.api_key.reveal() if endpoint.api_key else ""
        headers = (("accept", "application/json"), *_key_header(key))
        return UpstreamRequest(
            "models", "GET", f"{endpoint.base_url.rstrip('/')}/models", headers, b"", timeouts, tls=endpoint.tls
        )

    def open(self, request: OutgoingRequest, sink: Sink) -> UpstreamCall:
        """Send the body unchanged and relay the answer."""
        view = request.view
        prepared = self._prepared.get((request.dialect, view.is_streaming)) or self._prepare(request)
        if _FORWARDED.isdisjoint(view.headers) and not self._takes_callers_key:
            return prepared.open(request.body, sink)
        more = tuple([(name, value) for name, value in view.headers.items() if name in _FORWARDED and value])
        if self._takes_callers_key:
            more = (*more, *_key_header(self._endpoint.key_for(request)))
        return prepared.open(request.body, sink, more)

    def _prepare(self, request: OutgoingRequest) -> PreparedRequest:
        """What does not change from one request of this dialect to the next."""
        is_streaming, endpoint = request.view.is_streaming, self._endpoint
        constant = UpstreamRequest(
            target=request.target.name,
            method="POST",
            url=self._base_url + SPECS[request.dialect].paths[Operation.CREATE],
            headers=(
                ("content-type", "application/json"),
                ("accept", "text/event-stream" if is_streaming else "application/json"),
                *(() if self._takes_callers_key else _key_header(endpoint.key_for(request))),
            ),
            body=b"",
            timeouts=request.target.timeouts,
            waits_for_first_byte=is_streaming or request.target.timeouts.bounds_whole_answers,
            tls=endpoint.tls,
        )
        prepared = self._prepared[request.dialect, is_streaming] = self._upstream.prepare(constant)
        return prepared


def _key_header(key: str) -> Headers:
    return (("authorization", f"Bearer {key}"),) if key else ()
