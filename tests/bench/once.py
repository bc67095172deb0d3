"""Requests of which each is sent once, as clients do: words that nobody sent before, and tool loops that go on or are first seen."""

import itertools
import json
import random
from collections.abc import Callable, Iterator
from functools import cache

from tests.bench.agent import SESSION, SYSTEM, TOOLS, agent_requests, templates
from tests.bench.load import request_of

CODEX_CALLS = range(24, 40)
"""How long a Codex-like session is: it begins in its middle, with 53 KB, and one call in sixteen is the first of a session."""
SEALED_BYTES, GROWN_PARTS = 600, 116
WORDS = 60
Requests = Callable[[Iterator[int]], Iterator[bytes]]


def fresh_words(sessions: Iterator[int]) -> Iterator[bytes]:
    """600 B that begin a turn of a person: sixty words that were never sent before."""
    for session in sessions:
        words = " ".join(_word(session * WORDS + place) for place in range(WORDS))
        said = [{"role": "user", "content": f"{words}."}]
        yield request_of(json.dumps({"model": "auto", "messages": said}, separators=(",", ":")).encode())


def _word(number: int) -> str:
    """Another word of eight letters for every number."""
    return "".join(chr(97 + number // 26**place % 26) for place in range(8))


def loops_first_seen(sessions: Iterator[int]) -> Iterator[bytes]:
    """A chat tool loop of which the router knows nothing: it was restarted, or the session resumed, compacted or forked."""
    template = templates()[0]
    for session in sessions:
        yield template.replace(SESSION.encode(), b"%010d" % session)


def codex_goes_on(sessions: Iterator[int]) -> Iterator[bytes]:
    """Responses, streamed, with shell tools and sealed reasoning: a session's next calls, then those of a new session."""
    for session in sessions:
        for template in codex_templates():
            yield template.replace(SESSION.encode(), b"%010d" % session)


def codex_first_seen(sessions: Iterator[int]) -> Iterator[bytes]:
    template = codex_templates()[0]
    for session in sessions:
        yield template.replace(SESSION.encode(), b"%010d" % session)


@cache
def codex_templates() -> tuple[bytes, ...]:
    return tuple(_codex_request(calls) for calls in CODEX_CALLS)


def _codex_request(calls: int) -> bytes:
    items = [
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": SYSTEM * 10}]},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": f"Ticket {SESSION}: fix the totals."}]},
        *itertools.chain.from_iterable(_shell_call(number) for number in range(calls)),
    ]
    shell = {
        "type": "function",
        "name": "shell",
        "description": "Run a command.",
        "strict": False,
        "parameters": {"type": "object", "properties": {"command": {"type": "array", "items": {"type": "string"}}}},
    }
    body = {
        "model": "auto",
        "instructions": SYSTEM * 60,
        "input": items,
        "tools": [shell, *({**shell, "name": name, "description": purpose} for name, (purpose, _) in TOOLS.items())],
        "tool_choice": "auto",
        "store": False,
        "stream": True,
        "include": ["reasoning.encrypted_content"],
    }
    return request_of(json.dumps(body, separators=(",", ":")).encode(), "responses")


def _shell_call(number: int) -> tuple[dict, dict, dict]:
    name, chance = f"call_{SESSION}_{number}", random.Random(number)
    sealed = "gAAAAAB" + "".join(
        chance.choices("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-", k=SEALED_BYTES)
    )
    thought = {"type": "reasoning", "id": f"rs_{SESSION}_{number}", "summary": [], "encrypted_content": sealed}
    arguments = json.dumps(
        {"command": ["bash", "-lc", f"sed -n {number * 9},{number * 9 + 9}p src/accounts/amounts_{SESSION}.py"]}
    )
    call = {"type": "function_call", "name": "shell", "arguments": arguments, "call_id": name}
    lines = "\n".join(f"    total_{number}_{line} = read_amount(row[{line}], currency=row.currency)" for line in range(8))
    output = f"Exit code: 0\nWall time: 0.{number} seconds\nOutput:\n{lines}\n"
    return thought, call, {"type": "function_call_output", "call_id": name, "output": output}


def grown(sessions: Iterator[int]) -> Iterator[bytes]:
    """One conversation of 500 KB. Each request repeats the one before it and adds an answer and a few words, as chats do."""
    file = "".join(f"    total_{line} = read_amount(row[{line}], currency=row.currency)\n" for line in range(70))
    said = [{"role": "system", "content": SYSTEM * 30}]
    for part in range(GROWN_PARTS):
        said.append({"role": "user", "content": f"This is part {part} of the file.\n{file}"})
        said.append({"role": "assistant", "content": f"I have read part {part}."})
    for number in sessions:
        said.append({"role": "user", "content": f"Rename helper_{number} to read_{number}."})
        yield request_of(json.dumps({"model": "auto", "messages": said}, separators=(",", ":")).encode())
        said.append({"role": "assistant", "content": f"helper_{number} is read_{number} now."})


ONCE: dict[str, Requests] = {
    "fresh": fresh_words,
    "agent": agent_requests,
    "agent_first": loops_first_seen,
    "codex": codex_goes_on,
    "codex_first": codex_first_seen,
    "grown": grown,
}
"""What is sent, by the name of its figures."""
