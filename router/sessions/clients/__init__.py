"""The known clients as data: a new version is one capture and one row in the client's file.

Each client's texts apply to all, since clients copy each other. "Harness" is text in user messages that nobody typed.
"""

from router.contract.words import TurnKind
from router.sessions.clients.aider import AIDER
from router.sessions.clients.claude_code import (
    CLAUDE_CODE,
    COMMAND_OPENS,
    INTERRUPT,
    LOCAL_CAVEATS,
    LOCAL_COMMANDS,
    LOCAL_OUTPUTS,
)
from router.sessions.clients.client import Client, Marks, PlanMarks, Stated
from router.sessions.clients.cline import CLINE
from router.sessions.clients.codex import CODEX
from router.sessions.clients.opencode import OPENCODE
from router.sessions.clients.qwen_code import ATTACHMENTS_BEGIN, QWEN_CODE

__all__ = [
    "ATTACHMENTS_BEGIN",
    "COMMAND_OPENS",
    "INTERRUPT",
    "LOCAL_CAVEATS",
    "LOCAL_COMMANDS",
    "LOCAL_OUTPUTS",
    "Client",
    "Stated",
]

CLIENTS = (
    CODEX,
    CLAUDE_CODE,
    OPENCODE,
    QWEN_CODE,
    CLINE,
    Client("continue", agents=("ls/JS",), systems=("You are an agent in the Continue CLI",)),
    AIDER,
)
UNKNOWN_CLIENT = Client("unknown")
BY_NAME = {client.name: client for client in (*CLIENTS, UNKNOWN_CLIENT)}
NICKNAMES = {client.nickname: client.name for client in CLIENTS if client.nickname}
SESSION_HEADERS = tuple((name, client) for client in CLIENTS for name in client.session_headers)
STATED_READERS = tuple(client.read_stated for client in CLIENTS if client.read_stated is not None)
TURN_STATE_HEADERS = frozenset(client.turn_state_header for client in CLIENTS if client.turn_state_header)
MODEL_LISTS = tuple(client.models for client in CLIENTS if client.models is not None)

SEARCHER = "You are a file search specialist"
"""The read-only `Explore` subagent in Claude Code, opencode and others."""
WORDS_ARE_IN = ("user_query", "userRequest")
"""Used by Cursor and Copilot, and passed on by any client."""
TELLING_TAGS = r"ide_[a-z_]+|(?:[a-z]+[-_])+(?:notification|reminder|caveat|stdout|stderr|hook)"
"""Unknown tags with telling names. Only closed ones count, since people mention tags."""

_CURSOR_TAG, _CONDUCTOR_TAG = "system_notification", "system_instruction"
_CURSOR_START = "Briefly inform the user about the task result and perform any follow-up actions"

HARNESS_TAGS = (*(tag for client in CLIENTS for tag in client.tags), _CURSOR_TAG, _CONDUCTOR_TAG)
WORDS_BEGIN_AFTER = tuple(mark for client in CLIENTS for mark in client.words_begin_after)
NOTICE_LINES = tuple(line for client in CLIENTS for line in client.notice_lines)
SUMMARIES = tuple(start for client in CLIENTS for start in client.summaries)
_PLANS = tuple(client.plan for client in CLIENTS if client.plan is not None)
ANY_PLAN = PlanMarks(
    tuple(mark for plan in _PLANS for mark in plan.on),
    tuple(mark for plan in _PLANS for mark in plan.off),
    block_tag="system-reminder",
)
"""For clients that are not known to have a plan mode: some send another client's marks."""
SIDE_WITH_TOOLS = tuple(start for client in CLIENTS for start in client.side_with_tools)
_COMPACTIONS = tuple(start for client in CLIENTS for start in client.compactions)
_CUT_ANSWERS = tuple(start for client in CLIENTS for start in client.cut_answers)
HARNESS_STARTS = (
    *(*SUMMARIES, *_COMPACTIONS, *_CUT_ANSWERS, *NOTICE_LINES),
    *(start for client in CLIENTS for start in client.starts),
    _CURSOR_START,
)
RESUMED_AFTER = (*((start, "compaction") for start in SUMMARIES), *((start, "a cut answer") for start in _CUT_ANSWERS))
"""By the beginning of the client's message."""

SYSTEM_MARKS: Marks = (
    *(mark for client in CLIENTS for mark in client.system_marks),
    ("You are a general-purpose subagent", TurnKind.SUBAGENT),
)
SYSTEM_INNER_MARKS: Marks = (
    *(mark for client in CLIENTS for mark in client.system_inner_marks),
    (SEARCHER, TurnKind.SUBAGENT),
)
LAST_TEXT_MARKS: Marks = (
    *((start, TurnKind.COMPACTION) for start in _COMPACTIONS),
    *(mark for client in CLIENTS for mark in client.last_text_marks),
    ("Generate a concise, single-line task title", TurnKind.SIDE),
    *((start, TurnKind.SIDE) for start in SIDE_WITH_TOOLS),
)
HEADER_MARKS: Marks = tuple(mark for client in CLIENTS for mark in client.header_marks)
