"""Trying the targets of a decision, one after another, while no byte has been answered."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from router.contract.decision import Decision
from router.contract.entry import Attempt, Dispatched, Usage
from router.contract.errors import (
    BadRequest,
    CallerKey,
    TandemError,
    TiersBusy,
    Unavailable,
    UpstreamAuth,
    UpstreamError,
    UpstreamModel,
    UpstreamRefused,
    UpstreamTimeout,
    UpstreamUnreachable,
)
from router.contract.relay import Headers, OutgoingRequest, Sink, UpstreamCall
from router.contract.request import RequestView
from router.contract.target import Target
from router.contract.words import Operation, Outcome
from router.dialects.opaque import keys_for, refused_by
from router.dialects.refusals import says_too_long
from router.dialects.transcripts import view_for, without_stored
from router.dispatch.bridged import Bridged
from router.dispatch.live import LiveStatistics
from router.dispatch.outgoing import Outgoing, Reachable, prepare
from router.dispatch.relay import Relay

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
_TRIES_IN_TIER = 2
_DEFAULT_WAIT_SECONDS = 1.0


@dataclass(slots=True)
class Errand:
    """What every attempt of one request shares.

    `head` writes the headers that say who serves and why; `begun` hears of it once the answer's first bytes are out.
    """

    decision: Decision
    client: Sink
    head: Callable[[Target, str], Headers]
    begun: Callable[[Target], None]
    record: Dispatched
    deadline: float = 0.0
    failed: str = ""
    """The attempts before this one, in words."""


class Dispatcher:
    """Opens calls and relays answers. Knows targets by name; decides nothing."""

    def __init__(
        self,
        reachable: Mapping[str, Reachable],
        live: LiveStatistics,
        *,
        deadline_seconds: float,
        max_response_bytes: int,
        clock: Callable[[], float],
    ) -> None:
        self._reachable, self._live, self._clock = reachable, live, clock
        self._deadline_seconds, self._max_response_bytes = deadline_seconds, max_response_bytes

    async def send(self, view: RequestView, errand: Errand) -> None:
        """Try targets until one serves. The record is filled as it goes, so that it is true even if the caller leaves.

        Raises the error that the caller should see when none served and nothing was sent.
        """
        errand.deadline = self._clock() + self._deadline_seconds
        record, last, waits = errand.record, None, []
        misfit: TandemError | None = None
        for name in self._plan(errand.decision):
            reachable = self._reachable[name]
            if last is not None and not _may_follow(last, reachable.target, self._reachable):
                continue
            if last is not None and self._clock() >= errand.deadline:
                break
            error = await self._attempt(view_for(view, reachable.target), reachable, errand)
            if isinstance(error, UpstreamError):
                view, error = await self._try_once_more(view, reachable, errand, error)
            if isinstance(error, BadRequest):
                misfit = misfit or error
                errand.failed += f"{name} cannot serve this ({error.code}); "
                continue
            last = error
            if last is None or record.outcome in (Outcome.CUT_SHORT, Outcome.FAILED):
                return
            errand.failed += f"{name} failed ({_short(last)}); "
            if last.retry_after_seconds is not None:
                waits.append(last.retry_after_seconds)
        if last is None:
            assert misfit is not None
            raise misfit
        raise _final_error(last, record.attempts, min(waits, default=None))

    async def _try_once_more(
        self, view: RequestView, reachable: Reachable, errand: Errand, error: TandemError | None
    ) -> tuple[RequestView, TandemError | None]:
        """Ask a target again that lost what it was to keep, or that refuses hidden state which it cannot read."""
        target = reachable.target
        if view.continued is not None and view.continued.stored_by == target.name and _has_forgotten(error):
            view = without_stored(view)
            error = await self._attempt(view_for(view, target), reachable, errand)
        keys = keys_for(view_for(view, target), target.name) if _refuses_state(error) else ()
        if keys:
            stripped = view._replace(origins={**view.origins, **dict.fromkeys(keys, refused_by(target.name))})
            error = await self._attempt(view_for(stripped, target), reachable, errand)
            if error is None:  # only now is it known that these were what it refused
                view, errand.record.refused_state = stripped, keys
        return view, error

    def find_losses(self, view: RequestView, target: str) -> tuple[str, ...]:
        """What this request would lose on its way to a target, or why it cannot go there."""
        reachable = self._reachable[target]
        view = view_for(view, reachable.target)
        if _is_counted_here(view, reachable.target):
            return ()
        try:
            return prepare(view, reachable, 0).dropped
        except BadRequest as error:
            return (f"cannot be served: {error.message}",)

    def _plan(self, decision: Decision) -> list[str]:
        """The tier's first two targets, then the other tier's first."""
        return [*decision.targets[:_TRIES_IN_TIER], *decision.spill[:1]]

    async def _attempt(self, view: RequestView, reachable: Reachable, errand: Errand) -> TandemError | None:
        target, clock, decision, record = reachable.target, self._clock, errand.decision, errand.record
        began, failed = clock(), errand.failed
        is_counted_here = _is_counted_here(view, target)
        try:
            outgoing = (
                Outgoing(view.dialect, view.raw, ()) if is_counted_here else prepare(view, reachable, decision.prompt_tokens)
            )
        except BadRequest as misfit:  # what this target can only misunderstand another may take as it is
            record.attempts.append(Attempt(target.name, None, misfit.code, 0.0))
            return misfit
        relay = Relay(
            errand.client,
            target=target.name,
            dialect=view.dialect,
            request_id=view.id,
            is_streaming=view.is_streaming,
            max_bytes=self._max_response_bytes,
            head=lambda: errand.head(target, failed),
            begun=lambda: errand.begun(target),
            clock=clock,
        )
        relay.recording, relay.bridged, relay.reset_headers = record.answer, outgoing.answer, reachable.fit.quirks.reset_headers
        number = self._live.began(target.name, began, is_streaming=view.is_streaming)
        relay.on_first_token = lambda now: self._live.answered(target.name, number, now - began, decision.prompt_tokens, now)
        record.target, record.failed, record.dropped = target.name, failed, outgoing.dropped
        sink: Sink = relay
        if outgoing.answer is not None:
            sink = Bridged(
                outgoing.answer,
                relay,
                target=target.name,
                is_streaming=view.is_streaming,
                max_bytes=self._max_response_bytes,
            )
        call: UpstreamCall | None = None
        error: TandemError | None = None
        # A plain timer: asyncio.timeout does the same for three times the cost.
        timer = asyncio.get_running_loop().call_later(max(0.0, errand.deadline - began), self._be_late, relay, target.name)
        try:
            if is_counted_here:
                _tell_count(relay, decision.prompt_tokens)
            else:
                request = OutgoingRequest(view, target, outgoing.dialect, outgoing.body, decision.prompt_tokens)
                call = reachable.adapter.open(request, sink)
            error = await relay.finished
            if isinstance(error, UpstreamAuth) and target.takes_callers_key:
                error = CallerKey(f'target "{target.name}" refused your key ({relay.status})')
        except asyncio.CancelledError as leaving:
            record.attempts.append(Attempt(target.name, relay.status, "abandoned", round(clock() - began, 4)))
            if leaving.args:  # the router stops: the caller is still there, and is told
                stopping = Unavailable("the router stops")
                if not relay.has_reached_client:
                    raise stopping from leaving
                relay.fail(stopping)
            raise
        finally:
            timer.cancel()
            relay.close()
            if call is not None and not relay.has_served:
                call.cancel()
            self._note(view, decision, relay, record)
            # A caller that reads slowly slows the target down: that says nothing of the target's own speed.
            is_measured = record.usage is not None and not record.usage.is_estimated and not relay.was_paused
            self._live.ended(target.name, number, clock(), record.tokens_per_second if is_measured else None)
        record.attempts.append(Attempt(target.name, relay.status, error.code if error else None, round(clock() - began, 4)))
        self._conclude(relay, error, record)
        if isinstance(error, UpstreamError) and error.retry_after_seconds is not None:
            self._live.asked_to_wait(target.name, error.retry_after_seconds, clock())
        return error

    def _be_late(self, relay: Relay, target: str) -> None:
        relay.fail(UpstreamTimeout(target, f"the request's deadline of {self._deadline_seconds:g} s has passed"))

    def _note(self, view: RequestView, decision: Decision, relay: Relay, record: Dispatched) -> None:
        """Take down tokens and times of what reached the caller so far."""
        record.first_token_at = relay.first_token_at
        usage = relay.usage
        if view.operation is Operation.COUNT_TOKENS:
            usage = None  # a count costs nothing and writes nothing
        elif relay.has_reached_client and (usage is None or usage.output_tokens == 0):
            known = usage.input_tokens if usage else 0
            usage = Usage(known or decision.prompt_tokens, relay.estimate_output_tokens(), is_estimated=True)
        record.usage = usage
        record.tokens_per_second = None
        if usage is not None and view.is_streaming and relay.first_token_at is not None and usage.output_tokens > 4:
            seconds = self._clock() - relay.first_token_at
            if seconds > 0.001:
                record.tokens_per_second = usage.output_tokens / seconds

    @staticmethod
    def _conclude(relay: Relay, error: TandemError | None, record: Dispatched) -> None:
        record.error = error
        if error is None:
            record.outcome, record.status = Outcome.SERVED, 200
        elif relay.ended_in_stream is not None:
            record.outcome, record.status = Outcome.FAILED, 200
        elif relay.has_reached_client:
            record.outcome, record.status = Outcome.CUT_SHORT, 200


def _has_forgotten(error: TandemError | None) -> bool:
    """Whether a target lost the response that it said it would keep; servers answer 400 or 404, the latter without a code."""
    if isinstance(error, UpstreamRefused):
        return error.status == 400 and _FORGOTTEN_MARK in error.body
    return isinstance(error, UpstreamModel)


def _refuses_state(error: TandemError | None) -> bool:
    """Whether a target says that it cannot read the hidden state in the conversation."""
    if not isinstance(error, UpstreamRefused) or error.status != 400:
        return False
    return any(mark in error.body for mark in _STATE_MARKS)


def _is_counted_here(view: RequestView, target: Target) -> bool:
    """No other dialect has a call for counting, and an answer would cost money: the router's own count must do."""
    return view.operation is Operation.COUNT_TOKENS and target.dialect_for(view.dialect) is not view.dialect


