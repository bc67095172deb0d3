"""Where the first request of a connected client may differ from the one without Tandem, and why. The page of clients has it."""

DIFFERENCES: dict[str, dict[str, str]] = {
    "codex": {},
    "claude-code": {},
    "opencode": {},
    "qwen-code": {},
    "continue": {},
    "cline": {},
    "aider": {},
    "llm": {},
    "copilot": {},
}
