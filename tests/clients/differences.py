"""Where the first request of a connected client differs from the one without Tandem, and why, by the fields that differ.

`docs/how-to/point-a-client.md` has the same sentences.
"""

DIFFERENCES: dict[str, dict[str, str]] = {
    "codex": {
        r"input\[0\]\.content\[0\]\.text": "one line about checklists more in the system prompt: Codex takes it out of its own"
        " catalogue, and not out of a copy",
        r"input\[\d\]\.internal_chat_message_metadata_passthrough\..*": "no bookkeeping of its messages: Codex sends it to"
        " OpenAI's provider alone",
    },
    "claude-code": {r"messages\[1\]\.content\[0\]\.text": 'the model\'s id in the prompt is "auto"'},
    "opencode": {r"messages\[0\]\.content": 'the provider in the prompt is "tandem"'},
    "qwen-code": {},
    "continue": {},
    "cline": {},
    "aider": {r"stream_options\.include_usage": "the router's request for usage, whose answer aider does not see"},
    "llm": {},
    "copilot": {},
}
