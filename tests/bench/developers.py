"""A workload of people: each asks for something, waits until it is done, thinks, and asks again.

An ask is a tool loop of several calls in one session. The same people ask the same things whichever way they are served.
"""

import asyncio
import json
import random
from collections.abc import Awaitable, Callable, Iterator

from msgspec import Struct

from tests.bench.asks import LONG, QUICK

TURNS_OF_SESSION = 5
LONG_SHARE = 0.3
MEAN_THINKING_SECONDS = 20.0
_TOOLS = [{"type": "function", "function": {"name": "edit_file", "parameters": {"type": "object", "properties": {}}}}]


class Size(Struct, frozen=True):
    """How much work a turn is."""

    calls: int
    output_tokens: int


class Turn(Struct, frozen=True):
    """Something that one of them asks for, and how long they think before it."""

    words: str
    is_long: bool
    size: Size
    thinking_seconds: float


class Answer(Struct, frozen=True):
    """How one call went: who served it, and why."""

    tier: str
    because: str


class Done(Struct, frozen=True):
    """A turn that is over, with every call of it. Times are those of the loop."""

    turn: Turn
    asked_at: float
    seconds: float
    answers: tuple[Answer, ...]

    @property
    def fast_share(self) -> float:
        """How much of it fast did."""
        return sum(answer.tier == "fast" for answer in self.answers) / len(self.answers)


Ask = Callable[[str, bytes], Awaitable[Answer]]
"""Sends a body in a session, and answers when all of the answer is here."""


def plan_turns(people: int, turns: int, quick: Size, long: Size, seed: int) -> list[list[Turn]]:
    """What each of them will ask for: words that are labelled quick or long, in sizes around the usual one."""
    chance = random.Random(seed)

    def make(is_long: bool) -> Turn:
        size = long if is_long else quick
        scale = chance.uniform(0.5, 1.5)
        calls = max(1, round(size.calls * scale))
        thinking = min(chance.expovariate(1 / MEAN_THINKING_SECONDS), 4 * MEAN_THINKING_SECONDS)
        return Turn(
            chance.choice(LONG if is_long else QUICK), is_long, Size(calls, round(size.output_tokens * scale)), thinking
        )

    return [[make(chance.random() < LONG_SHARE) for _ in range(turns)] for _ in range(people)]


async def work(name: str, turns: list[Turn], ask: Ask, redo_seconds: Callable[[Done], float]) -> list[Done]:
    """One of them at work. What fast got wrong is done again before the next thought."""
    loop, done = asyncio.get_running_loop(), []
    for number, group in enumerate(_sessions(turns)):
        messages: list[dict] = []
        for turn in group:
            await asyncio.sleep(turn.thinking_seconds)
            began = loop.time()
            messages.append({"role": "user", "content": turn.words})
            answers = [await ask(f"{name}-{number}", body) for body in _bodies(turn, messages)]
            finished = Done(turn, began, loop.time() - began, tuple(answers))
            await asyncio.sleep(extra := redo_seconds(finished))
            done.append(Done(turn, began, finished.seconds + extra, finished.answers))
    return done


def _sessions(turns: list[Turn]) -> Iterator[list[Turn]]:
    for start in range(0, len(turns), TURNS_OF_SESSION):
        yield turns[start : start + TURNS_OF_SESSION]


def _bodies(turn: Turn, messages: list[dict]) -> Iterator[bytes]:
    """The calls of a turn. The history grows by what each of them looked at."""
    tokens = max(1, turn.size.output_tokens // turn.size.calls)
    for call in range(turn.size.calls):
        body = {"model": "auto", "stream": True, "max_tokens": tokens, "tools": _TOOLS, "messages": messages}
        yield json.dumps(body).encode()
        if call + 1 < turn.size.calls:
            name = f"call_{len(messages)}"
            look = {"id": name, "type": "function", "function": {"name": "read_file", "arguments": f'{{"path":"{name}.py"}}'}}
            messages.append({"role": "assistant", "content": None, "tool_calls": [look]})
            messages.append({"role": "tool", "tool_call_id": name, "content": "def main():\n    return 0\n"})
    messages.append({"role": "assistant", "content": "Done."})
