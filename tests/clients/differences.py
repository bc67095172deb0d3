"""Where the first request of a connected client differs from the one without Tandem, and why, by the fields that differ.

The page of each client in `docs/use/` has these sentences.
"""

DIFFERENCES: dict[str, dict[str, str]] = {
    "codex": {
        r"input\[0\]\.content\[0\]\.text": "one more line about checklists in the system prompt, which Codex removes from"
        " its own catalogue but not from a copy",
        r"input\[\d\]\.internal_chat_message_metadata_passthrough\..*": "no bookkeeping of its messages, which Codex sends to"
        " OpenAI's provider only",
    },
    "claude-code": {r"messages\[1\]\.content\[0\]\.text": 'the model\'s id in the prompt is "auto"'},
    "opencode": {r"messages\[0\]\.content": 'the provider in the prompt is "tandem"'},
    "qwen-code": {},
    "continue": {},
    "cline": {},
    "aider": {r"stream_options\.include_usage": "the router's request for usage, whose answer is hidden from aider"},
    "llm": {},
    "copilot": {},
}
