"""aider."""

from router.contract.words import TurnKind
from router.sessions.clients.client import Client, PlanMarks

_NEW_CODE = "I switched to a new code base. Please don't consider the above files"

AIDER = Client(
    "aider",
    systems=("Act as an expert software developer", "Act as an expert architect engineer", "Act as an expert code analyst"),
    words_end_at=(
        "\n\nTo suggest changes to a file you MUST",
        "\n\n# *SEARCH/REPLACE block* Rules:",
        "\n\n# File editing rules:",
        "\n\n# *udiff",
    ),
    examples_end_at=_NEW_CODE,
    calls_tools=False,
    starts=(
        "I have *added these files to the chat*",
        "I added these files to the chat:",
        "Here are summaries of some files present in my git repo",
        "Here are some READ ONLY files, provided for your reference.",
        "I am working with you on code in a git repository",
        "I am not sharing any files",
        _NEW_CODE,
        "# Fix any errors below, if possible.",
        "# Fix any linting errors below, if possible.",
        "The LLM did not conform to the edit format.",
        *(f"# {count} SEARCH/REPLACE block" for count in range(1, 10)),
    ),
    plan=PlanMarks(
        planners=("Act as an expert architect engineer",),
        editors=(
            "Act as an expert software developer and make changes to source code",
            "Act as an expert software developer who edits source code",
        ),
    ),
    summaries=("I spoke to you previously about a number of things.",),
    system_marks=(
        ("You are an expert software engineer that generates concise, one-line Git commit messages", TurnKind.SIDE),
        ("Act as an expert software developer and make changes to source code", TurnKind.SIDE),
    ),
)
