"""Small logs as clients write them: words, tool calls and incidents of each turn."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

BEGAN = datetime(2026, 3, 1, 9, 0, tzinfo=UTC)


@dataclass
class Told:
    words: str
    calls: tuple[str, ...] = ()
    answer: str = "All done."
    model: str = "some-model"
    prompt_tokens: int = 0
    effort: str | None = None
    is_planning: bool = False
    is_interrupted: bool = False
    compacts: bool = False


QUICK = Told("Fix the typo in src/calc.py", ("Read", "Edit"))
LONG = Told("Implement a whole parser with tests, step by step, until everything passes", ("Bash",) * 10 + ("Edit",) * 7)


class Clock:
    """Two seconds per line."""

    def __init__(self, began: datetime = BEGAN) -> None:
        self.now = began

    def tick(self) -> str:
        self.now += timedelta(seconds=2)
        return self.now.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def codex_log(turns: list[Told], began: datetime = BEGAN, **meta) -> str:
    clock, lines = Clock(began), []

    def write(kind: str, **payload) -> None:
        lines.append(json.dumps({"timestamp": clock.tick(), "type": kind, "payload": payload}))

    def say(role: str, text: str) -> None:
        kind = "output_text" if role == "assistant" else "input_text"
        write("response_item", type="message", role=role, content=[{"type": kind, "text": text}])

    write("session_meta", **{"id": "codex-session", "cwd": "/repo", "cli_version": "0.166.0", "source": "exec", **meta})
    say("user", "<environment_context>\n  <cwd>/repo</cwd>\n</environment_context>")
    for number, turn in enumerate(turns):
        mode = {"mode": "plan" if turn.is_planning else "default", "settings": {"reasoning_effort": turn.effort}}
        write("turn_context", model=turn.model, collaboration_mode=mode)
        say("user", turn.words)
        for index, name in enumerate(turn.calls):
            call = f"call_{number}_{index}"
            write("response_item", type="function_call", name=name, arguments="{}", call_id=call)
            if turn.prompt_tokens:
                usage = {"input_tokens": turn.prompt_tokens + index}
                write("event_msg", type="token_count", info={"last_token_usage": usage})
            write("response_item", type="function_call_output", call_id=call, output="ok")
        if turn.is_interrupted:
            write("event_msg", type="turn_aborted", reason="interrupted")
        else:
            say("assistant", turn.answer)
        if turn.compacts:
            write("compacted", message="a summary")
    return "\n".join(lines) + "\n"


def claude_log(turns: list[Told], began: datetime = BEGAN, session: str = "claude-session") -> str:
    clock, lines = Clock(began), []

    def write(kind: str, content, **more) -> None:
        role = {"role": kind, "content": content, **more.pop("message", {})}
        line = {"type": kind, "message": role, "timestamp": clock.tick(), "sessionId": session, "isSidechain": False}
        lines.append(json.dumps({**line, **more}))

    for number, turn in enumerate(turns):
        write("user", turn.words, permissionMode="plan" if turn.is_planning else "default")
        params = {"output_config": {"effort": turn.effort}} if turn.effort else {}
        lines.append(json.dumps({"type": "api-request", "sessionId": session, "params": params}))
        usage = {"model": turn.model, "usage": {"input_tokens": 1, "cache_read_input_tokens": max(0, turn.prompt_tokens - 1)}}
        for index, name in enumerate(turn.calls):
            call = f"toolu_{number}_{index}"
            write("assistant", [{"type": "tool_use", "id": call, "name": name, "input": {}}], message=usage)
            result = {"type": "tool_result", "tool_use_id": call, "content": "ok"}
            write("user", [result], toolUseResult={"stdout": "ok"})
        if turn.is_interrupted:
            write("user", [{"type": "text", "text": "[Request interrupted by user]"}])
        else:
            write("assistant", [{"type": "text", "text": turn.answer}], message=usage)
        if turn.compacts:
            lines.append(json.dumps({"type": "system", "subtype": "compact_boundary", "sessionId": session}))
    return "\n".join(lines) + "\n"


def write_home(folder: Path, turns: list[Told]) -> None:
    """A home folder with one session of each client that logs there."""
    for place, text in (
        (".codex/sessions/2026/03/01/rollout-1.jsonl", codex_log(turns)),
        (".claude/projects/-repo/one.jsonl", claude_log(turns)),
    ):
        path = folder / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
