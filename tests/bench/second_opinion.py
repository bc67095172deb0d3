"""`python -m tests.bench.second_opinion FILE …`: what asking for a second opinion costs and gains, on files of labelled turns.

Answers are drawn by chance (with a fixed seed) to be right in so many of 100, whatever the turn, and each choice is judged by the
turn's label with the estimate's own figures: seconds to done, money counted as time. The time that is added is measured on whole
requests, over loopback, with an upstream that answers a question after 150 ms, and with one that takes 600 ms.
"""

import argparse
import asyncio
import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from router.config.load import check_config
from router.contract.errors import TandemError
from router.contract.facts import Decided
from router.contract.words import Tier
from router.decide.doubt import decide_with
from router.decide.estimate import costs_of
from router.house import House
from router.past.labelled import BadData, Item, arrival_of, chat_body, load_items
from router.second_opinion import WOULD_ASK
from router.wiring.build import build_house, known_names
from tests.bench.processes import interpreter, say
from tests.tools.http import call
from tests.tools.running import running
from tests.tools.upstream import CHAT_ANSWER, Upstream, answer_json

RIGHT_OF_100 = (50, 60, 75, 90)
"""At 50 an answer is worth nothing: whatever it gains or loses there is the doubt's own."""
SEEDS = 40
WALKED = 150
CONFIG = """
ledger: {{path: null}}
second_opinion: {{target: quick}}
policies: [override, rules, capability, window, side_request, effort, {learned}, boundary, trajectory]
tiers:
  fast: {{targets: [{{name: quick, base_url: "{url}", price: {{input: 0.3, output: 1.2}}}}]}}
  deep: {{targets: [{{name: thorough, base_url: "{url}", window_tokens: 400000, price: {{input: 3, output: 15}}}}]}}
"""


class Case(NamedTuple):
    """A turn that was weighed: what it was, and whether it would be asked about."""

    item: Item
    decided: Decided
    is_asked: bool
    asking_seconds: float


def config_of(weights: str, url: str = "http://127.0.0.1:9/v1") -> str:
    learned = "learned" if not weights else "{learned: {weights: " + json.dumps(str(Path(weights).resolve())) + "}}"
    return CONFIG.format(url=url, learned=learned)


async def weigh(house: House, items: list[Item]) -> list[Case]:
    cases = []
    for item in items:
        try:
            decided = await house.decide(arrival_of(item))
        except TandemError:
            continue
        considered = house.plan.adviser.consider(decided).decision
        opinion = considered.second_opinion
        cost = opinion.cost_usd / considered.economics.usd_per_second
        cases.append(Case(item, decided, opinion.answer == WOULD_ASK, cost))
    return cases


def seconds_to_done(case: Case, tier: Tier) -> float:
    """What the turn costs on a tier, now that it is known what it was."""
    decision = case.decided.decision
    weighing, p = decision.weighing, float(case.item.is_long)
    fast, deep = costs_of(weighing.fast, weighing.deep, weighing.redo, p, decision.economics)
    return (fast if tier is Tier.FAST else deep) / decision.economics.usd_per_second


def gain_of(house: House, cases: list[Case], right: float, seed: int) -> float:
    """Seconds that all questions together save, less the time and money that they cost."""
    chance, gained = random.Random(seed), 0.0
    for case in cases:
        said = "long" if case.item.is_long == (chance.random() < right) else "quick"
        decided = case.decided
        after = decide_with(house.plan.rules, decided, "quick", said).decision
        gained += seconds_to_done(case, decided.decision.tier) - seconds_to_done(case, after.tier) - case.asking_seconds
    return gained


