"""The session of the coding agent that runs a command or calls a tool.

Codex sends its thread with each tool call (`_meta.threadId`) and sets it for shell commands. Claude Code sets its session for
both. Each sends that id with its requests too.
"""

import os
from collections.abc import Mapping

_CODEX, _CLAUDE_CODE = "codex", "claude-code"
_VARIABLES = {"CODEX_THREAD_ID": _CODEX, "CLAUDE_CODE_SESSION_ID": _CLAUDE_CODE}


def find_agent_session(sent: Mapping[str, object] | None = None) -> str:
    """The session by the router's name for it; empty if unknown.

    `sent` is a tool call's `_meta`. If both variables are set, one agent started the other, and the caller is ambiguous.
    """
    thread = (sent or {}).get("threadId")
    found = [f"{client}:{value}" for name, client in _VARIABLES.items() if (value := os.environ.get(name))]
    session = f"{_CODEX}:{thread}" if isinstance(thread, str) and thread else found[0] if len(found) == 1 else ""
    return session if len(session) <= 200 and session.isascii() and session.isprintable() else ""
