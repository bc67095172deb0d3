"""Whether, where and how a request is retried: a pure function of the attempts so far.

It applies only before any bytes reach the caller. All requests share a budget of second attempts (`limits.retries`). A move to
another target is free if that target has served since the failures began, or if the first cannot take this request or has no
room.
"""

from collections.abc import Sequence
from enum import Enum

from msgspec import Struct

from router.contract.decision import Decision
from router.contract.entry import Attempt
from router.contract.errors import (
    BadRequest,
    TandemError,
    TiersBusy,
    Unavailable,
    UpstreamCut,
    UpstreamError,
    UpstreamLoading,
    UpstreamModel,
    UpstreamQueued,
    UpstreamRefused,
)
from router.contract.exchange import Deadline
from router.contract.target import Target
from router.dialects.hosts import STREAM_OPTIONS, says_too_long
from router.dispatch.live.circuit import blames_request
from router.limits.retries import Chances, Track

_NO_TIME_SECONDS = 0.01
"""Rest of a deadline whose timer fired slightly early: too short for any answer."""
_MAX_TARGETS_OF_TIER = 2
_MAX_SPILL_TARGETS = 1
_DEFAULT_WAIT_SECONDS = 1.0
_STATE_MARKS = (
    b"invalid_encrypted_content",
    b"could not be decrypted",
    b"Encrypted content is not supported",
    b"could not be verified",
    b"nvalid signature",
    b"nvalid `signature`",
    b"thinking.signature",
    b"bound to a different conversation",
    b"thought signature",
    b"thought_signature",
    b"without its required following item",
    b"without its required 'reasoning'",
)
_FORGOTTEN_MARK = b"previous_response_not_found"
_ASKING_MARK = STREAM_OPTIONS.encode()


class Form(Enum):
    AS_DECIDED = "as decided"
    AGAIN = "as decided, a second time"
    WITHOUT_REFERENCE = "with the whole history instead of a response id"
    WITHOUT_STATE = "without hidden state"


class Tried(Struct, frozen=True):
    """A failed attempt of which the caller got nothing."""

    target: Target
    attempt: Attempt
    error: TandemError
    form: Form = Form.AS_DECIDED
    sent_reference: bool = False
    """Whether the target was to look up the conversation by its own response id."""
    sent_state: bool = False
    refused_usage: bool = False
    """Whether it refused our question for usage, which the caller had not asked."""


class Try(Struct, frozen=True):
    target: str
    form: Form = Form.AS_DECIDED
    is_paid: bool = False


class Wait(Struct, frozen=True):
    """The budget is spent and other requests are probing this target: wait for their result."""

    target: str


class GiveUp(Struct, frozen=True):
    error: TandemError


Step = Try | Wait | GiveUp


def candidates_of(decision: Decision) -> tuple[str, ...]:
    """Targets to call, in order: the tier's first two, then the other tier's first."""
    return (*decision.targets[:_MAX_TARGETS_OF_TIER], *decision.spill[:_MAX_SPILL_TARGETS])


def next_step(candidates: Sequence[Target], tried: Sequence[Tried], now: float, deadline: Deadline, chances: Chances) -> Step:
    """The next step. The first is always a try, since a decision names a target."""
    if not tried:
        return Try(candidates[0].name)
    if deadline.left(now) <= _NO_TIME_SECONDS:
        return GiveUp(final_error(tried))
    rest = _other_targets(candidates, tried)
    found = _same_again(tried[-1]) or _move(rest, tried, chances) or (None if rest else _once_more(tried, chances))
    return found or GiveUp(final_error(tried, [target.name for target in rest]))


def _same_again(last: Tried) -> Try | None:
    """Retry with the whole history if it lost the response, or without what it rejected: hidden state, usage question."""
    if last.refused_usage:
        return Try(last.target.name, last.form)
    if last.form in (Form.AS_DECIDED, Form.AGAIN) and last.sent_reference and _has_forgotten(last.error):
        return Try(last.target.name, Form.WITHOUT_REFERENCE)
    if last.form is not Form.WITHOUT_STATE and last.sent_state and _rejects_state(last.error):
        return Try(last.target.name, Form.WITHOUT_STATE)
    return None


def _other_targets(candidates: Sequence[Target], tried: Sequence[Tried]) -> list[Target]:
    """Later targets that may help. A misfit or a full quota says nothing about others: the last failure decides."""
    names = [target.name for target in candidates]
    rest = candidates[names.index(tried[-1].target.name) + 1 :]
    failure = last_failure(tried)
    return [target for target in rest if failure is None or may_follow(failure, target)]


def _move(rest: Sequence[Target], tried: Sequence[Tried], chances: Chances) -> Try | Wait | None:
    """Without budget: to a target that served or is untried; else wait for other requests' results."""
    failure = last_failure(tried)
    is_free = failure is None or blames_request(failure.error) or isinstance(failure.error, UpstreamLoading | UpstreamQueued)
    for target in rest:
        standing = chances.standing(target.name)
        if is_free or standing is Track.PROVEN:
            return Try(target.name)
        if chances.has_budget or standing is Track.UNKNOWN:
            return Try(target.name, is_paid=True)
        if standing is Track.AWAITED:
            return Wait(target.name)
    return None


