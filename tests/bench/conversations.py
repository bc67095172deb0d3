"""`python -m tests.bench.conversations 100 300 1000`: conversations in turn, and what a call of one of them takes to read.

Each is a tool loop of 40 KB with words of its own that goes on by a call whenever it is its turn. Printed are the CPU of a call
that goes on, and the memory that the histories take. Numbers come from one process, without HTTP.
"""

import gc
import json
import random
import sys
import time
from pathlib import Path

from router.contract.exchange import Arrival
from router.contract.words import Dialect, Operation
from router.dialects.histories import Histories
from router.dialects.requests import read_request
from router.sessions.turns import read_turn

CALLS, RESULT_BYTES, ROUNDS = 25, 900, 3
_chance = random.Random(1)
_WORDS = ["".join(_chance.choices("abcdefghijklmnopqrstuvwxyz", k=_chance.randint(2, 9))) for _ in range(5_000)]
TOOLS = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}] * 8


def words(size: int) -> str:
    return " ".join(_chance.choices(_WORDS, k=size // 6))


INSTRUCTIONS = words(8_000)


def begin(number: int) -> list[dict]:
    messages = [{"role": "system", "content": INSTRUCTIONS}, {"role": "user", "content": f"{number}: {words(600)}"}]
    for _ in range(CALLS):
        go_on(messages)
    return messages


def go_on(messages: list[dict]) -> None:
    name = f"call_{_chance.getrandbits(60):x}"
    call = {"id": name, "type": "function", "function": {"name": "look", "arguments": json.dumps({"path": words(40)})}}
    messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
    messages.append({"role": "tool", "tool_call_id": name, "content": words(RESULT_BYTES)})


def resident_mb() -> float:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1e6


def measure(count: int) -> str:
    """One line: the mean CPU of a first call, of one that goes on, and the memory."""
    histories, all_messages = Histories(), [begin(number) for number in range(count)]
    before, took, size = resident_mb(), [], 0
    for _ in range(ROUNDS):
        spent = size = 0
        for messages in all_messages:
            raw = json.dumps({"model": "auto", "tools": TOOLS, "messages": messages}, separators=(",", ":")).encode()
            size += len(raw)
            began = time.process_time_ns()
            read_turn(read_request(Arrival("req_bench", Dialect.CHAT, Operation.CREATE, {}, raw), histories))
            spent += time.process_time_ns() - began
            go_on(messages)
        took.append(spent / count / 1e3)
    kept = sum(map(len, histories.bodies.values()))
    title = f"{count} conversations of {size // count // 1000} KB"
    return f"{title:<34}first {took[0]:>6.0f} µs  goes on {min(took[1:]):>6.0f} µs  {kept:>5} kept, {resident_mb() - before:.0f} MB"


if __name__ == "__main__":
    for argument in sys.argv[1:] or ("100", "300", "1000"):
        print(measure(int(argument)), flush=True)
