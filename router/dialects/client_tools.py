"""Tools that an API knows by type and the client runs itself: shells, patches, editors, memory.

Requests declare them by type alone, since the API's own models know the schema. A target of another dialect is offered a
function with that schema instead.
"""

import json
import shlex
from collections.abc import Callable
from typing import NamedTuple

import orjson

from router.contract.digits import as_written
from router.contract.request import Json, JsonObject
from router.dialects.fields import as_list, as_object, as_text, as_whole


class CallItem(NamedTuple):
    """A call of such a tool in the Responses API: an item with a type and a field for its arguments."""

    type: str
    field: str
    id_prefix: str
    fit: Callable[[JsonObject], JsonObject | None]
    """Turns arguments into the item's content; None if they do not fit."""

    def parse(self, arguments: str) -> JsonObject | None:
        value = _read_json(arguments)
        return self.fit(value) if isinstance(value, dict) else None

    def arguments(self, held: JsonObject) -> str:
        """A call's arguments from its item, in the schema's order and without unset fields."""
        fields = (self.fit(held) or held).items()
        given = {name: value for name, value in fields if value is not None and (name, value) != _CONSTANT}
        return orjson.dumps(given, default=as_written).decode()


class ClientTool(NamedTuple):
    name: str
    description: str
    schema: JsonObject
    item: CallItem | None = None


_CONSTANT = ("type", "exec")
_HIGHEST = 1 << 53
"""Higher limits mean no limit, and some clients cannot parse them."""


def _read_json(text: str) -> Json:
    """Parse JSON, or return None. Models that write a diff forget to escape its newlines."""
    try:
        value: Json = orjson.loads(text)
    except orjson.JSONDecodeError:
        try:
            value = orjson.loads(orjson.dumps(json.loads(text, strict=False)))
        except (ValueError, TypeError, RecursionError):
            return None
    return value


def _object(required: list[Json], **properties: Json) -> JsonObject:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _text(description: str, *words: Json) -> JsonObject:
    field: JsonObject = {"type": "string", "description": description}
    return {**field, "enum": list(words)} if words else field


def _number(description: str) -> JsonObject:
    return {"type": "integer", "description": description}


def _texts(description: str) -> JsonObject:
    return {"type": "array", "items": {"type": "string"}, "description": description}


def _are_texts(value: Json) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(entry, str) for entry in value)


def _limit(value: Json) -> int | None:
    number = as_whole(value)
    return number if number is not None and 0 < number <= _HIGHEST else None


def _fit_shell(given: JsonObject) -> JsonObject | None:
    """Models used to other shells send one `command`, as a string or a list of words."""
    commands, command = given.get("commands"), given.get("command")
    if commands is None and _are_texts(command):
        command = shlex.join(map(as_text, as_list(command)))
    elif isinstance(commands, str):
        command = commands
    if isinstance(command, str):
        commands = [command]
    if not _are_texts(commands):
        return None
    limits = {name: _limit(given.get(name)) for name in ("timeout_ms", "max_output_length")}
    return {"commands": commands, **limits}


def _fit_local_shell(given: JsonObject) -> JsonObject | None:
    command, env = given.get("command"), given.get("env") or {}
    if isinstance(command, str):
        command = ["bash", "-lc", command]
    if not _are_texts(command) or not isinstance(env, dict) or not all(isinstance(value, str) for value in env.values()):
        return None
    # Clients of this old tool refuse null, so unset fields are left out.
    held: JsonObject = {"type": "exec", "command": command, "env": env}
    if (timeout := _limit(given.get("timeout_ms"))) is not None:
        held["timeout_ms"] = timeout
    return held | {name: text for name in ("user", "working_directory") if (text := as_text(given.get(name)))}


def _fit_patch(given: JsonObject) -> JsonObject | None:
    kind, path, diff = as_text(given.get("type")), as_text(given.get("path")), given.get("diff")
    if kind not in _OPERATIONS or not path:
        return None
    if kind == "delete_file":
        return {"type": kind, "path": path}
    return {"type": kind, "path": path, "diff": diff} if isinstance(diff, str) else None


_OPERATIONS = ("create_file", "update_file", "delete_file")
_DIFF_FORMAT = """Create, update or delete one file. Call it once for each file.

`diff` is needed to create or update a file. To create one, give its whole content, with a plus sign before every line. To \
update one, give one or more sections of lines as they are in the file, about three lines of context before and after each \
change: a space before a line that stays, a minus sign before one that goes, a plus sign before one that is new. A line `@@` \
begins each section; `@@ def name():` or `@@ class Name` says where it belongs when its context alone could be in several \
places. Line numbers are not used, and neither are file headers."""

