"""A question to one target about a request: a separate call, never retried. It has the target's own key, or the caller's."""

import asyncio
from collections.abc import Callable, Mapping
from typing import NamedTuple

import orjson
from msgspec.structs import replace

from router.contract.entry import Attempt
from router.contract.errors import TandemError, UpstreamMalformed
from router.contract.exchange import Arrival, Exchange
from router.contract.facts import QuestionEnded
from router.contract.relay import UpstreamCall
from router.contract.request import RequestView
from router.contract.sinks import Collected
from router.contract.usage import Usage
from router.contract.words import DEFAULT_DIALECT, Operation
from router.dialects.answers import read_whole_answer
from router.dialects.requests import read_request
from router.dialects.table import SPECS
from router.dispatch.meter import cost_of, is_billed, measure_usage
from router.dispatch.outgoing import Outgoing, Reachable, prepare
from router.dispatch.refused import read_refusal
from router.limits.queue import Permit

LATE = "late"
_ABANDONED = "abandoned"
_MAX_BYTES = 65_536


class Asked(NamedTuple):
    """`text` is empty unless an answer came in time."""

    ended: QuestionEnded
    text: str


async def ask(
    exchange: Exchange,
    reachable: Reachable,
    words: str,
    within_seconds: float,
    clock: Callable[[], float],
    permit: Permit | None = None,
    *,
    max_tokens: int,
    headers: Mapping[str, str] = {},
) -> Asked:
    """`permit` is needed for a target with a quota. Always noted as a fact; a caller who leaves closes the call.

    `headers` hold the caller's key, for a target that takes it.
    """
    loop, opened_at, target = asyncio.get_running_loop(), clock(), reachable.target
    answer, text, code = Collected(_MAX_BYTES), "", _ABANDONED
    call: UpstreamCall | None = None
    error: TandemError | None = None
    usage: Usage | None = None
    timer = loop.call_later(min(within_seconds, exchange.deadline.left(opened_at)), answer.over.set)
    try:
        outgoing = prepare(_write(exchange.id, words, reachable, max_tokens, headers), reachable, estimate_tokens(words))
        if reachable.trace is not None:
            outgoing = replace(outgoing, trace=reachable.trace(exchange, is_question=True))
        call = reachable.adapter.open(outgoing, answer)
        await answer.over.wait()
        code = LATE
        if answer.has_ended or answer.is_too_long:
            text, usage = _read(answer, reachable, outgoing)
            code = ""
    except TandemError as failed:
        error, code = failed.without_frames(), failed.code
    finally:
        timer.cancel()
        if call is not None and not answer.has_ended:
            call.cancel()
        now, is_used = clock(), is_billed(answer.status or None, error)
        usage = measure_usage(Operation.CREATE, usage, estimate_tokens(words), 0, is_billed=is_used)
        cost, seconds = cost_of(usage, target.price), round(now - opened_at, 4)
        row = Attempt(target.name, answer.status or None, code or None, seconds, usage, cost, is_question=True, is_look=True)
        exchange.note(ended := QuestionEnded(now, target, row, error, usage, None, opened_at))
        if permit is not None:
            permit.settle((ended,), now)
    return Asked(ended, text)


def estimate_tokens(words: str) -> int:
    """Near enough for a few words: the target's own count is charged."""
    return len(words) // 4


def _write(request_id: str, words: str, reachable: Reachable, max_tokens: int, headers: Mapping[str, str]) -> RequestView:
    """No history, no tools. Effort only if the config names some: else targets refuse it."""
    spec = SPECS[DEFAULT_DIALECT]
    body = {**spec.write_example(words), spec.limit_field: max_tokens}
    if reachable.fit.efforts:
        body |= dict.fromkeys(spec.reasoning_fields[:1], "low")
    return read_request(Arrival(request_id, spec.name, Operation.CREATE, headers, orjson.dumps(body)))


def _read(answer: Collected, reachable: Reachable, outgoing: Outgoing) -> tuple[str, Usage | None]:
    """Raises the answer's error."""
    if answer.error is not None:
        raise answer.error
    body, status, target = bytes(answer.body), answer.status, reachable.target.name
    if status // 100 != 2:
        raise read_refusal(reachable, status, answer.headers, body)
    try:
        usage = read_whole_answer(outgoing.dialect, body)
    except ValueError as invalid:
        words = f'target "{target}" sent a body that is not valid in its dialect'
        raise UpstreamMalformed(target, words) from invalid
    from router.dialects.heard import hear

    heard = hear(outgoing.dialect, body)
    return "".join(heard.texts) if heard is not None else "", usage
