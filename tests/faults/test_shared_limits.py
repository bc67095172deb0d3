"""Routers that share limits in a Valkey server: no minute exceeds the limit, even without the server.

`python -m tests.faults.test_shared_limits target 3` offers three routers three times a target's quota of 600 a minute, for
three minutes, and counts what its upstream sees; `caller 3` does so for a caller's rate. `stopped 3` and `killed 3` take the
server away from second 20 to 50. `budget 60` has 60 requests at a time spend one USD. A third number is the requests offered in
a second (30). `back-stopped 30` and `back-killed 30` take the server away for 30 seconds while part of the limit is used, and
then measure how soon one router has all the rest. `back-lost 30` also kills a router together with the server. All print what
they saw.
"""

import asyncio
import bisect
import collections
import contextlib
import itertools
import random
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from tests.tools.http import call, chat
from tests.tools.keyed import write_keys
from tests.tools.running import Running, running, two_targets
from tests.tools.upstream import CHAT_ANSWER, Seen, Upstream, Wire, answer_json
from tests.tools.waiting import later

pytest.importorskip("hiredis")

from tests.tools.fleet import Router, routers_of
from tests.tools.valkey import ValkeyServer, find_server
from tests.tools.waiting import by_the_clock

CHAT = "/v1/chat/completions"
_PRICE = "price: {input: 1, output: 10},"


class Counted(Upstream):
    """Answers at once, and notes when each request came."""

    def __init__(self) -> None:
        super().__init__()
        self.times: list[float] = []
        answer = answer_json(CHAT_ANSWER)

        async def count(wire: Wire, seen: Seen) -> None:
            self.times.append(time.monotonic())
            await answer(wire, seen)

        self.scripts = [count]

    def most_within(self, seconds: float) -> int:
        times = sorted(self.times)
        return max((bisect.bisect_left(times, at + seconds) - index for index, at in enumerate(times)), default=0)

    def count_before(self, at: float, seconds: float = 60.0) -> int:
        """Requests in the window that ended at a moment, inclusive."""
        return sum(at - seconds < came <= at for came in self.times)

    def by_window(self, seconds: float) -> list[int]:
        """Requests per window, from the first one on."""
        first = min(self.times, default=0.0)
        counts = collections.Counter(int((at - first) / seconds) for at in self.times)
        return [counts[number] for number in range(max(counts, default=-1) + 1)]


def config_for(url: str, quota: str = "", extra: str = "") -> str:
    fast = f"{_PRICE} quota: {{{quota}}}," if quota else _PRICE
    shared = f"spill_over: false\nshared: {{valkey: {{url: env:TANDEM_VALKEY_URL}}}}\n{extra}"
    return two_targets(url, url, fast_extra=fast, deep_extra=_PRICE, extra=shared)


def ask_for_key(folder: Path, rights: str) -> tuple[str, dict[str, str]]:
    """The config line for keys, and the headers of a caller with these rights."""
    key = write_keys(folder, ada=rights)["ada"]
    return f"keys: {{file: {folder / 'keys.yaml'}}}\n", {"authorization": f"Bearer {key.text}"}


@contextlib.asynccontextmanager
async def sharing(
    server: ValkeyServer, folder: Path, quota: str = "", rights: str = "", count: int = 3
) -> AsyncIterator[tuple[Counted, list[Router], dict[str, str]]]:
    """Routers that share a server, their upstream, and a caller's headers."""
    upstream = Counted()
    extra, headers = ask_for_key(folder, rights) if rights else ("", {})
    await upstream.start()
    try:
        config = config_for(upstream.base_url, quota, extra)
        async with routers_of(count, folder, config, {"TANDEM_VALKEY_URL": server.url()}) as routers:
            yield upstream, routers, headers
    finally:
        await upstream.stop()


class Offer:
    """Requests spread evenly in time over random routers."""

    def __init__(self, routers: Sequence[Router | Running], headers: dict[str, str], seed: int = 1) -> None:
        self.routers, self._headers, self._chance = routers, headers, random.Random(seed)
        self.statuses: collections.Counter[int] = collections.Counter()
        self.served: list[tuple[float, float]] = []
        """Arrival and duration of each served request."""
        self.refused: list[tuple[float, float]] = []
        """Arrival and refusal of each refused request."""

    async def send(self) -> None:
        router, began = self._chance.choice(self.routers), time.monotonic()
        reply = await call(router.port, CHAT, {**chat(model="fast"), "max_tokens": 100}, self._headers)
        self.statuses[reply.status] += 1
        if reply.status == 200:
            self.served.append((began, time.monotonic() - began))
        else:
            self.refused.append((began, time.monotonic()))

    def most_surely_within(self, seconds: float) -> int:
        """The most that were both sent and answered within such a window."""
        ended = sorted((at + took, at) for at, took in self.served)
        return max((sum(at >= first for end, at in ended if end < first + seconds) for first, _ in self.served), default=0)

    async def go_on(self, a_second: float, seconds: float) -> None:
        began, sent = time.monotonic(), []
        for number in itertools.count():
            if (due := number / a_second) >= seconds:
                break
            await by_the_clock(max(0.0, began + due - time.monotonic()))
            sent.append(later(self.send()))
        await asyncio.gather(*sent)


