"""Targets that speak Anthropic Messages over HTTP, natively: bytes out, bytes back."""

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

_FORWARDED = ("anthropic-beta",)
_VERSION = "2023-06-01"
_LOGIN_PREFIX = "sk-ant-oat"


class AnthropicHttpAdapter(Adapter):
    """One POST for each request, with the target's own key or, with `api_key: caller`, the caller's."""

    name: ClassVar[str] = "anthropic_http"
    speaks: ClassVar[frozenset[Dialect]] = frozenset({Dialect.MESSAGES})

    def __init__(self, endpoint: Endpoint, settings: AdapterSettings, upstream: Upstream) -> None:
        self._endpoint = endpoint
        base = endpoint.base_url.rstrip("/")
        # Its own SDK takes the address without the version and most other clients with it: both are right here.
        self._base_url = base if base.endswith("/v1") else f"{base}/v1"
        self._upstream = upstream

    def open(self, request: OutgoingRequest, sink: Sink) -> UpstreamCall:
        """Send the body unchanged and relay the answer."""
        view = request.view
        headers = [
            ("content-type", "application/json"),
            ("accept", "text/event-stream" if view.is_streaming else "application/json"),
            ("anthropic-version", view.headers.get("anthropic-version") or _VERSION),
            *((name, value) for name in _FORWARDED if (value := view.headers.get(name))),
        ]
        if key := self._endpoint.key_for(request):
            # A login token, which only a caller can send, is not an API key: it is passed on as it came.
            is_login = key.startswith(_LOGIN_PREFIX)
            headers.append(("authorization", f"Bearer {key}") if is_login else ("x-api-key", key))
        path = "/messages/count_tokens" if view.operation is Operation.COUNT_TOKENS else "/messages"
        return self._upstream.open(
            UpstreamRequest(
                target=request.target.name,
                method="POST",
                url=self._base_url + path,
                headers=tuple(headers),
                body=request.body,
                timeouts=request.target.timeouts,
                waits_for_first_byte=view.is_streaming,
                tls=self._endpoint.tls,
            ),
            sink,
        )
