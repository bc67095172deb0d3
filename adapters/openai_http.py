"""Targets that speak Chat Completions or Responses over HTTP, natively: bytes out, bytes back."""

from typing import ClassVar

from router.contract.relay import (
    Adapter,
    AdapterSettings,
    Endpoint,
    OutgoingRequest,
    Sink,
    Upstream,
    UpstreamCall,
    UpstreamRequest,
)
from router.contract.words import Dialect, Operation
from router.dialects.table import SPECS

_FORWARDED = ("openai-beta", "x-client-request-id")
"""The caller's headers that go upstream. Everything else, credentials above all, stays here."""


class OpenAiHttpAdapter(Adapter):
    """One POST for each request, with the target's own key or, with `api_key: caller`, the caller's."""

    name: ClassVar[str] = "openai_http"
    speaks: ClassVar[frozenset[Dialect]] = frozenset({Dialect.CHAT, Dialect.RESPONSES})

    def __init__(self, endpoint: Endpoint, settings: AdapterSettings, upstream: Upstream) -> None:
        self._endpoint = endpoint
        self._base_url = endpoint.base_url.rstrip("/")
        self._upstream = upstream

    def open(self, request: OutgoingRequest, sink: Sink) -> UpstreamCall:
        """Send the body unchanged and relay the answer."""
        view = request.view
        headers = [
            ("content-type", "application/json"),
            ("accept", "text/event-stream" if view.is_streaming else "application/json"),
            *[(name, value) for name in _FORWARDED if (value := view.headers.get(name))],
        ]
        if key := self._endpoint.key_for(request):
            headers.append(("authorization", f"Bearer {key}"))
        return self._upstream.open(
            UpstreamRequest(
                target=request.target.name,
                method="POST",
                url=self._base_url + SPECS[request.dialect].paths[Operation.CREATE],
                headers=tuple(headers),
                body=request.body,
                timeouts=request.target.timeouts,
                waits_for_first_byte=view.is_streaming,
                tls=self._endpoint.tls,
            ),
            sink,
        )
