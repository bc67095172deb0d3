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
    wraps_words_in: tuple[str, ...] = ()
    """The tags around the person's words."""
    words_end_at: tuple[str, ...] = ()
    """Format instructions that follow the words inside the same text."""
    result_mark: str | None = None
    """What a tool result looks like when it travels as a user's text."""
    replies_in: tuple[str, ...] = ()
    """How such a result begins when it carries the person's reply in one of those tags. In others the tags may be a file's."""
    canned: frozenset[str] = frozenset()
    """Whole messages that it sends by itself. Matched as a whole, because a person may say as much and more."""
    recap: str | None = None
    """A question that it puts before the summary of a compacted conversation. As the last message it is the person's."""
    examples_end_at: str | None = None
    """How the message begins that closes an example conversation: nothing up to it is the person's."""
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
    Client(
        "codex",
        agents=("codex",),
        session_headers=("thread-id", "session-id"),
        canned=frozenset(("<image>", "</image>")),
        default_efforts=("medium",),
    ),
    Client(
        "claude-code",
        agents=("claude-cli/",),
        session_headers=("x-claude-code-agent-id", "x-claude-code-session-id"),
        takes_last_block=True,
        canned=frozenset(("Continue from where you left off.", "Tool loaded.")),
        default_efforts=("medium", "high"),
    ),
    Client(
        "opencode",
        agents=("opencode/", "ai-sdk/"),
        systems=("You are opencode",),
        session_headers=("x-session-id",),
        takes_first_block=True,
        quotes_words=True,
        canned=frozenset(("Summarize the task tool output above and continue with your task.",)),
        recap="What did we do so far?",
    ),
    Client("qwen-code", agents=("QwenCode/",), systems=("You are Qwen Code",), takes_last_block=True),
    Client(
        "cline",
        agents=("Cline/",),
        systems=("You are Cline",),
        wraps_words_in=("task", "feedback", "user_message", "answer"),
        result_mark="] Result:",
        replies_in=("[attempt_completion]", "[ask_followup_question", "[plan_mode_respond", "provided the following feedback"),
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
        examples_end_at="I switched to a new code base. Please don't consider the above files",
    ),
)

UNKNOWN_CLIENT = Client("unknown")
BY_NAME = {client.name: client for client in (*CLIENTS, UNKNOWN_CLIENT)}
NICKNAMES = {"claude": "claude-code", "qwen": "qwen-code"}
"""What people call a client when they type."""
SESSION_HEADERS = tuple((name, client) for client in CLIENTS for name in client.session_headers)

HARNESS_TAGS = (
    # Claude Code, and clients that follow it
    "system-reminder",
    "task-notification",
    "teammate-message",
    "agent-message",
    "cross-session-message",
    "fetched-web-content",
    "local-command-caveat",
    "local-command-stdout",
    "local-command-stderr",
    "bash-input",
    "bash-stdout",
    "bash-stderr",
    "user-prompt-submit-hook",
    "user-memory-input",
    "new-diagnostics",
    "available-deferred-tools",
    "ide_opened_file",
    "ide_selection",
    "ide_diagnostics",
    "command-name",
    "command-message",
    "command-args",
    # Codex
    "environment_context",
    "additional_context",
    "user_instructions",
    "user_shell_command",
    "user_action",
    "codex_internal_context",
    "goal_context",
    "hook_prompt",
    "recommended_plugins",
    "token_budget",
    "model_switch",
    "turn_aborted",
    # Cline
    "environment_details",
    # Cursor
    "system_notification",
    # Conductor
    "system_instruction",
)
"""Tags whose content the person did not type, wherever they are in a user's message."""

TELLING_TAGS = r"ide_[a-z_]+|(?:[a-z]+[-_])+(?:notification|reminder|caveat|stdout|stderr|hook)"
"""Tags that are not known yet and whose names say what they are: an editor's context, notices, the output of commands.

They count only where they are closed: somebody may speak of one.
"""

WORDS_BEGIN_AFTER = ("## My request for Codex:",)
"""Marks of an editor's own context: what the person typed follows the last of them."""

