"""The session of the coding agent that runs a command or calls a tool, as far as the agent says it.

Codex sends its thread with each call of a tool (`_meta.threadId`), and sets it for the shell commands that it runs. Claude Code
sets its session for both. Each sends the same id with its requests, so the router knows the session by it.
"""

import os
from collections.abc import Mapping

_CODEX, _CLAUDE_CODE = "codex", "claude-code"
_VARIABLES = {"CODEX_THREAD_ID": _CODEX, "CLAUDE_CODE_SESSION_ID": _CLAUDE_CODE}


def find_agent_session(sent: Mapping[str, object] | None = None) -> str:
    """The session by the name that the router has for it; empty where it is not known.

    `sent` is the `_meta` of a tool's call. Where both variables are set, one agent was started by the other, and which one runs
    this command cannot be told.
    """
    thread = (sent or {}).get("threadId")
    found = [f"{client}:{value}" for name, client in _VARIABLES.items() if (value := os.environ.get(name))]
    session = f"{_CODEX}:{thread}" if isinstance(thread, str) and thread else found[0] if len(found) == 1 else ""
    return session if len(session) <= 200 and session.isascii() and session.isprintable() else ""