async def _take_away(server: ValkeyServer, how: str, begins: float, ends: float) -> None:
    await by_the_clock(begins)
    server.pause() if how == "stopped" else server.kill()
    await by_the_clock(ends - begins)
    server.resume() if how == "stopped" else await asyncio.to_thread(server.start)


async def run_minutes(what: str, minutes: float, limit: int = 600, a_second: float = 30.0) -> None:
    """What an upstream sees of three times its limit, and durations of served requests."""
    is_caller = what == "caller"
    quota = "" if is_caller else f"requests_per_minute: {limit}, max_wait_seconds: 0.5"
    rights = f"requests_per_minute: {limit}\nmay_force: [fast, deep]" if is_caller else ""
    with _server() as server, tempfile.TemporaryDirectory() as folder:
        async with sharing(server, Path(folder), quota, rights) as (upstream, routers, headers):
            offer, began = Offer(routers, headers), time.monotonic()
            away = later(_take_away(server, what, 20, 50)) if what in ("stopped", "killed") else None
            await offer.go_on(a_second, minutes * 60)
            if away is not None:
                await away
            print(f"{what}: {sum(offer.statuses.values())} offered, {dict(offer.statuses)}")
            print(f"  in each minute: {upstream.by_window(60)}; surely in any minute, at most: {offer.most_surely_within(60)}")
            print(f"  at the upstream in any minute, at most: {upstream.most_within(60)}")
            phases = [(0, 20), (20, 22), (22, 50), (50, 52), (52, 1e9)]
            for first, last in phases:
                took = [seconds * 1_000 for at, seconds in offer.served if first <= at - began < last]
                if took:
                    print(
                        f"  served from {first} to {last} s: {len(took)}, median {statistics.median(took):.1f} ms, most {max(took):.1f} ms"
                    )


_BACK_SECONDS = 10.0


async def run_back(how: str, away_seconds: float, limit: int = 600) -> None:
    """How long after the server's return one router is refused unused parts of the limit.

    Routers have used three quarters of the limit when the server returns; then one router is asked for 100 a second. A refusal
    is early if the upstream saw less than the limit in the minute before it.
    """
    rights = f"requests_per_minute: {limit}\nmay_force: [fast, deep]"
    with _server() as server, tempfile.TemporaryDirectory() as folder:
        async with sharing(server, Path(folder), "", rights) as (upstream, routers, headers):
            before = Offer(routers, headers)
            await before.go_on(limit / 2 / 15, 15)
            if how == "lost":
                await routers[2].kill()
                before.routers = routers[:2]
            away = later(_take_away(server, how, 0, away_seconds))
            await before.go_on(limit / 4 / away_seconds, away_seconds)
            await away
            back, one = time.monotonic(), Offer(routers[:1], headers)
            used = upstream.count_before(back)
            await one.go_on(100, _BACK_SECONDS)
            early = [at - back for _, at in one.refused if upstream.count_before(at) < limit]
            full = next((at - back for at in sorted(upstream.times) if at > back and upstream.count_before(at) >= limit), None)
            print(f"back-{how}: {limit - used} of {limit} left when the server was back; before that: {dict(before.statuses)}")
            print(
                f"  then of one router: {dict(one.statuses)}; refused early: {len(early)}, the last {max(early, default=0):.2f} s"
            )
            print(f"  all of the limit was in use {f'{full:.2f} s' if full else 'never'} after it was back")
            print(f"  surely in any minute, at most: {upstream.most_within(60)} at the upstream")


@contextlib.contextmanager
def _server():
    program = find_server()
    assert program is not None, "no Valkey or Redis server on this machine"
    server = ValkeyServer(program)
    try:
        server.start()
        yield server
    finally:
        server.stop()


