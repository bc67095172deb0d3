"""`python -m tests.bench quotas`: a fast tier of 60 requests a minute, and ten callers that ask for 200 a minute together.

Three minutes on a clock that jumps, through the whole road, against an upstream that counts strictly: whatever is more than 60
in any minute is refused. Shares are looked at after the first minute: until a quota was used up once, nobody has to wait.
"""

import asyncio
import json
import random
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from policies.override import OverridePolicy
from router.contract.caller import Caller
from router.contract.facts import AttemptOpened, Dequeued, Queued
from router.contract.relay import OutgoingRequest, Sink
from router.contract.target import Quota
from router.contract.words import Tier
from router.dialects.fitting import Fit
from router.dispatch.outgoing import Reachable
from router.telemetry import events
from tests.tools.houses import Walk, make_house
from tests.tools.loop_clock import JumpingLoop
from tests.tools.scripted import ScriptedCall, answers
from tests.tools.values import make_target

MINUTE = 60.0
LIMIT = 60
MINUTES = 3
EQUAL, GREEDY = (20.0,) * 10, (110.0, *(10.0,) * 9)
"""What each caller asks for in a minute: all the same at random, or one far more and the others steadily."""
FAST_SECONDS, DEEP_SECONDS = 0.6, 7.1
"""How long an answer takes: as the targets' figures have it."""
MARGIN_SECONDS = 1.5
MOST_DEVIATION, MOST_LOST, MOST_OFF = 0.2, 0.03, 0.3
RUNS = 3
GOOD, TOO_MANY = (
    answers(),
    answers({"error": {"message": "too many"}}, 429, (("content-type", "application/json"), ("retry-after", "1"))),
)


class StrictUpstream:
    """Answers after a while, and refuses what is more than it allows in any minute."""

    def __init__(self, seconds: float, limit: int | None = None) -> None:
        self._seconds, self._limit = seconds, limit
        self.taken: list[float] = []
        self.refused: list[float] = []

    def open(self, request: OutgoingRequest, sink: Sink) -> ScriptedCall:
        call, loop = ScriptedCall(), asyncio.get_running_loop()
        sink.feed_from(call)
        is_over = self._limit is not None and self.used(loop.time()) >= self._limit
        (self.refused if is_over else self.taken).append(loop.time())
        script = TOO_MANY if is_over else GOOD
        loop.call_later(0.01 if is_over else self._seconds, lambda: None if call.is_cancelled else script(sink))
        return call

    def used(self, now: float, window_seconds: float = MINUTE) -> int:
        """What counts in the minute before a moment."""
        return bisect_right(self.taken, now) - bisect_right(self.taken, now - window_seconds)


@dataclass
class Found:
    """What three minutes came to."""

    asked: list[int]
    """By caller, as are the shares: what it asked for after the first minute."""
    shares: list[int]
    """What fast served of it in all three minutes."""
    later_shares: list[int]
    """What fast served of it after the first one."""
    refused: int
    """By the upstream, after the first minute."""
    told: list[float]
    """How long each request that waited was told that it would, when it came."""
    waits: list[float]
    lost: int
    """Requests that waited in vain, or longer than the other tier would have taken for them."""
    answers: Counter[tuple[int | None, str | None]]

    @property
    def deviation(self) -> float:
        """Of the caller whose share is the farthest from the mean."""
        mean = sum(self.later_shares) / len(self.later_shares)
        return max(abs(share - mean) for share in self.later_shares) / mean


async def ask(house, name: str, walks: list[Walk], tier: str | None) -> None:
    headers = {"x-tandem-tier": tier} if tier else {}
    walk = Walk(house, name=f"req_{len(walks)}", headers=headers, caller=Caller(name))
    walks.append(walk)
    await walk.task


async def play(rates: Sequence[float], seed: int, *, minutes: float = MINUTES, tier: str | None = None) -> Found:
    """Let callers ask at random moments, at these rates."""
    loop, dice = asyncio.get_running_loop(), random.Random(seed)
    fast, deep = StrictUpstream(FAST_SECONDS, LIMIT), StrictUpstream(DEEP_SECONDS)
    house = make_house(
        Reachable(make_target(quota=Quota(requests_per_minute=LIMIT)), fast, "fast-model", Fit(), None),
        Reachable(make_target("sage", Tier.DEEP), deep, "deep-model", Fit(), None),
        base_rate=0.001,
        policies=(OverridePolicy(OverridePolicy.Config()),),
    )
    walks: list[Walk] = []

    async def be(number: int) -> None:
        is_steady = rates[number] < max(rates)
        while True:
            pause = MINUTE / rates[number] * (dice.uniform(0.5, 1.5) if is_steady else dice.expovariate(1))
            if loop.time() + pause >= minutes * MINUTE:
                return
            await asyncio.sleep(pause)
            asking.append(loop.create_task(ask(house, f"s{number}", walks, tier)))

    asking: list[asyncio.Task] = []
    await asyncio.gather(*(be(number) for number in range(len(rates))))
    await asyncio.gather(*asking)
    return sum_up(walks, fast, len(rates), minutes)


