"""Qwen Code. Gemini CLI, its origin, writes the same texts."""

from router.sessions.clients.client import Client

ATTACHMENTS_BEGIN = tuple(f"{gap}--- Content from referenced files ---" for gap in ("", "\n", "\n\n"))
"""After this block come the files that the words name, one block each."""

QWEN_CODE = Client(
    "qwen-code",
    nickname="qwen",
    agents=("QwenCode/",),
    systems=("You are Qwen Code",),
    takes_last_block=True,
    starts=(
        "Here is the user's editor context as a JSON object",
        "Here is a summary of changes in the user's editor context",
        "This is the Gemini CLI. We are setting up the context for our chat",
        "This is the Qwen Code. We are setting up the context for our chat",
        "System: Please continue.",
    ),
    compactions=(
        "You are the component that summarizes a conversation",
        "First, reason in your <analysis> block. Then, produce the <state_snapshot>",
    ),
)
