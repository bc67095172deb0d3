"""A question to one target, next to the request that it is about: a few words there, a few words back, within a time.

It is a call of its own, with the target's own key and nothing of the caller's but the words in it. It is never tried again.
"""

import asyncio
from collections.abc import Callable
from typing import NamedTuple

import orjson

from router.contract.entry import Attempt
from router.contract.errors import TandemError, UpstreamMalformed
from router.contract.exchange import Arrival, Exchange
from router.contract.facts import QuestionEnded
from router.contract.relay import Flow, Headers, UpstreamCall
from router.contract.request import RequestView
from router.contract.usage import Usage
from router.contract.words import DEFAULT_DIALECT, Operation
from router.dialects.answers import read_whole_answer
from router.dialects.heard import hear
from router.dialects.requests import read_request
from router.dialects.table import SPECS
from router.dispatch.meter import cost_of, is_billed, measure_usage
from router.dispatch.outgoing import Outgoing, Reachable, prepare
from router.dispatch.queues.waiter import Permit
from router.dispatch.refused import read_refusal

LATE = "late"
"""The error of a question whose answer did not come in time."""
_ABANDONED = "abandoned"
_MAX_TOKENS = 64
"""One word is enough. A target that reasons gets a little room, and one that talks is cut off."""
_MAX_BYTES = 65_536


class Asked(NamedTuple):
    """How a question ended, and what was answered: nothing, unless an answer came in time."""

    ended: QuestionEnded
    text: str


async def ask(
    exchange: Exchange,
    reachable: Reachable,
    words: str,
    within_seconds: float,
    clock: Callable[[], float],
    permit: Permit | None = None,
) -> Asked:
    """Ask a target, and wait for its answer so long at most. `permit` is the right to, where the target has a quota.

    The fact of it is noted however it ends; a caller who leaves meanwhile closes the call.
    """
    loop, opened_at, target = asyncio.get_running_loop(), clock(), reachable.target
    answer, text, code = _Answer(loop.create_future()), "", _ABANDONED
    call: UpstreamCall | None = None
    error: TandemError | None = None
    usage: Usage | None = None
    timer = loop.call_later(min(within_seconds, exchange.deadline.left(opened_at)), answer.finish)
    try:
        outgoing = prepare(_write(exchange.id, words, reachable), reachable, estimate_tokens(words))
        call = reachable.adapter.open(outgoing, answer)
        is_in_time = await answer.finished
        code = LATE
        if is_in_time:
            text, usage = answer.read(reachable, outgoing)
            code = ""
    except TandemError as failed:
        error, code = failed.without_frames(), failed.code
    finally:
        timer.cancel()
        if call is not None and not answer.is_whole:
            call.cancel()
        now, is_used = clock(), is_billed(answer.status, error)
        usage = measure_usage(Operation.CREATE, usage, estimate_tokens(words), 0, is_billed=is_used)
        cost, seconds = cost_of(usage, target.price), round(now - opened_at, 4)
        row = Attempt(target.name, answer.status, code or None, seconds, usage, cost, is_question=True)
        exchange.note(ended := QuestionEnded(now, target, row, error, usage, None, opened_at))
        if permit is not None:
            permit.end(now, ended)
    return Asked(ended, text)


def estimate_tokens(words: str) -> int:
    """Near enough for a few words: they are charged by what the target says of them."""
    return len(words) // 4


def _write(request_id: str, words: str, reachable: Reachable) -> RequestView:
    """The question as a request of its own: no header of the caller's, no history, no tools.

    Effort is only named where the config has words for it: a target that does not reason refuses the field.
    """
    spec = SPECS[DEFAULT_DIALECT]
    body = {**spec.write_example(words), spec.limit_field: _MAX_TOKENS}
    if reachable.fit.efforts:
        body |= dict.fromkeys(spec.reasoning_fields[:1], "low")
    return read_request(Arrival(request_id, spec.name, Operation.CREATE, {}, orjson.dumps(body)))


class _Answer:
    """A sink that keeps a short answer. `finished` tells whether it came to an end in time."""

    def __init__(self, finished: "asyncio.Future[bool]") -> None:
        self.finished = finished
        self.status: int | None = None
        self.is_whole = False
        self._headers: Headers = ()
        self._body = bytearray()
        self._error: TandemError | None = None

    def feed_from(self, flow: Flow) -> None:
        """Nothing that is so short needs to be paused."""

    def start(self, status: int, headers: Headers) -> None:
        self.status, self._headers = status, headers

    def write(self, data: bytes) -> None:
        if len(self._body) <= _MAX_BYTES:
            self._body += data
        else:
            self.finish(is_over=True)  # what came is not an answer of a few tokens

    def end(self) -> None:
        self.is_whole = True
        self.finish(is_over=True)

    def fail(self, error: TandemError) -> None:
        self._error = error
        self.is_whole = True
        self.finish(is_over=True)

    def finish(self, *, is_over: bool = False) -> None:
        """Wait no longer."""
        if not self.finished.done():
            self.finished.set_result(is_over)

    def read(self, reachable: Reachable, outgoing: Outgoing) -> tuple[str, Usage | None]:
        """What it says, and what it used. Raises the error that it came to."""
        if self._error is not None:
            raise self._error
        body, status, target = bytes(self._body), self.status or 0, reachable.target.name
        if status // 100 != 2:
            raise read_refusal(reachable, status, self._headers, body)
        try:
            usage = read_whole_answer(outgoing.dialect, body)
        except ValueError as invalid:
            words = f'target "{target}" sent a body that is not valid in its dialect'
            raise UpstreamMalformed(target, words) from invalid
        heard = hear(outgoing.dialect, body)
        return "".join(heard.texts) if heard is not None else "", usage
