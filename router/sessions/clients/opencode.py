"""opencode."""

from router.contract.words import TurnKind
from router.sessions.clients.client import Client, PlanMarks

OPENCODE = Client(
    "opencode",
    agents=("opencode/", "ai-sdk/"),
    systems=("You are opencode",),
    session_headers=("x-session-id",),
    takes_first_block=True,
    quotes_words=True,
    canned=frozenset(("Summarize the task tool output above and continue with your task.",)),
    recap="What did we do so far?",
    starts=(
        "Continue if you have next steps",
        "The following tool was executed by the user",
        "Called the Read tool with the following input:",
    ),
    compactions=("Provide a detailed prompt for continuing our conversation above",),
    plan=PlanMarks(
        on=("# Plan Mode - System Reminder",), off=("Your operational mode has changed from plan",), block_tag="system-reminder"
    ),
    system_marks=(("You are a title generator", TurnKind.SIDE),),
    system_inner_marks=(
        ("You are a helpful AI assistant tasked with summarizing conversations", TurnKind.COMPACTION),
        ("You are an anchored context summarization assistant", TurnKind.COMPACTION),
    ),
    last_text_marks=(("Generate a title for this conversation", TurnKind.SIDE),),
    header_marks=(("x-parent-session-id", TurnKind.SUBAGENT),),
)