def tell_set(house: House, name: str, cases: list[Case]) -> None:
    asked = [case for case in cases if case.is_asked]
    right = [case for case in asked if case.item.is_long == (case.decided.decision.tier is Tier.DEEP)]
    long = statistics.mean(case.item.is_long for case in asked) if asked else 0.0
    score = statistics.mean(case.decided.decision.score for case in asked) if asked else 0.0
    cells = [f"{len(cases):>6}", f"{len(asked) / len(cases):>7.1%}", f"{len(right) / max(1, len(asked)):>7.0%}"]
    cells += [f"{score:>7.2f}", f"{long:>7.2f}"]
    for share in RIGHT_OF_100:
        gains = [gain_of(house, asked, share / 100, seed) / len(cases) for seed in range(SEEDS)]
        cells.append(f"{statistics.mean(gains):>+8.2f} ±{statistics.stdev(gains):.2f}")
    print(f"{name:<34}{''.join(cells)}")


async def measure_time(items: list[Item], weights: str, delay_seconds: float) -> list[float]:
    """By how many milliseconds each of these turns was delayed by a question, on whole requests."""
    upstream = Upstream()

    async def script(wire, seen):
        if b"One word, QUICK or LONG" in seen.body:
            await asyncio.sleep(delay_seconds)
        await answer_json(CHAT_ANSWER if b"One word" not in seen.body else _word("LONG"))(wire, seen)

    upstream.scripts = [script]
    await upstream.start()
    added = []
    with tempfile.TemporaryDirectory() as folder:
        async with running(config_of(weights, upstream.base_url), Path(folder)) as tandem:
            for item in items:
                reply = await call(tandem.port, "/v1/chat/completions", chat_body(item))
                name = reply.headers["x-tandem-request-id"]
                told = (await call(tandem.port, f"/tandem/decisions/{name}")).json["second_opinion"] or {}
                added.append(told.get("asked_ms") or 0.0)
    await upstream.stop()
    return added


def _word(text: str) -> dict:
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    return {**CHAT_ANSWER, "choices": [choice]}


def tell_time(title: str, added: list[float]) -> None:
    asked = [milliseconds for milliseconds in added if milliseconds]
    most, middle = max(asked, default=0.0), statistics.median(asked) if asked else 0.0
    mean = statistics.mean(added)
    print(f"{title:<34}{len(asked):>4} of {len(added)} asked; median {middle:.0f} ms, most {most:.0f} ms; {mean:.1f} ms a turn")


def time_of(work: Callable[[], object], runs: int = 20_000) -> float:
    began = time.perf_counter()
    for _ in range(runs):
        work()
    return (time.perf_counter() - began) / runs * 1e6


async def measure(paths: list[Path], weights: str) -> None:
    titles = "".join(f"{f'{share} of 100':>14}" for share in RIGHT_OF_100)
    print(f"{'set':<34}{'turns':>6}{'asked':>7}{'right':>7}{'score':>7}{'long':>7}{titles}   gain, s a turn")
    built = build_house(check_config(config_of(weights), "bench", Path.cwd(), known_names()), with_ledger=False)
    walked: list[Item] = []
    for path in paths:
        items = [item for item in load_items([path]) if item.is_clear]
        cases = await weigh(built.house, items)
        tell_set(built.house, path.name, cases)
        walked = walked or random.Random(0).sample(items, min(WALKED, len(items)))
        clear = next(case.decided for case in cases if not case.is_asked)
    built.house.state.counter.close()
    print(f"\n{'a clear turn pays':<34}{time_of(lambda: built.house.plan.adviser.consider(clear)):.1f} µs")
    say(f"whole requests, {len(walked)} turns of {paths[0].name}")
    tell_time("upstream of 150 ms", await measure_time(walked, weights, 0.15))
    tell_time("upstream of 600 ms", await measure_time(walked, weights, 0.6))
    print(f"\nmeasured with {interpreter()}")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.second_opinion", description=__doc__)
    parser.add_argument("data", nargs="+", type=Path, metavar="FILE", help="labelled turns, as `tandem eval` reads them")
    parser.add_argument(
        "--weights", default="", metavar="FILE", help="weights that `python -m tests.lab train` wrote (default: the shipped)"
    )
    arguments = parser.parse_args()
    try:
        asyncio.run(measure(arguments.data, arguments.weights))
    except BadData as error:
        say(f"nothing was measured: {error}")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
