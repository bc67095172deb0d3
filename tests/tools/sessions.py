"""Requests of a session, decided and served by a memory without a house around it."""

from msgspec.structs import replace

from router.contract.caller import Caller
from router.contract.entry import Attempt
from router.contract.facts import AttemptEnded, Ending, FirstByte, Settled
from router.contract.request import Overrides
from router.contract.usage import Usage
from router.contract.words import Dialect, Outcome, Tier
from router.sessions.memory import SessionMemory
from router.sessions.turn_state import TURN_STATE
from router.sessions.turns import read_turn
from tests.tools.exchanges import make_decided, make_decision, make_exchange
from tests.tools.values import make_target, make_view

TARGETS = {"spark": make_target(), "sage": make_target("sage", Tier.DEEP)}


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def chat(*said: str, caller: str = "local", **body):
    """A conversation whose speakers take turns, the user first."""
    roles = ("user", "assistant")
    messages = [{"role": roles[index % 2], "content": text} for index, text in enumerate(said)]
    return replace(make_view({"messages": messages, **body}), caller=Caller(caller))


def under_way(memory: SessionMemory, snapshot, view, turn, tier: Tier):
    """A request of the session, decided."""
    exchange = make_exchange(memory)
    exchange.note(make_decided(view, make_decision(tier, turn=turn), snapshot))
    return exchange


def answer(memory: SessionMemory, snapshot, view, turn, tier: Tier, target):
    """Its answer begins."""
    exchange = under_way(memory, snapshot, view, turn, tier)
    exchange.note(FirstByte(target))
    return exchange


def finish(exchange, target, tokens: int, outcome: Outcome = Outcome.SERVED) -> None:
    """Its answer is complete, or ended otherwise."""
    usage = Usage(tokens, 0)
    exchange.note(AttemptEnded(1.0, target, Attempt(target.name, 200, None, 1.0), None, usage, None))
    exchange.note(Settled(1.0, Ending(outcome, 200)))


async def step(memory: SessionMemory, view, tier: Tier = Tier.FAST, tokens: int = 1_000):
    """One request, decided and served; what it found before."""
    turn = read_turn(view)
    snapshot = await memory.recall(view, turn)
    target = TARGETS["spark" if tier is Tier.FAST else "sage"]
    finish(answer(memory, snapshot, view, turn, tier, target), target, tokens)
    return snapshot


async def look(memory: SessionMemory, view):
    return await memory.recall(view, read_turn(view))


def tool_loop(*calls: str):
    messages = [{"role": "user", "content": "fix the typo in calc.py"}]
    for name in calls:
        made = {"id": name, "type": "function", "function": {"name": "shell", "arguments": "{}"}}
        messages.append({"role": "assistant", "content": None, "tool_calls": [made]})
        messages.append({"role": "tool", "tool_call_id": name, "content": "ok"})
    return make_view({"messages": messages})


FOR_SESSION = Overrides(tier=Tier.DEEP, for_session=True)


def codex(state: str | None = None):
    item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "fix it now please"}]}
    call = {"type": "function_call", "call_id": "c", "name": "shell", "arguments": "{}"}
    result = {"type": "function_call_output", "call_id": "c", "output": "ok"}
    headers = {"user-agent": "codex_exec/0.166", "thread-id": "t", **({TURN_STATE: state} if state else {})}
    return make_view({"input": [item, call, result]}, Dialect.RESPONSES, headers)
