"""Sessions as coding clients send them, call by call: the whole conversation each time, and in it what the client writes itself."""

import json
from dataclasses import dataclass, field

QUICK = "Fix the typo in the word retrun in calc.py"
LONG = (
    "Refactor the entire billing module: migrate all files to the new API, rewrite the test suite and investigate the deadlock"
)
LOUD = "Rewrite the whole codebase, implement every feature and refactor all modules thoroughly."
"""What a client's own text may say: read as an ask, it would move a quick turn."""

NOTICES = {
    "a finished task": "<task-notification>\n<task-id>a1</task-id>\n<status>completed</status>\n<result>{loud}</result>\n"
    "</task-notification>\nFull transcript available at: /tmp/tasks/a1.output",
    "a finished command": "<task-notification>\n<task-id>b2</task-id>\n<summary>{loud}</summary>\n</task-notification>\n"
    "Read the output file to retrieve the result: /tmp/tasks/b2.output",
    "two at once": "<task-notification>\n<result>{loud}</result>\n</task-notification>\nFull transcript available at: /tmp/a\n"
    "<task-notification>\n<result>{loud}</result>\n</task-notification>\nFull transcript available at: /tmp/b",
    "a teammate": '<teammate-message teammate_id="alice" color="blue" summary="done">\n{loud}\n</teammate-message>',
    "another session": 'Another Claude session sent a message:\n<cross-session-message from="x">\n{loud}\n</cross-session-message>',
    "a stop hook": "Stop hook feedback:\n- [check.sh]: {loud}",
    "a subagent's stop hook": "SubagentStop hook feedback:\n{loud}",
    "a notification in brackets": "[SYSTEM NOTIFICATION - NOT USER INPUT]\nThis is an automated event. {loud}",
    "a skill": "Base directory for this skill: /home/dev/.claude/skills/ship\n\n# Ship\n\n{loud}",
    "a cut answer": "Output token limit hit. Resume directly — no apology, no recap of what you were doing. Pick up mid-thought if "
    "that is where the cut happened. Break remaining work into smaller pieces.",
    "a malformed call": "Your tool call was malformed and could not be parsed. Please retry.",
    "a resumed session": "Continue from where you left off.",
    "a shell of one's own": "<bash-input>ls</bash-input>\n<bash-stdout>{loud}</bash-stdout><bash-stderr></bash-stderr>",
    "a tag that is new": "<monitor-notification>\n{loud}\n</monitor-notification>",
}
"""Messages that Claude Code sends and nobody typed."""
NOTICES = {name: text.replace("{loud}", LOUD) for name, text in NOTICES.items()}

SUMMARY = (
    "This session is being continued from a previous conversation that ran out of context. The summary below covers the earlier "
    f"portion of the conversation.\n\nSummary:\n1. Primary request: {LOUD}\n\nPlease continue the conversation from where we left "
    "it off without asking the user any further questions. Continue with the last task that you were asked to work on."
)
COMPACT = (
    "CRITICAL: Respond with TEXT ONLY. Do NOT call any tools.\n\nYour task is to create a detailed summary of the conversation"
)


@dataclass
class ClaudeCode:
    """One session of Claude Code. What it adds by itself comes as blocks of one message, as it does on the wire."""

    session: str
    messages: list = field(default_factory=list)
    calls: int = 0
    path = "/v1/messages"

    def type(self, *texts: str) -> None:
        self.add(*texts)

    def add(self, *texts: str) -> None:
        """Texts of the user's side. Two messages of one side in a row are merged."""
        blocks = [{"type": "text", "text": text} for text in texts]
        if self.messages and self.messages[-1]["role"] == "user":
            self.messages[-1]["content"] += blocks
        else:
            self.messages.append({"role": "user", "content": blocks})

    def work(self, name: str = "Read") -> None:
        """The model calls a tool, and its result comes back."""
        self.calls += 1
        use = {"type": "tool_use", "id": f"toolu_{self.calls}", "name": name, "input": {"file_path": f"/src/{self.calls}.py"}}
        result = {"type": "tool_result", "tool_use_id": use["id"], "content": "ok"}
        self.messages += [{"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]

    def finish(self) -> None:
        self.messages.append({"role": "assistant", "content": [{"type": "text", "text": "Done."}]})

    def compact(self, *, keeps_last_call: bool) -> None:
        """The conversation is replaced by its summary; newer versions keep the last messages as they are."""
        kept = self.messages[-2:] if keeps_last_call else []
        self.messages = [{"role": "user", "content": SUMMARY}, *kept]

    def body(self, *more: str) -> dict:
        system = [{"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1.325; cc_entrypoint=cli;"}]
        messages = json.loads(json.dumps(self.messages))
        if more:
            messages[-1]["content"] += [{"type": "text", "text": text} for text in more]
        return {"model": "auto", "max_tokens": 1_000, "system": system, "messages": messages}

    @property
    def headers(self) -> dict[str, str]:
        return {
            "user-agent": "claude-cli/2.1.325 (external, cli)",
            "x-claude-code-session-id": self.session,
            "anthropic-version": "2023-06-01",
        }


@dataclass
class Codex:
    """One session of Codex, which names its turns."""

    session: str
    items: list = field(default_factory=list)
    calls: int = 0
    turn: int = 0
    path = "/v1/responses"

    def type(self, text: str) -> None:
        self.turn += 1
        self.add(text)

    def add(self, text: str) -> None:
        self.items.append({"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]})

    def work(self) -> None:
        self.calls += 1
        call = {"type": "function_call", "call_id": f"c{self.calls}", "name": "shell", "arguments": f'{{"n": {self.calls}}}'}
        self.items += [call, {"type": "function_call_output", "call_id": f"c{self.calls}", "output": "ok"}]

    def finish(self) -> None:
        text = [{"type": "output_text", "text": "Done."}]
        self.items.append({"type": "message", "role": "assistant", "content": text})

    def compact(self) -> None:
        typed = [item for item in self.items if item.get("role") == "user"]
        self.items = typed
        self.add(f"Another language model started to solve this problem and produced a summary of its thinking process. {LOUD}")

    def body(self) -> dict:
        metadata = {"thread_id": self.session, "turn_id": f"turn-{self.turn}", "request_kind": "turn", "thread_source": "user"}
        return {
            "model": "auto",
            "store": False,
            "input": list(self.items),
            "client_metadata": {"x-codex-turn-metadata": json.dumps(metadata)},
        }

    @property
    def headers(self) -> dict[str, str]:
        return {"user-agent": "codex_cli_rs/0.166.0", "thread-id": self.session, "session-id": self.session}
