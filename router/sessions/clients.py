"""What each known client looks like on the wire, as data: a new version is one capture and one row.

Marks are matched at the start of a text unless a comment says otherwise. Harness text is whatever a client puts among
the person's messages that nobody typed.
"""

from dataclasses import dataclass

from router.contract.words import TurnKind


@dataclass(frozen=True, slots=True)
class Client:
    """How to know one client, and where it keeps things."""

    name: str
    agents: tuple[str, ...] = ()
    """Prefixes of its `user-agent`."""
    systems: tuple[str, ...] = ()
    """Prefixes of its system prompt, for clients whose `user-agent` is their library's."""
    session_headers: tuple[str, ...] = ()
    """Where its session id stands, the narrowest first: a subagent is a session of its own."""
    wraps_words_in: str | None = None
    """The tag around the person's words."""
    words_end_at: tuple[str, ...] = ()
    """Format instructions that follow the words inside the same text."""
    result_mark: str | None = None
    """What a tool result looks like when it travels as a user's text."""
    takes_last_block: bool = False
    """Whether only the last block of a message is the person's: the others are context that it adds."""
    takes_first_block: bool = False
    """Whether only the first block of a message is the person's: what they attached follows it."""
    quotes_words: bool = False
    """Whether it may put quotation marks around what was typed."""
    needs_calls: bool = False
    """Whether an answer without a tool call is a failure to it."""
    default_efforts: tuple[str, ...] = ()
    """The reasoning effort that it sends by default, by model: the person did not choose it."""


CLIENTS = (
    Client("codex", agents=("codex",), session_headers=("thread-id", "session-id"), default_efforts=("medium",)),
    Client(
        "claude-code",
        agents=("claude-cli/",),
        session_headers=("x-claude-code-agent-id", "x-claude-code-session-id"),
        takes_last_block=True,
        default_efforts=("medium", "high"),
    ),
    Client(
        "opencode",
        agents=("opencode/", "ai-sdk/"),
        systems=("You are opencode",),
        session_headers=("x-session-id",),
        takes_first_block=True,
        quotes_words=True,
    ),
    Client("qwen-code", agents=("QwenCode/",), systems=("You are Qwen Code",), takes_last_block=True),
    Client(
        "cline",
        agents=("Cline/",),
        systems=("You are Cline",),
        wraps_words_in="task",
        result_mark="] Result:",
        needs_calls=True,
    ),
    Client("continue", agents=("ls/JS",), systems=("You are an agent in the Continue CLI",)),
    Client(
        "aider",
        systems=("Act as an expert software developer", "Act as an expert architect engineer", "Act as an expert code analyst"),
        words_end_at=(
            "\n\nTo suggest changes to a file you MUST",
            "\n\n# *SEARCH/REPLACE block* Rules:",
            "\n\n# File editing rules:",
            "\n\n# *udiff",
        ),
    ),
)

UNKNOWN_CLIENT = Client("unknown")
BY_NAME = {client.name: client for client in (*CLIENTS, UNKNOWN_CLIENT)}
NICKNAMES = {"claude": "claude-code", "qwen": "qwen-code"}
"""What people call a client when they type."""
SESSION_HEADERS = tuple((name, client) for client in CLIENTS for name in client.session_headers)

HARNESS_TAGS = (
    "system-reminder",
    "environment_context",
    "environment_details",
    "user_instructions",
    "task-notification",
    "local-command-caveat",
    "local-command-stdout",
    "local-command-stderr",
    "command-name",
    "command-message",
    "command-args",
    "model_switch",
    "turn_aborted",
)
"""Tags whose content the person did not type, wherever they are in a user's message."""

WORDS_BEGIN_AFTER = ("## My request for Codex:",)
"""Marks of an editor's own context: what the person typed follows the last of them."""

INTERRUPT = "[Request interrupted by user"
"""What Claude Code puts, as a block of its own, between what was interrupted and what was typed next."""

HARNESS_STARTS = (
    "Another language model started to solve this problem",
    "This session is being continued from a previous conversation",
    "# AGENTS.md instructions for",
    "# task_progress",
    "[SYSTEM NOTIFICATION - NOT USER INPUT]",
    INTERRUPT,
    "I have *added these files to the chat*",
    "Here are summaries of some files present in my git repo",
    "I am working with you on code in a git repository",
)

SYSTEM_MARKS: tuple[tuple[str, TurnKind], ...] = (
    ("You are a title generator", TurnKind.SIDE),
    ("You are an expert software engineer that generates concise, one-line Git commit messages", TurnKind.SIDE),
    ("Act as an expert software developer and make changes to source code", TurnKind.SIDE),
    ("You are a general-purpose subagent", TurnKind.SUBAGENT),
)
"""A system prompt that begins so."""

SYSTEM_INNER_MARKS: tuple[tuple[str, TurnKind], ...] = (("cc_is_subagent=true", TurnKind.SUBAGENT),)
"""A system prompt whose first 400 characters hold this."""

LAST_TEXT_MARKS: tuple[tuple[str, TurnKind], ...] = (
    ("You are performing a CONTEXT CHECKPOINT COMPACTION", TurnKind.COMPACTION),
    ("CRITICAL: Respond with TEXT ONLY. Do NOT call any tools", TurnKind.COMPACTION),
    ("You are the component that summarizes a conversation", TurnKind.COMPACTION),
    ("First, reason in your <analysis> block. Then, produce the <state_snapshot>", TurnKind.COMPACTION),
    ("Generate a title for this conversation", TurnKind.SIDE),
    ("Generate a concise, single-line task title", TurnKind.SIDE),
    ("<session>", TurnKind.SIDE),
)
"""A last user text that begins so."""

HEADER_MARKS: tuple[tuple[str, TurnKind], ...] = (
    ("x-claude-code-agent-id", TurnKind.SUBAGENT),
    ("x-parent-session-id", TurnKind.SUBAGENT),
    ("x-openai-subagent", TurnKind.SUBAGENT),
)
"""A header that is there at all, not empty."""

CODEX_KINDS = {"prewarm": TurnKind.PREWARM, "compaction": TurnKind.COMPACTION, "memory": TurnKind.SIDE}
CODEX_SOURCES = {"subagent": TurnKind.SUBAGENT, "thread_title": TurnKind.SIDE}

PLAN_MARKS = ("Plan mode is active", "# Plan Mode - System Reminder", "# Current Mode\nPLAN MODE")
"""Anywhere in the text that a client puts around the last message."""

GOING_ON = frozenset(
    """
    sounds approved agreed yes y yep yeah yup sure
    continue go proceed next resume again retry more do carry keep weiter ja los mach oui vas-y
    continuez sí si adelante continúa sigue sim continua да продолжай давай はい 続けて お願いします 继续 是 是的 可以 계속 네
    """.split()
)
"""Words of a "go on": it inherits what the turn before was about."""
AROUND_GOING_ON = frozenset(
    "ok okay please it on ahead going that so good looks lgtm perfect great thanks thank you stp vale 好 好的".split()
)
"""What may stand beside them. Alone these ask for nothing."""
FOLLOW_UP_MOST_WORDS = 4

EDIT_MARKS = ("edit", "write", "patch", "str_replace", "create_file", "replace_in_file", "insert", "delete_file", "rename")
"""A tool whose name holds one of these changes files."""

BOOKKEEPING_TOOLS = frozenset(
    "TodoWrite TodoRead todo_write todo_read todowrite todoread update_plan update_todo_list think".split()
)
"""Tools that only keep a list: no work, and "write" in a name of these changes no file."""
