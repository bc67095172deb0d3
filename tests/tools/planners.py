"""Sessions of clients that plan: the requests that each would send, as the real ones do (see `recorded_plans`)."""

import itertools
import json

_numbers = itertools.count()


class ClaudeCode:
    """Acceptance is the result of a tool call inside the turn."""

    path = "/v1/messages"

    def __init__(self) -> None:
        self.session, self.messages, self.calls, self.mode = f"plan-{next(_numbers)}", [], 0, "default"

    def ask(self, words: str, *, plans: bool = False) -> None:
        self.mode = "plan" if plans else "default"
        self._add_user({"type": "text", "text": words})

    def _add_user(self, block: dict) -> None:
        if self.messages and self.messages[-1]["role"] == "user":
            self.messages[-1]["content"].append(block)
        else:
            self.messages.append({"role": "user", "content": [block]})

    def work(self, name: str = "Read", output: str = "ok", *, fails: bool = False) -> None:
        self.calls += 1
        use = {"type": "tool_use", "id": f"toolu_{self.calls}", "name": name, "input": {"file_path": f"/src/{self.calls}.py"}}
        result = {"type": "tool_result", "tool_use_id": use["id"], "content": output, "is_error": fails}
        self.messages += [{"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]

    def accept(self) -> None:
        self.work("ExitPlanMode", "User has approved exiting plan mode. You can now proceed.")
        self.mode = "default"
        self.messages.append({"role": "system", "content": "## Exited Plan Mode\n\nYou have exited plan mode."})

    def refuse(self, words: str) -> None:
        self.work("ExitPlanMode", "The user doesn't want to proceed with this tool use.", fails=True)
        self._add_user({"type": "text", "text": "[Request interrupted by user for tool use]"})
        self._add_user({"type": "text", "text": words})

    def edit(self) -> None:
        self.work("Edit")

    def fail(self) -> None:
        self.work("Bash", "Exit code 1\n1 failed, 0 passed", fails=True)

    def finish(self) -> None:
        self.messages.append({"role": "assistant", "content": [{"type": "text", "text": "Done."}]})

    def body(self) -> dict:
        mode = {"safeguards": [{"classifier_context": {"permission_mode": "plan"}}]} if self.mode == "plan" else {}
        return {"model": "auto", "max_tokens": 1_000, "messages": json.loads(json.dumps(self.messages)), **mode}

    @property
    def headers(self) -> dict[str, str]:
        session = {"x-claude-code-session-id": self.session, "anthropic-version": "2023-06-01"}
        return {"user-agent": "claude-cli/2.1.325 (external, cli)", **session}


class Codex:
    """Acceptance is a turn of its own in the other mode, after an answer with a plan."""

    path = "/v1/responses"

    def __init__(self) -> None:
        self.session, self.items, self.calls, self.turn, self.mode = f"plan-{next(_numbers)}", [], 0, 0, ""

    def _set_mode(self, mode: str) -> None:
        if mode != self.mode:
            self.mode = mode
            self._say(
                "developer", f"<collaboration_mode># {mode}\n\nKnown mode names are Default and Plan.\n</collaboration_mode>"
            )

    def _say(self, role: str, text: str) -> None:
        kind = "output_text" if role == "assistant" else "input_text"
        self.items.append({"type": "message", "role": role, "content": [{"type": kind, "text": text}]})

    def ask(self, words: str, *, plans: bool = False) -> None:
        self._set_mode("Plan Mode (Conversational)" if plans else "Collaboration Mode: Default")
        self.turn += 1
        self._say("user", words)

    def work(self, command: str = "cat calc.py", output: str = "Process exited with code 0\nOutput:\nok") -> None:
        self.calls += 1
        arguments = json.dumps({"cmd": f"{command} # {self.calls}"})
        made = {"type": "function_call", "call_id": f"c{self.calls}", "name": "exec_command", "arguments": arguments}
        self.items += [made, {"type": "function_call_output", "call_id": f"c{self.calls}", "output": output}]

    def _propose(self) -> None:
        self._say("assistant", "<proposed_plan>\n# Fix it\n- Replace retrun\n</proposed_plan>")

    def accept(self) -> None:
        self._propose()
        self.ask("Implement the plan.")

    def refuse(self, words: str) -> None:
        self._propose()
        self.ask(words, plans=True)

    def edit(self) -> None:
        self.work("sed -i s/retrun/return/ calc.py")

    def fail(self) -> None:
        self.work("pytest", "Process exited with code 1\nOutput:\n1 failed, 0 passed")

    def finish(self) -> None:
        self._say("assistant", "Done.")

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


class Opencode:
    """Its reminder is on the last user message alone: older ones lose it."""

    path = "/v1/chat/completions"
    plans = "<system-reminder>\n# Plan Mode - System Reminder\n\nCRITICAL: Plan mode ACTIVE\n</system-reminder>"
    builds = "<system-reminder>\nYour operational mode has changed from plan to build.\n</system-reminder>"

    def __init__(self) -> None:
        self.session, self.messages, self.calls, self.reminder = f"plan-{next(_numbers)}", [], 0, ""

    def ask(self, words: str, *, plans: bool = False) -> None:
        self.reminder = self.plans if plans else self.builds if self.reminder else ""
        self.messages.append({"role": "user", "content": words})

    def work(self, name: str = "read", output: str = "ok") -> None:
        self.calls += 1
        function = {"name": name, "arguments": json.dumps({"filePath": f"/src/{self.calls}.py"})}
        made = {"id": f"c{self.calls}", "type": "function", "function": function}
        self.messages.append({"role": "assistant", "content": "", "tool_calls": [made]})
        self.messages.append({"role": "tool", "tool_call_id": f"c{self.calls}", "content": output})

    def accept(self) -> None:
        self.finish("Here is the plan.")
        self.ask("Do it")

    def refuse(self, words: str) -> None:
        self.finish("Here is the plan.")
        self.ask(words, plans=True)

    def edit(self) -> None:
        self.work("edit", "Edit applied successfully.")

    def fail(self) -> None:
        self.work("bash", "1 failed, 0 passed")

    def finish(self, words: str = "Done.") -> None:
        self.messages.append({"role": "assistant", "content": words})

    def body(self) -> dict:
        messages = json.loads(json.dumps(self.messages))
        last = next(message for message in reversed(messages) if message["role"] == "user")
        blocks = [f'"{last["content"]}"', self.reminder]
        last["content"] = [{"type": "text", "text": text} for text in blocks if text]
        return {"model": "auto", "messages": [{"role": "system", "content": "You are opencode, a tool."}, *messages]}

    @property
    def headers(self) -> dict[str, str]:
        return {"user-agent": "opencode/1.18.18", "x-session-id": self.session}


class Cline:
    """Its calls and results are text, and the mode is in each message's details. Switching is a result."""

    path = "/v1/chat/completions"

    def __init__(self) -> None:
        self.number, self.messages, self.mode = next(_numbers), [], "ACT"

    def _add(self, text: str) -> None:
        details = f"<environment_details>\n# Current Time\nnow\n\n# Current Mode\n{self.mode} MODE\n</environment_details>"
        blocks = [{"type": "text", "text": text}, {"type": "text", "text": details}]
        self.messages.append({"role": "user", "content": blocks})

    def ask(self, words: str, *, plans: bool = False) -> None:
        self.mode = "PLAN" if plans else "ACT"
        if self.messages:
            text = f"[attempt_completion] Result:\nThe user has provided feedback.\n<feedback>\n{words}\n</feedback>"
        else:
            text = f"<task>\n{words} ({self.number})\n</task>"
        self._add(text)

    def work(self, call: str = "read_file", output: str = "ok") -> None:
        self.messages.append({"role": "assistant", "content": f"<{call}>\n<path>calc.py</path>\n</{call}>"})
        self._add(f"[{call} for 'calc.py'] Result:\n{output}")

    def accept(self) -> None:
        self.mode = "ACT"
        self.work("plan_mode_respond", "[The user has switched to ACT MODE, so you may now proceed with the task.]")

    def refuse(self, words: str) -> None:
        self.work("plan_mode_respond", f"<user_message>\n{words}\n</user_message>")

    def edit(self) -> None:
        self.work("replace_in_file")

    def finish(self) -> None:
        self.messages.append(
            {"role": "assistant", "content": "<attempt_completion>\n<result>Done</result>\n</attempt_completion>"}
        )

    def body(self) -> dict:
        return {"model": "auto", "messages": [{"role": "system", "content": "You are Cline"}, *self.messages]}

    @property
    def headers(self) -> dict[str, str]:
        return {"user-agent": "Cline/3.82.0"}


class Aider:
    """Plans and edits in conversations of their own."""

    path, headers = "/v1/chat/completions", {"user-agent": "OpenAI/Python 2.20.0"}

    def __init__(self, system: str, words: str) -> None:
        self.system, self.words = system, words

    def body(self) -> dict:
        return {
            "model": "auto",
            "messages": [{"role": "system", "content": self.system}, {"role": "user", "content": self.words}],
        }
