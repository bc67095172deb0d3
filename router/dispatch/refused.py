"""What a target's refusal means: whose fault it is, and how long to wait before it is asked again."""

from router.contract.errors import (
    UpstreamAuth,
    UpstreamError,
    UpstreamLoading,
    UpstreamMalformed,
    UpstreamModel,
    UpstreamRefused,
)
from router.contract.relay import Headers
from router.dialects.engine_words import read_loading
from router.dispatch.live.limits import read_windows, refused_wait
from router.dispatch.live.waits import read_retry_after
from router.dispatch.outgoing import Reachable

_UNAVAILABLE = 503


def read_refusal(reachable: Reachable, status: int, headers: Headers, body: bytes) -> UpstreamError:
    """The error for an answer that is none, by its status. What of it reaches a caller has no key of the target's in it."""
    name = reachable.target.name
    if 300 <= status < 400:
        return UpstreamMalformed(name, f'target "{name}" answered {status}, a redirect; redirects are not followed')
    if status == 402:
        return UpstreamAuth(name, f'target "{name}" says that its account has no credit (402). Check its billing')
    if status in (401, 403):
        words = f'target "{name}" rejected the configured API key ({status}). Check api_key in the router\'s config'
        return UpstreamAuth(name, words)
    if status == 404:
        return UpstreamModel(name, f'target "{name}" does not know the configured model or path (404)')
    fields, clean = dict(headers), reachable.guard.clean
    kind = clean(fields.get("content-type", "application/json").encode("latin-1", "replace")).decode("latin-1")
    wait = read_retry_after(fields, reachable.fit.quirks.reset_headers if status == 429 else (), body)
    if wait is None and status == 429:
        wait = refused_wait(read_windows(fields, 0.0), 0.0) or None
    if status == _UNAVAILABLE and (words := read_loading(clean(body))):
        return UpstreamLoading(name, words, retry_after_seconds=wait)
    return UpstreamRefused(name, status, clean(body), kind, retry_after_seconds=wait)
