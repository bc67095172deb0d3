"""The requests of a coding agent in the middle of a tool loop: about 60 messages and 50 KB, with tools, one call longer each time."""

import itertools
import json
from collections.abc import Iterator
from functools import cache

from tests.bench.load import request_of

SESSION = "0123456789"
"""Stands for the session's number in a request that is built once and sent for many sessions."""
FEWEST_CALLS, MOST_CALLS = 25, 32
SYSTEM = "You are a coding agent that works in a terminal. Read before you write, keep changes small, and run the tests. "
TOOLS = {
    "read_file": ("Read a file, or some lines of it.", ("path", "first_line", "last_line")),
    "write_file": ("Write a whole file. What was in it is lost.", ("path", "content")),
    "edit_file": ("Replace one exact piece of a file by another.", ("path", "old_text", "new_text")),
    "run_command": ("Run a command in a shell and answer its output.", ("command", "folder", "timeout_seconds")),
    "search_text": ("Find a regular expression in the files of a folder.", ("pattern", "folder", "file_glob")),
    "list_folder": ("List the files of a folder.", ("path", "depth")),
    "fetch_page": ("Read a page of documentation.", ("url", "question")),
    "write_plan": ("Note what is done and what is left to do.", ("steps", "current_step")),
}
CALLS = (
    ("search_text", {"pattern": "def read_amount", "folder": "src", "file_glob": "*.py"}),
    ("read_file", {"path": "src/accounts/amounts.py", "first_line": "1", "last_line": "60"}),
    ("edit_file", {"path": "src/accounts/amounts.py", "old_text": "return int(text)", "new_text": "return Decimal(text)"}),
    ("run_command", {"command": "pytest -q tests/accounts", "folder": ".", "timeout_seconds": "120"}),
)

_sessions = itertools.count(1)


def agent_requests(sessions: Iterator[int] = _sessions) -> Iterator[bytes]:
    """Requests without end: a session's next calls one after another, then those of a new session."""
    for session in sessions:
        number = b"%010d" % session
        for template in templates():
            yield template.replace(SESSION.encode(), number)


@cache
def templates() -> tuple[bytes, ...]:
    return tuple(agent_request(calls) for calls in range(FEWEST_CALLS, MOST_CALLS + 1))


def agent_request(calls: int) -> bytes:
    """A Chat request after so many tool calls."""
    messages = [
        {"role": "system", "content": SYSTEM * 30},
        {"role": "user", "content": f"Ticket {SESSION}: amounts with cents are read wrongly. Fix it, and add tests for it."},
        *itertools.chain.from_iterable(call_and_result(number) for number in range(calls)),
    ]
    body = {"model": "auto", "messages": messages, "tools": [tool(*item) for item in TOOLS.items()], "tool_choice": "auto"}
    return request_of(json.dumps(body, separators=(",", ":")).encode())


def call_and_result(number: int) -> tuple[dict, dict]:
    name, arguments = CALLS[number % len(CALLS)]
    call_id = f"call_{SESSION}_{number}"
    call = {"id": call_id, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
    said = {"role": "assistant", "content": f"Step {number}: I use {name} next.", "tool_calls": [call]}
    return said, {"role": "tool", "tool_call_id": call_id, "content": result(name, number)}


def result(name: str, number: int) -> str:
    if name == "edit_file":
        return f"edited 1 place, at line {number + 10}"
    if name == "run_command":
        dots = "\n".join(f"tests/accounts/test_amounts_{number}_{part}.py {'.' * 40} [{part:3}%]" for part in range(20))
        return f"{dots}\n{number + 400} passed in {number / 10:.2f}s"
    lines = (f"{line:5}  total_{number} = read_amount(row[{line}], currency=row.currency)  # cents" for line in range(22))
    return "\n".join(lines)


def tool(name: str, description: tuple[str, tuple[str, ...]]) -> dict:
    purpose, fields = description
    properties = {field: {"type": "string", "description": f"The {field.replace('_', ' ')} of the call."} for field in fields}
    schema = {"type": "object", "properties": properties, "required": list(fields[:1]), "additionalProperties": False}
    return {"type": "function", "function": {"name": name, "description": purpose, "parameters": schema}}