RESPONSES_TOOLS = {
    "shell": ClientTool(
        "shell",
        "Run shell commands on the user's computer. Returns the exit code, the standard output and the standard error of each.",
        _object(
            ["commands"],
            commands=_texts("The commands to run, in this order, each a whole command line."),
            timeout_ms=_number("How long the commands may take, in milliseconds."),
            max_output_length=_number("The most characters of output to return."),
        ),
        CallItem("shell_call", "action", "sh", _fit_shell),
    ),
    "local_shell": ClientTool(
        "local_shell",
        "Run one command on the user's computer, and return its output.",
        _object(
            ["command"],
            command=_texts('The program and its arguments, such as ["bash", "-lc", "ls -l | head"].'),
            timeout_ms=_number("How long the command may take, in milliseconds."),
            working_directory=_text("The folder to run it in."),
            env={"type": "object", "additionalProperties": {"type": "string"}, "description": "Environment variables to set."},
            user=_text("The user to run it as."),
        ),
        CallItem("local_shell_call", "action", "lsh", _fit_local_shell),
    ),
    "apply_patch": ClientTool(
        "apply_patch",
        _DIFF_FORMAT,
        _object(
            ["type", "path"],
            type=_text("What to do with the file.", *_OPERATIONS),
            path=_text("The path of the file, relative to the working folder."),
            diff=_text("The change. Leave it out to delete a file."),
        ),
        CallItem("apply_patch_call", "operation", "apc", _fit_patch),
    ),
}

CALL_ITEMS = {tool.item.type: (tool.name, tool.item) for tool in RESPONSES_TOOLS.values() if tool.item is not None}

_BASH = ClientTool(
    "bash",
    "Run a command in a bash session on the user's computer, and return its output. The session stays open between calls: its"
    " variables and its working folder are kept. Commands that wait for input cannot be used.",
    _object(
        [],
        command=_text("The command to run. Needed, unless the session is restarted."),
        restart={"type": "boolean", "description": "True to begin a new session instead of running a command."},
    ),
)
_EDITING: JsonObject = {
    "path": _text("The path of the file, or of the folder to view."),
    "view_range": {
        "type": "array",
        "items": {"type": "integer"},
        "description": "`view` of a file: the first and the last line to show, from line 1. -1 as the last means the end.",
    },
    "file_text": _text("`create`: the whole content of the file."),
    "old_str": _text("`str_replace`: the text to replace. It must be in the file exactly once, including whitespace."),
    "new_str": _text("`str_replace`: the text to put in its place."),
    "insert_line": _number("`insert`: the line after which to insert; 0 for the beginning of the file."),
}
_INSERTED = _text("`insert`: the text to insert.")


def _editor(name: str, *commands: str, **more: Json) -> ClientTool:
    description = f"View and edit text files on the user's computer. Commands: {', '.join(f'`{word}`' for word in commands)}."
    properties = {"command": _text("What to do.", *commands), **_EDITING, **more}
    return ClientTool(name, description, _object(["command", "path"], **properties))


_EDITS = ("view", "create", "str_replace", "insert")
_OLD_EDITOR = _editor(
    "str_replace_editor",
    *_EDITS,
    "undo_edit",
    new_str=_text("`str_replace`: the text to put in place of `old_str`. `insert`: the text to insert."),
)
_EDITOR = _editor("str_replace_based_edit_tool", *_EDITS, insert_text=_INSERTED)
_MEMORY = ClientTool(
    "memory",
    "Read and write the files in the folder /memories, which are kept from one conversation to the next. View that folder"
    " before doing anything else, to find what earlier conversations left there. Write down progress and findings as you work:"
    " the conversation may be cut short at any time, and only what is written there remains.",
    _object(
        ["command"],
        command=_text("What to do.", *_EDITS, "delete", "rename"),
        **_EDITING,
        insert_text=_INSERTED,
        old_path=_text("`rename`: the current path, instead of `path`."),
        new_path=_text("`rename`: the new path."),
    ),
)

MESSAGES_TOOLS = {
    "bash_20241022": _BASH,
    "bash_20250124": _BASH,
    "text_editor_20241022": _OLD_EDITOR,
    "text_editor_20250124": _OLD_EDITOR,
    "text_editor_20250429": _EDITOR,
    "text_editor_20250728": _EDITOR,
    "memory_20250818": _MEMORY,
}
"""Their calls look like those of any other tool."""


def read_shell_output(output: list[Json]) -> tuple[str, bool]:
    """The commands' output as text, and whether one failed."""
    said: list[str] = []
    has_failed = False
    for chunk in map(as_object, output):
        outcome = as_object(chunk.get("outcome"))
        code, is_late = as_whole(outcome.get("exit_code")), outcome.get("type") == "timeout"
        has_failed = has_failed or is_late or code not in (None, 0)
        if is_late or code is not None:
            said.append("timed out" if is_late else f"exit code: {code}")
        said.append(as_text(chunk.get("stdout")).rstrip("\n"))
        if errors := as_text(chunk.get("stderr")).rstrip("\n"):
            said.append(f"stderr:\n{errors}")
    return "\n".join(filter(None, said)), has_failed