WORDS_ARE_IN = ("user_query", "userRequest")
"""Tags that Cursor and Copilot put around the person's words, next to their own context. Any client may pass these on."""

ATTACHMENTS_BEGIN = tuple(f"{gap}--- Content from referenced files ---" for gap in ("", "\n", "\n\n"))
"""The block after which qwen-code and Gemini CLI put the files that the words name, each as a block of its own."""

NOTICE_LINES = ("Full transcript available at:", "Read the output file")
"""Lines that Claude Code adds after a notification, outside its tag."""

COMMAND_OPENS = ("<command-name>", "<command-message>")
"""How a typed command begins. The text that it expands to follows as a block, or a message, of its own."""

LOCAL_CAVEATS = ("<local-command-caveat>", "Caveat: The messages below were generated by the user while running local commands")
LOCAL_OUTPUTS = ("<local-command-stdout>", "<local-command-stderr>")
"""What surrounds a command that Claude Code runs by itself: such a command is not a message to the model."""
LOCAL_COMMANDS = frozenset(
    """
    /add-dir /agents /bashes /clear /color /compact /config /context /copy /cost /doctor /effort /exit /export /extra-usage
    /fast /help /hooks /ide /keybindings /login /logout /mcp /memory /model /output-style /permissions /plugin /plugins
    /privacy-settings /release-notes /reload-plugins /remote-control /rename /resume /rewind /sandbox /skills /stats /status
    /tasks /terminal-setup /theme /upgrade /usage /vim
    """.split()
)
"""Commands that are always such."""

INTERRUPT = "[Request interrupted by user"
"""What Claude Code puts, as a block of its own, between what was interrupted and what was typed next."""

SUMMARIES = (
    "This session is being continued from",
    "Please continue the conversation from where we left it off",
    "Continue the conversation from where it left off",
    "Another language model started to solve this problem",
    "I spoke to you previously about a number of things.",
)
"""How the message begins that replaces a compacted conversation. What comes before it was said before."""

COMPACTIONS = (
    "You are performing a CONTEXT CHECKPOINT COMPACTION",
    "CRITICAL: Respond with TEXT ONLY. Do NOT call any tools",
    "Your task is to create a detailed summary of the conversation so far",
    "Provide a detailed prompt for continuing our conversation above",
    "You are the component that summarizes a conversation",
    "First, reason in your <analysis> block. Then, produce the <state_snapshot>",
)
"""How a client asks for such a summary."""

CUT_ANSWERS = (
    "Output token limit hit. Resume directly",
    "Your response was cut off because it exceeded the output token limit.",
)
"""How a client asks for the rest of an answer: Claude Code as it is and before 2026, and others in the same words."""

_HOOKS = "Stop SubagentStop TeammateIdle TaskCompleted TaskCreated UserPromptSubmit PreToolUse PostToolUse SessionStart".split()

HARNESS_STARTS = (
    *SUMMARIES,
    *COMPACTIONS,
    *CUT_ANSWERS,
    *NOTICE_LINES,
    *(f"{hook} hook feedback" for hook in _HOOKS),
    LOCAL_CAVEATS[1],
    # Claude Code
    "Base directory for this skill:",
    "[SYSTEM NOTIFICATION",
    "Another Claude session sent a message:",
    "A peer session sent a message while you were working:",
    "The coordinator sent a message while you were working:",
    'Background agent "',
    "A session-scoped Stop hook is now active",
    "# Autonomous loop tick",
    "Your tool call was malformed and could not be parsed.",
    "[Your previous response had no visible output.",
    INTERRUPT,
    # Codex
    "# AGENTS.md instructions for",
    "<skill>\n<name>",
    "Warning: The maximum number of unified exec processes",
    "Warning: apply_patch was requested via",
    "<image name=[Image #",
    # Cursor
    "Briefly inform the user about the task result and perform any follow-up actions",
    # opencode
    "Continue if you have next steps",
    "The following tool was executed by the user",
    "Called the Read tool with the following input:",
    # Cline
    "# task_progress",
    "[ERROR] You did not use a tool in your previous response!",
    # qwen-code and Gemini CLI
    "Here is the user's editor context as a JSON object",
    "Here is a summary of changes in the user's editor context",
    "This is the Gemini CLI. We are setting up the context for our chat",
    "This is the Qwen Code. We are setting up the context for our chat",
    "System: Please continue.",
    # aider
    "I have *added these files to the chat*",
    "I added these files to the chat:",
    "Here are summaries of some files present in my git repo",
    "Here are some READ ONLY files, provided for your reference.",
    "I am working with you on code in a git repository",
    "I am not sharing any files",
    "I switched to a new code base. Please don't consider the above files",
    "# Fix any errors below, if possible.",
    "# Fix any linting errors below, if possible.",
    "The LLM did not conform to the edit format.",
    *(f"# {count} SEARCH/REPLACE block" for count in range(1, 10)),
)
"""How a message begins that a client wrote by itself. A new version's is one row here."""