async def run_budget(at_once: int) -> None:
    """What callers spend of one USD who ask all at once."""
    with _server() as server, tempfile.TemporaryDirectory() as folder:
        rights = "daily_usd: 1\nmay_force: [fast, deep]"
        async with sharing(server, Path(folder), "", rights) as (upstream, routers, headers):
            print(await spend_all(upstream, routers, headers, at_once))


async def spend_all(
    upstream: Counted, routers: Sequence[Router | Running], headers: dict[str, str], at_once: int, misses: int = 3
) -> tuple[int, float]:
    """Served requests, and their cost in USD."""

    async def answer(wire: Wire, seen: Seen) -> None:
        tokens = seen.json["max_tokens"]
        usage = {"prompt_tokens": 10, "completion_tokens": tokens, "total_tokens": 10 + tokens}
        await answer_json({**CHAT_ANSWER, "usage": usage})(wire, seen)

    upstream.scripts = [answer]
    chance, body = random.Random(1), {**chat(model="fast"), "max_tokens": 1_000}

    async def spend() -> int:
        served = missed = 0
        while missed < misses:
            reply = await call(chance.choice(routers).port, CHAT, body, headers)
            assert reply.status in (200, 429), reply.body
            served, missed = (served + 1, 0) if reply.status == 200 else (served, missed + 1)
        return served

    served = sum(await asyncio.gather(*(spend() for _ in range(at_once))))
    return served, sum(10 * 1 + seen.json["max_tokens"] * 10 for seen in upstream.seen) / 1e6


@pytest.fixture
async def share(tmp_path, monkeypatch):
    """Starts two routers in this process, with their own folders and these rights."""
    stack, upstream = contextlib.AsyncExitStack(), Counted()
    await upstream.start()

    async def begin(server: ValkeyServer, quota: str = "", rights: str = "") -> tuple[Counted, list[Running], dict[str, str]]:
        monkeypatch.setenv("TANDEM_VALKEY_URL", server.url())
        server.send("HSET", "tandem:a:#routers", "#epoch", "1", "#told", "1")  # it has been there for a while
        extra, headers = ask_for_key(tmp_path, rights) if rights else ("", {})
        folders = [tmp_path / "one", tmp_path / "two"]
        for folder in folders:
            folder.mkdir()
        config = config_for(upstream.base_url, quota, extra)
        return upstream, [await stack.enter_async_context(running(config, folder)) for folder in folders], headers

    yield begin
    await stack.aclose()
    await upstream.stop()


async def test_routers_that_share_a_budget_spend_nearly_all_of_it_and_never_more(valkey, share):
    upstream, routers, headers = await share(valkey, rights="daily_usd: 0.1\nmay_force: [fast, deep]")

    served, cost = await spend_all(upstream, routers, headers, at_once=6, misses=1)

    assert served == len(upstream.seen)
    assert 0.08 <= cost <= 0.1


async def test_a_caller_is_served_as_often_as_its_limit_says_at_all_routers_together(valkey, share):
    upstream, routers, headers = await share(valkey, rights="requests_per_minute: 30\nmay_force: [fast, deep]")
    offer = Offer(routers, headers)

    while len(upstream.times) < 30:
        await asyncio.gather(*(offer.send() for _ in range(5)))
    await asyncio.gather(*(offer.send() for _ in range(10)))

    assert (offer.statuses[200], set(offer.statuses)) == (30, {200, 429})


@pytest.mark.parametrize("how", ["stopped", "killed"])
async def test_a_target_sees_no_more_than_its_quota_also_where_the_server_was_away(own_valkey, share, how):
    upstream, routers, headers = await share(own_valkey, "requests_per_minute: 20, max_wait_seconds: 0.5")
    offer = Offer(routers, headers)
    while len(upstream.times) < 12:
        await offer.send()
    own_valkey.pause() if how == "stopped" else own_valkey.kill()
    await asyncio.gather(*(offer.send() for _ in range(6)))
    assert len(upstream.times) <= 20
    own_valkey.resume() if how == "stopped" else own_valkey.start()

    while len(upstream.times) < 20:
        await offer.send()
    await asyncio.gather(*(offer.send() for _ in range(10)))

    assert len(upstream.times) == 20


if __name__ == "__main__":
    name, amount = sys.argv[1], float(sys.argv[2])
    if name == "budget":
        asyncio.run(run_budget(int(amount)))
    elif name.startswith("back-"):
        asyncio.run(run_back(name.removeprefix("back-"), amount))
    else:
        asyncio.run(run_minutes(name, amount, a_second=float((sys.argv[3:] or [30])[0])))
