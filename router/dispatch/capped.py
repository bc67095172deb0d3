"""An answer to a caller with a budget. A stream is cut if its target writes on when nothing is left to pay for that."""

from collections.abc import Coroutine
from typing import Any

from msgspec import field

from router.contract.errors import BudgetSpent
from router.contract.usage import Usage
from router.dialects.answers import read_whole_answer
from router.dialects.sse import Tail
from router.dialects.table import SPECS
from router.dispatch.meter import cost_of, measure_usage
from router.dispatch.relay import Relay
from router.loop.tasks import spawn_started

_LOOK_BYTES = 512
"""Bytes between two counts of what was written, at least: each reads the newest frames."""
_MAX_LOOK_BYTES = 1 << 20
_BYTES_A_TOKEN = 3
"""Fewer than most tokens have, so that a count comes before what is covered was written."""
_MAX_FRAME_BYTES = 1 << 18
"""A frame that is longer is broken off."""
_MAX_KEPT_BYTES = 1 << 22
_IN_FLIGHT_TOKENS = 32
"""Written while a target that keeps to its cap is about to say so."""
_WHY = b": tandem.cut the budget of your key is used up\n\n"


class CappedRelay(Relay, eq=False):
    """Ends a stream as its dialect ends one that is too long, preceded by a comment that says why.

    An answer in one piece that cost more than was held for it is passed on when the other routers know that.
    """

    _relayed_bytes: int = 0
    _look_at: float = 0
    _sent: list[bytes] = field(default_factory=list)
    """What the last event of a response repeats. Other dialects need no more than the tail has."""
    _sent_bytes: int = 0

    def write(self, data: bytes) -> None:
        if self.is_over:
            return
        super().write(data)
        tail = self._tail
        if tail is None or self.is_over:
            return
        self._relayed_bytes = relayed = self._relayed_bytes + len(data)
        if SPECS[self.view.dialect].continues_responses and self._sent_bytes < _MAX_KEPT_BYTES:
            self._sent.append(data)
            self._sent_bytes += len(data)
        if relayed >= self._look_at and (tail.at_frame_end or relayed >= self._look_at + _MAX_FRAME_BYTES):
            self._look(tail)

    def _look(self, tail: Tail) -> None:
        written, holding = self.estimate_output_tokens(), self.context.holding
        assert holding is not None
        left = holding.cover(written) + _IN_FLIGHT_TOKENS - written
        if left > 0:
            self._look_at = self._relayed_bytes + max(_LOOK_BYTES, min(left * _BYTES_A_TOKEN, _MAX_LOOK_BYTES))
        elif not SPECS[self.view.dialect].read_end(tail.frames()).is_complete:
            self._cut(tail, written)

    def _cut(self, tail: Tail, written: int) -> None:
        error = BudgetSpent(f"the answer was cut after about {written} tokens: the budget of your key is used up")
        if not tail.at_frame_end:
            self.fail(error)
            return
        usage = Usage(self.context.decision.prompt_tokens, written, is_estimated=True)
        if self._translator is not None:
            end = self._translator.cut(usage)
        else:
            end = SPECS[self.view.dialect].write_cut(b"".join(self._sent) or tail.newest(), usage)
        self._caller.write(_WHY + end)
        self._caller.end()
        self._settle(error)

    def _end_whole(self, body: bytes) -> None:
        holding = self.context.holding
        assert holding is not None
        try:
            told = read_whole_answer(self.view.dialect, body)
        except ValueError:
            told = None
        prompt, seen = self.context.decision.prompt_tokens, self.estimate_output_tokens()
        usage = measure_usage(self.view.operation, told, prompt, seen, is_billed=True)
        telling = holding.exceed(cost_of(usage, self.opened.target.price) or 0.0)
        if telling is None:
            super()._end_whole(body)
        else:
            spawn_started(self._end_later(telling, body), name="tell what is overspent")

    async def _end_later(self, telling: Coroutine[Any, Any, None], body: bytes) -> None:
        await telling
        if not self.finished.done():
            super()._end_whole(body)
