"""What a target's refusal means: whose fault it is, and how long to wait."""

from router.contract.errors import (
    Sent,
    UpstreamAuth,
    UpstreamError,
    UpstreamLoading,
    UpstreamMalformed,
    UpstreamModel,
    UpstreamRefused,
)
from router.contract.relay import Headers
from router.contract.words import AccountFault
from router.dialects.accounts import AccountRefusal, read_account_refusal
from router.dialects.as_sent import is_returned
from router.dialects.engine_words import read_loading
from router.dispatch.live.limits import read_windows, refused_wait
from router.dispatch.live.plan_windows import read_headers, read_used_up
from router.dispatch.live.waits import read_retry_after
from router.dispatch.outgoing import Reachable

_UNAVAILABLE, _TOO_MANY = 503, 429


def read_refusal(
    reachable: Reachable, status: int, headers: Headers, body: bytes, sent: tuple[int, bytes] | None = None
) -> UpstreamError:
    """The error for a failed answer, by its status, without the target's key.

    `sent` are the status and bytes of an answer that began well, and tells its error in a stream.
    """
    name = reachable.target.name
    if reachable.target.is_plan:
        return _refused_by_plan(reachable, status, headers, body, sent or (status, body))
    if 300 <= status < 400:
        return UpstreamMalformed(name, f'target "{name}" answered {status}, a redirect; redirects are not followed')
    clean = reachable.guard.clean
    account = read_account_refusal(status, clean(body))
    if account is not None:
        return _barred(name, status, account)
    fields = dict(headers)
    kind = clean(fields.get("content-type", "application/json").encode("latin-1", "replace")).decode("latin-1")
    wait = read_retry_after(fields, reachable.fit.quirks.reset_headers if status == 429 else (), body)
    if wait is None and status == 429:
        wait = refused_wait(read_windows(fields, 0.0), 0.0) or None
    if status == _UNAVAILABLE and (words := read_loading(clean(body))):
        return UpstreamLoading(name, words, retry_after_seconds=wait)
    return UpstreamRefused(name, status, clean(body), kind, retry_after_seconds=wait)


def _refused_by_plan(
    reachable: Reachable, status: int, headers: Headers, body: bytes, sent: tuple[int, bytes]
) -> UpstreamRefused:
    """A plan's account is its caller's own, so every refusal is for the caller, as it was sent."""
    fields, own = dict(headers), tuple(header for header in headers if is_returned(header[0]))
    refused = UpstreamRefused(
        reachable.target.name,
        status,
        body,
        fields.get("content-type", ""),
        retry_after_seconds=read_retry_after(fields, (), body),
        as_sent=Sent(sent[0], own, sent[1]),
    )
    if status == _TOO_MANY:
        refused.used_up = read_used_up(fields, body, read_headers(fields))
    return refused


_PROBLEMS = {
    AccountFault.KEY: "rejected the configured API key ({status}). Check api_key in the router's config",
    AccountFault.CREDIT: "says that its account has no credit ({status}). Check its billing",
    AccountFault.REGION: "does not serve the country or region that this router calls from ({status})",
    AccountFault.MODEL: "does not serve the configured model ({status}). Check model in the router's config",
}


def _barred(target: str, status: int, account: AccountRefusal) -> UpstreamError:
    """In our words: the target's own are for the operator."""
    fault, words = account
    problem = _PROBLEMS[fault].format(status=status)
    if status == 404:
        problem = "does not know the configured model or path (404)"
    kind = UpstreamModel if fault is AccountFault.MODEL else UpstreamAuth
    return kind(target, f'target "{target}" {problem}', fault, words)
