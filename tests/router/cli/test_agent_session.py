"""The session of the agent that runs a command."""

import pytest

from router.cli.agent_session import find_agent_session
from router.sessions.clients import CLAUDE_CODE, CODEX

CODEX_VARIABLE, CLAUDE_VARIABLE = "CODEX_THREAD_ID", "CLAUDE_CODE_SESSION_ID"


@pytest.mark.parametrize(
    ("variables", "sent", "session"),
    [
        ({}, None, ""),
        ({}, {"progress_token": 1}, ""),
        ({}, {"threadId": "t1"}, f"{CODEX.name}:t1"),
        ({}, {"threadId": 7}, ""),
        ({}, {"threadId": "t\n1"}, ""),
        ({}, {"threadId": "t" * 200}, ""),
        ({CODEX_VARIABLE: "t1"}, None, f"{CODEX.name}:t1"),
        ({CLAUDE_VARIABLE: "s1"}, {}, f"{CLAUDE_CODE.name}:s1"),
        ({CLAUDE_VARIABLE: "s1"}, {"threadId": "t1"}, f"{CODEX.name}:t1"),  # Codex, started by Claude Code
        ({CLAUDE_VARIABLE: "s1", CODEX_VARIABLE: "t1"}, None, ""),
    ],
)
def test_a_session_is_named_only_where_an_agent_says_it(monkeypatch, variables, sent, session):
    for name in (CODEX_VARIABLE, CLAUDE_VARIABLE):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    assert find_agent_session(sent) == session
