"""The house of a router that shares its stores with others. Routers that share nothing do not load it."""

import asyncio
from collections import Counter
from functools import cached_property

from router.contract.exchange import Exchange
from router.contract.sinks import AnswerSink
from router.house import AcceptJob, House
from router.plan import Plan, State
from router.responses.acknowledged import AcknowledgedSink
from router.settle.refuse import refuse_job


class SharedHouse(House):
    """A house whose answers end when what they changed is confirmed: the next request may come to another router."""

    def __init__(self, plan: Plan, state: State, unconfirmed: Counter[str], accept_job: AcceptJob = refuse_job) -> None:
        super().__init__(plan, state, accept_job=accept_job)
        self._unconfirmed = unconfirmed

    @cached_property
    def _loop(self) -> asyncio.AbstractEventLoop:
        """Kept, since to ask for it costs a system call."""
        return asyncio.get_running_loop()

    async def serve(self, exchange: Exchange, caller: AnswerSink) -> None:
        """Take a request down the road, and return when all of its answer has left. What is passed on changes nothing."""
        if exchange.arrival.passed is not None:
            await super().serve(exchange, caller)
            return
        exchange.confirming = sink = AcknowledgedSink(caller, self._unconfirmed, self._loop)
        try:
            await super().serve(exchange, sink)
            await sink.wait()
        finally:
            sink.release()