RESUMED_AFTER = (*((start, "compaction") for start in SUMMARIES), *((start, "a cut answer") for start in CUT_ANSWERS))
"""What a turn goes on after, by how the client's own message begins."""

SYSTEM_MARKS: tuple[tuple[str, TurnKind], ...] = (
    ("You are a title generator", TurnKind.SIDE),
    ("You are an expert software engineer that generates concise, one-line Git commit messages", TurnKind.SIDE),
    ("Act as an expert software developer and make changes to source code", TurnKind.SIDE),
    ("You are a general-purpose subagent", TurnKind.SUBAGENT),
)
"""A system prompt that begins so."""

SEARCHER = "You are a file search specialist"
"""How the prompt of the `Explore` subagent begins, in Claude Code, opencode and others: it reads and searches, and no more."""

SYSTEM_INNER_MARKS: tuple[tuple[str, TurnKind], ...] = (
    ("cc_is_subagent=true", TurnKind.SUBAGENT),
    (SEARCHER, TurnKind.SUBAGENT),
    ("You are a helpful AI assistant tasked with summarizing conversations", TurnKind.COMPACTION),
    ("You are an anchored context summarization assistant", TurnKind.COMPACTION),
    # What Claude Code asks a model for its own use
    ("You are an assistant for performing a web search tool use", TurnKind.SIDE),
    ("You are evaluating a hook in Claude Code", TurnKind.SIDE),
    ("You are a security monitor for autonomous AI coding agents", TurnKind.SIDE),
    ("Analyze if this message indicates a new conversation topic", TurnKind.SIDE),
    ("Extract any file paths that this command reads or modifies", TurnKind.SIDE),
    ("Summarize this coding conversation in under 50 characters", TurnKind.SIDE),
    ("Write a short summary label describing what these tool calls accomplished", TurnKind.SIDE),
)
"""A system prompt whose first 400 characters hold this."""

SIDE_WITH_TOOLS = (
    "[SUGGESTION MODE:",
    "The user stepped away and is coming back. Recap",
    "IMPORTANT: This message and these instructions are NOT part of the actual user conversation",
    "You are now acting as the memory extraction subagent",
    "Describe your most recent action in 3-5 words",
)
"""How Claude Code's side requests end that repeat the whole conversation with its tools."""

LAST_TEXT_MARKS: tuple[tuple[str, TurnKind], ...] = (
    *((start, TurnKind.COMPACTION) for start in COMPACTIONS),
    ("Generate a title for this conversation", TurnKind.SIDE),
    ("Generate a concise, single-line task title", TurnKind.SIDE),
    ("<session>", TurnKind.SIDE),
    ("Web page content:\n---", TurnKind.SIDE),
    ("\nWeb page content:\n---", TurnKind.SIDE),
    ("<policy_spec>", TurnKind.SIDE),
    *((start, TurnKind.SIDE) for start in SIDE_WITH_TOOLS),
)
"""A last user text that begins so. A request with tools is no side request by these, apart from `SIDE_WITH_TOOLS`."""

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
    "TodoWrite TodoRead todo_write todo_read todowrite todoread update_plan update_todo_list think memory".split()
)
"""Tools that only keep a list or notes: no work, and "write" in a name of these changes no file."""