def _tell_count(sink: Sink, tokens: int) -> None:
    sink.start(200, (("content-type", "application/json"),))
    sink.write(b'{"input_tokens":%d}' % tokens)
    sink.end()


def _short(error: TandemError) -> str:
    return str(error.status) if isinstance(error, UpstreamRefused) else error.code.removeprefix("upstream_")


def _may_follow(error: TandemError, target: Target, reachable: Mapping[str, Reachable]) -> bool:
    """Whether a failure may be tried again on this target. A refusal for length may, on a larger one."""
    if not isinstance(error, UpstreamError):
        return False
    if isinstance(error, UpstreamRefused) and error.status in (400, 413):
        failed = reachable[error.target].target
        return target.window_tokens > failed.window_tokens and says_too_long(error.body.decode("utf-8", "replace"))
    return error.is_retryable


def _final_error(last: TandemError, attempts: list[Attempt], wait: float | None) -> TandemError:
    """What the caller sees when every attempt failed: the target's own words if they blame the request, else ours.

    `wait` is the shortest time that a target asked for. A 429 among the attempts makes it one: there is somebody to wait for.
    """
    if isinstance(last, UpstreamRefused) and last.blames_the_request:
        return last
    statuses = [attempt.status for attempt in attempts]
    tried = ", ".join(f"{attempt.target} ({_tried(attempt)})" for attempt in attempts)
    if 429 in statuses:
        seconds = _DEFAULT_WAIT_SECONDS if wait is None else wait
        return TiersBusy(f"every target that may serve this is over its limit or failed: {tried}", retry_after_seconds=seconds)
    if isinstance(last, UpstreamRefused) and last.status in (503, 529):
        return Unavailable(f"every target that may serve this is overloaded: {tried}", retry_after_seconds=wait)
    if isinstance(last, UpstreamRefused):
        return UpstreamUnreachable(last.target, f"every target that may serve this failed: {tried}")
    if len(attempts) > 1:
        last.message = f"{last.message}. Tried: {tried}"
    return last


def _tried(attempt: Attempt) -> str:
    return str(attempt.status) if attempt.status and attempt.status >= 400 else str(attempt.error)