def sum_up(walks: list[Walk], fast: StrictUpstream, callers: int, minutes: float) -> Found:
    end, asked, served = minutes * MINUTE, Counter[str](), dict[str, list[float]]()
    found = Found([], [], [], sum(at >= MINUTE for at in fast.refused), [], [], 0, Counter())
    for walk in walks:
        found.answers[walk.sink.status, walk.headers.get("x-tandem-target")] += 1
        caller, opened = walk.exchange.caller.name, walk.exchange.last(AttemptOpened)
        asked[caller] += walk.exchange.began >= MINUTE
        if opened is not None and opened.target.tier is Tier.FAST and walk.sink.status == 200:
            served.setdefault(caller, []).append(opened.at)
    for walk in walks:
        queued, left = walk.exchange.last(Queued), walk.exchange.last(Dequeued)
        if queued is not None and left is not None:
            found.told.append(queued.expected_seconds)
            found.waits.append(left.seconds)
            found.lost += left.seconds + FAST_SECONDS > DEEP_SECONDS or (not left.has_turn and left.seconds > MARGIN_SECONDS)
    for number in range(callers):
        times = served.get(f"s{number}", [])
        found.asked.append(asked[f"s{number}"])
        found.shares.append(sum(at < end for at in times))
        found.later_shares.append(sum(MINUTE <= at < end for at in times))
    return found


def run(rates: Sequence[float], seed: int, **more) -> Found:
    """The same on a loop of its own."""
    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        return runner.run(play(rates, seed, **more))


def find_off(found: Sequence[Found]) -> float:
    """How far the waits that were told are from those that came of it, on average."""
    return abs(sum(sum(each.told) for each in found) / sum(sum(each.waits) for each in found) - 1)


def show(name: str, found: list[Found], *, insists: bool) -> list[str]:
    """Print what the runs of one kind came to, and answer which bars were missed.

    Callers that insist on fast get equal shares of it. Under auto, requests that go to deep are owed nothing.
    """
    print(f"\n{name}, {len(found)} runs")
    for run_found in found:
        print(f"  fast after the first minute, by caller: {run_found.later_shares}, asked for {run_found.asked}")
    requests = sum(sum(each.answers.values()) for each in found)
    waits = sorted(wait for each in found for wait in each.waits)
    bars = (
        ("waits told, from those that came of it", find_off(found) * 100, MOST_OFF * 100, "%"),
        ("upstream 429s after the first minute", sum(each.refused for each in found), 0, ""),
        ("requests that were not served", sum(count for each in found for (status, _), count in each.answers.items() if status != 200), 0, ""),
        ("largest deviation from an equal share", max(each.deviation for each in found) * 100, MOST_DEVIATION * 100, "%")
        if insists
        else ("waited in vain, or longer than deep would have taken", sum(each.lost for each in found) / requests * 100, MOST_LOST * 100, "%"),
    )  # fmt: skip
    print(
        f"  {requests} requests, {len(waits)} waited, the median {waits[len(waits) // 2]:.1f} s, the longest {waits[-1]:.1f} s"
    )
    missed = []
    for title, value, most, unit in bars:
        is_missed = value > most
        print(f"  {title:<56}{value:>8.1f}{unit:<2} ≤ {most:g}{unit}{'  missed' if is_missed else ''}")
        missed += [f"{name}: {title}"] if is_missed else []
    return missed


def main(json_file: str | None = None) -> int:
    events.set_up_logging(lambda *_: None)
    kinds = {"equal and random": EQUAL, "one greedy caller": GREEDY}
    found = {
        f"{name}, {tier or 'auto'}": [run(rates, seed, tier=tier) for seed in range(RUNS)]
        for name, rates in kinds.items()
        for tier in (None, "fast")
    }
    print(
        f"a fast tier of {LIMIT} requests a minute, {len(EQUAL)} callers that ask for {sum(EQUAL):g}, {MINUTES} minutes on a jumping clock"
    )
    missed = [bar for name, runs in found.items() for bar in show(name, runs, insists=name.endswith("fast"))]
    print(f"\nmissed: {'; '.join(missed)}" if missed else "\nnothing is missed")
    if json_file:
        told = {name: [asdict(each) | {"answers": str(dict(each.answers))} for each in runs] for name, runs in found.items()}
        Path(json_file).write_text(json.dumps(told, indent=2))
    return 1 if missed else 0