def _once_more(tried: Sequence[Tried], chances: Chances) -> Try | None:
    """Retry the only target: most failures pass. Not if it named a time, was unreachable or timed out.

    A plan's own client retries.
    """
    first, error = tried[0], tried[0].error
    if first.target.is_plan:
        return None
    is_passing = isinstance(error, UpstreamCut) or (isinstance(error, UpstreamRefused) and error.status >= 500)
    if len(tried) > 1 or not is_passing or error.retry_after_seconds is not None or not chances.has_budget:
        return None
    return Try(first.target.name, Form.AGAIN, is_paid=True)


def last_failure(tried: Sequence[Tried]) -> Tried | None:
    """The last failed call. A misfit, or a target without room, was never called."""
    return next((past for past in reversed(tried) if not isinstance(past.error, (BadRequest, TiersBusy))), None)


def may_follow(failure: Tried, target: Target) -> bool:
    """Whether the target may help after this failure; a larger window does if the request was too long."""
    error = failure.error
    if isinstance(error, UpstreamRefused) and error.status in (400, 413, 422):
        is_larger = target.window_tokens > failure.target.window_tokens
        return is_larger and says_too_long(error.body.decode("utf-8", "replace"))
    return error.is_retryable


def final_error(tried: Sequence[Tried], not_asked: Sequence[str] = ()) -> TandemError:
    """The error for the caller: the target's own words if they blame the request, else ours.

    A 429 among the attempts makes it one, with the shortest requested wait. `not_asked` are failing targets that were skipped.
    """
    error = _final_error(tried, not_asked)
    if len(tried) > 1 and isinstance(error, UpstreamError):
        return error.reworded(error.message, was_tried_again=True)
    return error


def _final_error(tried: Sequence[Tried], not_asked: Sequence[str]) -> TandemError:
    for past in tried:
        if isinstance(past.error, UpstreamRefused) and past.error.as_sent is not None:
            return past.error  # a plan's client knows what to do
    failure, busy = last_failure(tried), [past.error for past in tried if isinstance(past.error, TiersBusy)]
    if failure is None:
        return min(busy, key=lambda error: error.retry_after_seconds or 0.0) if busy else tried[0].error
    last = failure.error
    if blames_request(last):
        return last
    told = [f"{past.target.name} ({_why(past)})" for past in tried]
    words = ", ".join([*told, *(f"{name} (failing, not asked again)" for name in not_asked)])
    wait = min((past.error.retry_after_seconds for past in tried if past.error.retry_after_seconds is not None), default=None)
    if busy or any(isinstance(past.error, UpstreamRefused) and past.error.status == 429 for past in tried):
        seconds = _DEFAULT_WAIT_SECONDS if wait is None else wait
        return TiersBusy(f"every target that can serve this is rate limited or failed: {words}", retry_after_seconds=seconds)
    if isinstance(last, UpstreamRefused) and last.status in (503, 529):
        return Unavailable(f"every target that can serve this is overloaded: {words}", retry_after_seconds=wait)
    if isinstance(last, UpstreamRefused):
        failed = UpstreamRefused(last.target, UpstreamError.status, b"", "")
        return failed.reworded(f"every target that can serve this failed: {words}")
    return last.reworded(f"{last.message}. Tried: {words}") if len(told) + len(not_asked) > 1 else last


def failed_in_words(tried: Sequence[Tried], target: str) -> str:
    """Targets that failed or had no room before this one, for the answer's header."""
    words = {past.target.name: _say_failed(past) for past in tried if past.target.name != target}
    return ", ".join(words.values())


def _say_failed(past: Tried) -> str:
    name, error = past.target.name, past.error
    if isinstance(error, TiersBusy | UpstreamLoading):
        return error.message
    if isinstance(error, BadRequest):
        return f"{name} cannot serve this ({error.code})"
    if isinstance(error, UpstreamQueued):
        return f"{name} had not begun after {past.attempt.seconds:.1f} s"
    if isinstance(error, UpstreamRefused) and error.used_up is not None:
        return error.used_up.words
    short = str(error.status) if isinstance(error, UpstreamRefused) else error.code.removeprefix("upstream_")
    return f"{name} failed ({short})"


def _why(past: Tried) -> str:
    if isinstance(past.error, TiersBusy):
        return "busy"
    if isinstance(past.error, UpstreamLoading):
        return f'loading: "{past.error.words}"'
    status = past.attempt.status
    return str(status) if status and status >= 400 else str(past.attempt.error)


def _has_forgotten(error: TandemError) -> bool:
    """Whether a target lost a stored response; servers answer 400 or 404, the latter without a code."""
    if isinstance(error, UpstreamRefused):
        return error.status == 400 and _FORGOTTEN_MARK in error.body
    return isinstance(error, UpstreamModel)


def _rejects_state(error: TandemError) -> bool:
    if not isinstance(error, UpstreamRefused) or error.status != 400:
        return False
    return any(mark in error.body for mark in _STATE_MARKS)


def refuses_asking(error: TandemError) -> bool:
    """Whether a target rejects the field that asks for usage."""
    return isinstance(error, UpstreamRefused) and error.status in (400, 422) and _ASKING_MARK in error.body
