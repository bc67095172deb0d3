"""The ledger's entry of an attempt whose owner is gone, written by whoever takes its job over.

It has the id that the owner would have used, so that an attempt is in a ledger once, whoever recorded it. Its tokens are those
that the log names at its end, else an estimate: the prompt, and one token for each frame of the log.
"""

import time
from contextlib import suppress

from msgspec.structs import replace

from router.contract.entry import Attempt, Entry
from router.contract.exchange import Deadline, Exchange, Observers
from router.contract.facts import AttemptEnded, AttemptOpened, Ending, Settled
from router.contract.job import Job
from router.contract.usage import Usage
from router.contract.words import Outcome
from router.dialects.responses.answer import read_usage
from router.dialects.responses.background import request_id_of, write_arrival
from router.dialects.responses.logged import LogFrames
from router.dispatch.meter import cost_of
from router.house import House
from router.settle.entry import write_entry

_UNOBSERVED = Observers((), lambda exchange, error: None)
"""The sessions and the figures of this process are not about what another one did."""
_SERVED, _INTERRUPTED = Ending(Outcome.SERVED, 200), Ending(Outcome.INTERRUPTED, 499)


async def write_lost_entry(house: House, job: Job, log: LogFrames, frames: int) -> Entry:
    """The entry of a job's last attempt, which said what the log holds, in so many frames.

    Its target is the one that the request would go to now. Where none can be chosen any more, target and cost are not known.
    """
    arrival, plan, now = write_arrival(job, request_id_of(job.id, job.attempt)), house.plan.for_background(), house.clock()
    exchange = Exchange(arrival, now, Deadline(now), _UNOBSERVED, plan)
    with suppress(Exception):  # whatever is wrong with a request, its job must go on, or end
        decided = await house.decide(arrival, plan)
        target = plan.targets[decided.decision.targets[0]]
        told = read_usage(log.response.get("usage"))
        usage = told or Usage(decided.decision.prompt_tokens, frames, is_estimated=True)
        attempt = Attempt(target.name, 200 if frames else None, None, 0.0, usage, cost_of(usage, target.price))
        exchange.note(decided)
        exchange.note(AttemptOpened(now, target, "", ()))
        exchange.note(AttemptEnded(now, target, attempt, None, usage, None))
    entry = write_entry(exchange, Settled(now, _SERVED if log.ended is not None else _INTERRUPTED), time.time())
    return replace(entry, places=None)  # nothing is learned from the same words twice
