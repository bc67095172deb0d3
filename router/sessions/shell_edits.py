"""Files that a shell command writes, for edits that no tool's name shows.

In-place editors, text or here-documents sent to a file, patches and scripts that write count as edits. Moving, copying,
deleting and kept output (`pytest > log`) do not, nor do files under /tmp and /dev.
"""

import re
import shlex
from collections.abc import Iterator
from functools import lru_cache
from itertools import compress, repeat

import orjson

from router.contract.request import Json

_SHELL_MARKS = ("bash", "shell", "exec", "terminal", "command", "cmd", "powershell")
_COMMAND_FIELDS = ("command", "cmd", "script", "code", "input")
_MAX_CHARS = 20_000
_SCRATCH = ("/dev/", "/tmp/", "/var/tmp/", "&")  # noqa: S108  only compared
_EDITORS = ("sed", "perl", "ruby", "awk")
_MARKS = (*_EDITORS, ">", "tee", "patch", "*** Begin Patch", "git apply", "write", "open(")
"""A command without any of these writes no file."""
_QUOTED = r"""'[^']*'|"(?:[^"\\]|\\.)*\""""
_ARGUMENT = rf"(?:{_QUOTED}|[^\s;&|<>'\"][^\s;&|<>]*)"
_IN_PLACE = re.compile(
    rf"\b(?:sed|perl|ruby|awk)((?:\s+{_ARGUMENT}){{0,8}}?\s+(?:-[a-zA-Z0-9]*i\b\S*|-i\w\S*|--in-place\S*)(?:\s+{_ARGUMENT}){{1,40}})"
)
_IN_PLACE_FLAG = re.compile(r"\s-(?:[a-zA-Z0-9]*i|-in-place)")
"""Most commands with an editor only print: without this flag, skip the pattern above."""
_SENT_TO_FILE = re.compile(
    rf"(?:^|[\n;&|({{])[ \t]*(?:sudo )?(?:cat|echo|printf|base64)\b(?:{_QUOTED}|<<|[^\n|;&<>'\"])*?"
    rf">{{1,2}}\s*(['\"]?)([^\s;&|<>'\"]+)\1"
)
_SENDERS = ("cat", "echo", "printf", "base64")
_TEE = re.compile(r"\btee\s+(?:-\w+\s+)*(['\"]?)([^\s;&|<>'\"]+)\1")
_PATCHED = re.compile(r"^(?:\*\*\* (?:Update|Add|Delete) File: |\+\+\+ (?:b/)?)([^\n\t]{1,300})", re.MULTILINE)
_PATCH = re.compile(r"\*\*\* Begin Patch|\bgit apply\b(?! --(?:check|stat))|(?:^|[\n;&|])[ \t]*patch\s+[-<\w]")
_SCRIPT_WRITES = re.compile(
    r"""\bopen\(\s*(?:f?(['"])([^'"\n]{1,300})\1|[\w./\[\]]+)\s*,\s*(?:mode\s*=\s*)?['"][wax]|"""
    r"""(?:Path\(\s*(['"])([^'"\n]{1,300})\3\s*\)|\w)\.write_(?:text|bytes)\(|\bwriteFile(?:Sync)?\(\s*(['"])([^'"\n]{1,300})\5"""
)
_NAMED = re.compile(r"\w")
_SCRIPT = re.compile(r"\b(?:python[\d.]*|node|ruby|perl|deno|bun)\b")


@lru_cache(maxsize=1024)
def is_shell(name: str) -> bool:
    lower = name.lower()
    return any(mark in lower for mark in _SHELL_MARKS)


def find_shell_edit(arguments: Json) -> tuple[str, ...] | None:
    """The files that a command writes; empty names for unknown ones, None for no edit."""
    if isinstance(arguments, str) and not any(map(arguments.__contains__, _MARKS)):
        return None
    command = _command_of(arguments)[:_MAX_CHARS]
    if not any(map(command.__contains__, _MARKS)):
        return None
    found = [file for file in _files_written(command) if not file.startswith(_SCRATCH)]
    return tuple(dict.fromkeys(found)) or None


def _command_of(arguments: Json) -> str:
    """The command from text, JSON text, an object or an argument list (`["bash", "-lc", "…"]`)."""
    if isinstance(arguments, str):
        if arguments[:1] not in "{[":
            return arguments
        try:
            arguments = orjson.loads(arguments)
        except orjson.JSONDecodeError:
            return str(arguments)
    if isinstance(arguments, dict):
        fields = arguments
        if isinstance(commands := fields.get("commands"), list):
            return "\n".join(line for line in commands if isinstance(line, str))
        arguments = next((given for given in map(fields.get, _COMMAND_FIELDS) if given), "")
    if isinstance(arguments, list):
        parts: list[str] = list(compress(arguments, map(isinstance, arguments, repeat(str))))  # type: ignore[arg-type]  # texts
        return parts[-1] if parts and parts[0].endswith("sh") else shlex.join(parts)
    return arguments if isinstance(arguments, str) else ""


def _files_written(command: str) -> Iterator[str]:
    has = command.__contains__
    if any(map(has, _EDITORS)) and _IN_PLACE_FLAG.search(command):
        for found in _IN_PLACE.finditer(command):
            file = found.group(1).split()[-1].strip("'\"")
            yield file if _NAMED.search(file) else ""  # `find … -exec sed -i … {} +`
    if ">" in command and any(map(has, _SENDERS)):
        for found in _SENT_TO_FILE.finditer(command):
            yield found.group(2)
    if "tee" in command:
        for found in _TEE.finditer(command):
            yield found.group(2)
    if ("atch" in command or "git apply" in command) and _PATCH.search(command):
        yield from [file.strip() for file in _PATCHED.findall(command)] or [""]
    if ("write" in command or "open(" in command) and _SCRIPT.search(command):
        for found in _SCRIPT_WRITES.finditer(command):
            yield found.group(2) or found.group(4) or found.group(6) or ""
