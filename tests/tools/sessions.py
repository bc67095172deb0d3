"""Requests of a session, decided and served by a memory without a house."""

import asyncio
import random

from msgspec.structs import replace

from router.contract.caller import Caller
from router.contract.entry import Attempt
from router.contract.facts import AttemptEnded, Ending, FirstByte, Settled
from router.contract.request import Overrides
from router.contract.stores import StoreUnusable, Versioned
from router.contract.usage import Usage
from router.contract.words import Dialect, Outcome, Tier
from router.sessions.clients.codex import CODEX
from router.sessions.memory import SessionMemory
from router.sessions.turns import read_turn
from tests.tools.exchanges import make_decided, make_decision, make_exchange
from tests.tools.values import make_target, make_view
from tests.tools.waiting import later

TURN_STATE = CODEX.turn_state_header
TARGETS = {"spark": make_target(), "sage": make_target("sage", Tier.DEEP)}


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def chat(*said: str, caller: str = "local", **body):
    """The speakers alternate, the user first."""
    roles = ("user", "assistant")
    messages = [{"role": roles[index % 2], "content": text} for index, text in enumerate(said)]
    return replace(make_view({"messages": messages, **body}), caller=Caller(caller))


def under_way(memory: SessionMemory, snapshot, view, turn, tier: Tier):
    exchange = make_exchange(memory)
    exchange.note(make_decided(view, make_decision(tier, turn=turn), snapshot))
    return exchange


def answer(memory: SessionMemory, snapshot, view, turn, tier: Tier, target):
    exchange = under_way(memory, snapshot, view, turn, tier)
    exchange.note(FirstByte(target))
    return exchange


def finish(exchange, target, tokens: int, outcome: Outcome = Outcome.SERVED) -> None:
    usage = Usage(tokens, 0)
    exchange.note(AttemptEnded(1.0, target, Attempt(target.name, 200, None, 1.0), None, usage, None))
    exchange.note(Settled(1.0, Ending(outcome, 200)))


async def step(memory: SessionMemory, view, tier: Tier = Tier.FAST, tokens: int = 1_000):
    """Decide and serve one request. Returns the session before it."""
    turn = read_turn(view)
    snapshot = await memory.recall(view, turn)
    target = TARGETS["spark" if tier is Tier.FAST else "sage"]
    finish(answer(memory, snapshot, view, turn, tier, target), target, tokens)
    return snapshot


async def look(memory: SessionMemory, view):
    return await memory.recall(view, read_turn(view))


def tool_loop(*calls: str, **more):
    messages = [{"role": "user", "content": "fix the typo in calc.py"}]
    for name in calls:
        made = {"id": name, "type": "function", "function": {"name": "shell", "arguments": "{}"}}
        messages.append({"role": "assistant", "content": None, "tool_calls": [made]})
        messages.append({"role": "tool", "tool_call_id": name, "content": "ok"})
    return make_view({"messages": messages}, **more)


FOR_SESSION = Overrides(tier=Tier.DEEP, for_session=True)


def codex(state: str | None = None):
    item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "fix it now please"}]}
    call = {"type": "function_call", "call_id": "c", "name": "shell", "arguments": "{}"}
    result = {"type": "function_call_output", "call_id": "c", "output": "ok"}
    headers = {"user-agent": "codex_exec/0.166", "thread-id": "t", **({TURN_STATE: state} if state else {})}
    return make_view({"input": [item, call, result]}, Dialect.RESPONSES, headers)


class SharedSessions:
    """Shared records in memory, which may be away and as unreliable as `fault` says.

    `late`: calls run and return after some turns of the loop. `out of order`: also before or after earlier ones. `twice`: each
    runs again after its answer. `unanswered`: some calls, done or not, end with an error.
    """

    is_shared = True

    def __init__(self, seed: int = 0, fault: str = "late") -> None:
        self._random, self.records, self.fault = random.Random(seed), {}, fault
        self.is_away, self.trips, self._last = False, 0, None

    async def load(self, key: str) -> Versioned:
        (found,) = await self.load_all((key,))
        return found

    def load_all(self, keys) -> "asyncio.Future[list[Versioned]]":
        return self._answer(lambda: [self.records.get(key, Versioned()) for key in keys])

    def swap(self, key: str, version: int, at: float, state: bytes) -> "asyncio.Future[bool]":
        def replace() -> bool:
            is_same = key not in self.records or self.records[key].version == version
            if is_same:
                self.records[key] = Versioned(state, version + 1)
            return is_same

        return self._answer(replace)

    async def close(self) -> None: ...

    def _answer(self, act) -> asyncio.Future:
        self._check()
        self.trips += 1
        answer = self._last = later(self._carry_out(self._last if self.fault != "out of order" else None, act))
        return answer

    async def _carry_out(self, before: "asyncio.Future | None", act):
        if before is not None:
            await asyncio.wait([before])
        await self._wait()
        self._check()
        if self.fault == "unanswered" and not self._random.randrange(4):
            raise StoreUnusable("never carried out")
        found = act()
        await self._wait()
        if self.fault == "twice":
            act()
        if self.fault == "unanswered" and not self._random.randrange(4):
            raise StoreUnusable("carried out and never answered")
        return found

    def _check(self) -> None:
        if self.is_away:
            raise StoreUnusable("away")

    async def _wait(self) -> None:
        for _ in range(self._random.randrange(6)):
            await asyncio.sleep(0)


async def save(store, key: str, at: float, state: bytes) -> None:
    while not await swap(store, key, (await store.load(key)).version, at, state):
        pass


async def swap(store, *given) -> bool:
    answer = store.swap(*given)
    return answer if isinstance(answer, bool) else await answer
