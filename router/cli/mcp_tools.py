"""The tools that `tandem mcp` lists. Imports are light: clients wait for the list."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from router.contract.request import JsonObject

INSTRUCTIONS = (
    "Tandem works on delegated tasks in the background, on its deep tier, while you go on. A delegated task has no hands: it"
    " cannot read files, run commands or search. It plans, reviews and analyses what you give it. Delegate what takes long"
    " thinking (a design, a review of a large change, the cause of a hard bug), quote in `context` everything that it must see,"
    " go on with other work, and collect the result before you need it."
)
MOST_WAIT_SECONDS = 50
"""Clients time tools out: Codex after 60 seconds."""
USUAL_WAIT_SECONDS = 30
_ID: "JsonObject" = {"type": "string", "description": "The id that delegate returned."}


class Tool(NamedTuple):
    name: str
    title: str
    description: str
    arguments: "Mapping[str, JsonObject]"
    required: tuple[str, ...]
    only_reads: bool

    def describe(self) -> "JsonObject":
        """As the protocol lists it."""
        schema: JsonObject = {
            "type": "object",
            "properties": {**self.arguments},
            "required": list(self.required),
            "additionalProperties": False,
        }
        about: JsonObject = {
            "title": self.title,
            "readOnlyHint": self.only_reads,
            "destructiveHint": False,
            "openWorldHint": False,
        }
        told: JsonObject = {"name": self.name, "title": self.title, "description": self.description}
        return {**told, "inputSchema": schema, "annotations": about}


TOOLS = (
    Tool(
        "delegate",
        "Delegate a task",
        "Hand a task to a second model that works in the background, and go on at once. Returns an id for collect."
        " The task has no hands: it cannot open files, run commands or ask you. It plans, reviews and analyses what is in"
        " `task` and `context`, so put everything it must see there, such as the code, the diff or the error, in full.",
        {
            "task": {"type": "string", "description": "What to do and what to answer with, in full sentences."},
            "context": {
                "type": "string",
                "description": "What the task must see: contents of files with their names, diffs, output of commands.",
            },
        },
        ("task",),
        only_reads=False,
    ),
    Tool(
        "check",
        "Check a delegated task",
        "Report how far a delegated task is, without waiting: queued, running, completed, incomplete, failed or cancelled.",
        {"id": _ID},
        ("id",),
        only_reads=True,
    ),
    Tool(
        "collect",
        "Collect a result",
        "Return the result of a delegated task. While it is still running, wait for it for up to wait_seconds; if it takes"
        " longer, that is reported, and you can go on and collect it later. Nothing is lost by waiting or by asking again.",
        {
            "id": _ID,
            "wait_seconds": {
                "type": "integer",
                "minimum": 0,
                "maximum": MOST_WAIT_SECONDS,
                "default": USUAL_WAIT_SECONDS,
                "description": f"How long to wait for a task that is still running, 0 to {MOST_WAIT_SECONDS}.",
            },
        },
        ("id",),
        only_reads=True,
    ),
    Tool(
        "cancel",
        "Cancel a delegated task",
        "Stop a delegated task whose result is no longer wanted. One that is over stays as it is.",
        {"id": _ID},
        ("id",),
        only_reads=False,
    ),
    Tool(
        "list",
        "List delegated tasks",
        "List the newest delegated tasks with their ids and states, also those of earlier sessions.",
        {},
        (),
        only_reads=True,
    ),
)
