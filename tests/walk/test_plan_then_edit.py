"""Deep plans and fast edits, through a router: sessions as each client sends them (see `recorded_plans` in `tests/router`)."""

import itertools
import json

import pytest

from tests.conftest import SIMULATED
from tests.tools.http import call
from tests.tools.keyed import swap

PLAN_ON = SIMULATED + "combine: {plan: on}\n"
QUICK = "Fix the typo in the word retrun in calc.py"
LONG = (
    "Refactor the entire billing module: migrate all files to the new API, rewrite the test suite and investigate the deadlock"
)
PLANNING = "planning on deep"
EDITS = "plan accepted; edits on fast until something fails"
MOVED = "plan accepted; edits moved up to deep"
_numbers = itertools.count()


class ClaudeCode:
    """Acceptance is the result of a tool call inside the turn."""

    path = "/v1/messages"
    has_results = True

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
    has_results = True

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
    has_results = True
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
    has_results = False

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


CLIENTS = pytest.mark.parametrize("client", [ClaudeCode, Codex, Opencode, Cline], ids=lambda kind: kind.__name__)


class Walk:
    """Sends a client's requests, and keeps for each its tier, and what headers, explanation and ledger say of the plan."""

    def __init__(self, tandem, client, **headers: str) -> None:
        self.tandem, self.client, self.more = tandem, client, {f"x-tandem-{name}": value for name, value in headers.items()}
        self.because: list[str] = []
        self.tiers: list[str] = []

    async def send(self) -> tuple[str, str | None]:
        client, headers = self.client, {**self.client.headers, **self.more}
        body = client.body()
        explained = (await call(self.tandem.port, "/tandem/explain", body, headers)).json
        reply = await call(self.tandem.port, client.path, body, headers)
        assert reply.status == 200, reply.body
        tier, because = reply.headers["x-tandem-tier"], reply.headers["x-tandem-because"]
        kept = (await call(self.tandem.port, f"/tandem/decisions/{reply.headers['x-tandem-request-id']}")).json
        assert (explained["tier"], explained["combined"]) == (tier, kept["combined"])
        assert kept["combined"] is None or kept["combined"] in because
        self.because.append(because)
        self.tiers.append(tier)
        return tier, kept["combined"]


@CLIENTS
@pytest.mark.parametrize("ask", [QUICK, LONG], ids=["quick", "long"])
async def test_a_plan_is_made_on_deep_and_carried_out_on_fast(start, client, ask):
    client = client()
    walk = Walk(await start(PLAN_ON), client)
    client.ask(ask, plans=True)
    seen = [await walk.send()]
    client.work()
    seen.append(await walk.send())
    client.accept()
    seen.append(await walk.send())
    client.edit()
    seen.append(await walk.send())

    assert seen == [("deep", PLANNING)] * 2 + [("fast", EDITS)] * 2


@pytest.mark.parametrize("client", [ClaudeCode, Codex, Opencode], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("ask", [QUICK, LONG], ids=["quick", "long"])
async def test_edits_that_fail_move_up_to_deep_and_stay_there(start, client, ask):
    client = client()
    walk = Walk(await start(PLAN_ON), client)
    client.ask(ask, plans=True)
    await walk.send()
    client.accept()
    await walk.send()
    client.edit()
    await walk.send()
    seen = []
    for _ in range(3):
        client.fail()
        seen.append(await walk.send())
    client.edit()
    seen.append(await walk.send())
    client.work()
    seen.append(await walk.send())

    assert seen == [("fast", EDITS)] * 2 + [("deep", MOVED)] * 3


@CLIENTS
async def test_a_refused_plan_is_planned_again_on_deep(start, client):
    client = client()
    walk = Walk(await start(PLAN_ON), client)
    client.ask(LONG, plans=True)
    seen = [await walk.send()]
    client.refuse("Also add docs")
    seen.append(await walk.send())
    client.accept()
    seen.append(await walk.send())

    assert seen == [("deep", PLANNING), ("deep", PLANNING), ("fast", EDITS)]


@CLIENTS
async def test_a_new_ask_ends_the_plan(start, client):
    client = client()
    walk = Walk(await start(PLAN_ON), client)
    client.ask(QUICK, plans=True)
    await walk.send()
    client.accept()
    await walk.send()
    client.edit()
    await walk.send()
    client.finish()
    client.ask(LONG)
    new = await walk.send()
    client.edit()

    assert [new, await walk.send()] == [("deep", None)] * 2


async def plan_and_accept(walk: Walk, ask: str = LONG) -> list[tuple[str, str | None]]:
    walk.client.ask(ask, plans=True)
    seen = [await walk.send()]
    walk.client.accept()
    return [*seen, await walk.send()]


async def test_a_person_who_asks_for_a_tier_gets_it_in_every_phase(start):
    tandem = await start(PLAN_ON)

    assert await plan_and_accept(Walk(tandem, ClaudeCode(), tier="fast")) == [("fast", None)] * 2
    assert await plan_and_accept(Walk(tandem, ClaudeCode(), tier="deep")) == [("deep", None)] * 2


@CLIENTS
async def test_with_plan_off_nothing_of_it_happens(start, client):
    tandem = await start(SIMULATED)

    assert [combined for _, combined in await plan_and_accept(Walk(tandem, client()))] == [None, None]


async def test_edits_stay_on_deep_where_fast_would_have_to_read_a_long_conversation(start):
    slow_reader = PLAN_ON.replace("prefill_tokens_per_second: 60000}", "prefill_tokens_per_second: 1500}", 1)
    client = ClaudeCode()
    walk = Walk(await start(slow_reader), client)
    client.ask(QUICK, plans=True)
    await walk.send()
    client.work(output="def divide(a, b): return a / b\n" * 8_000)
    await walk.send()
    client.accept()
    seen = [await walk.send()]
    client.edit()
    seen.append(await walk.send())

    assert seen == [("deep", "plan accepted; deep has the edits done sooner")] * 2


async def test_a_model_that_begins_to_plan_in_the_middle_of_a_turn_hands_it_to_deep_and_gets_the_edits_back(start):
    client = ClaudeCode()
    walk = Walk(await start(PLAN_ON), client)
    client.ask(QUICK)
    seen = [await walk.send()]
    client.work("EnterPlanMode")
    client.mode = "plan"
    seen.append(await walk.send())
    client.accept()
    seen.append(await walk.send())

    assert seen == [("fast", None), ("deep", PLANNING), ("fast", EDITS)]


async def test_a_mark_that_comes_and_goes_with_every_request_does_not_move_the_turn_each_time(start):
    tandem = await start(PLAN_ON)
    cline, claude = Walk(tandem, Cline()), Walk(tandem, ClaudeCode())
    for walk in (cline, claude):
        walk.client.ask(LONG, plans=True)
        await walk.send()
    for number in range(8):
        cline.client.mode = "PLAN" if number % 2 else "ACT"
        claude.client.mode = "plan" if number % 2 else "default"
        for walk in (cline, claude):
            walk.client.work()
            await walk.send()

    assert cline.tiers == ["deep", "fast", *["deep"] * 7]
    assert claude.tiers == ["deep"] * 9


async def test_after_a_compaction_the_edits_go_on_where_they_were(start):
    client = ClaudeCode()
    walk = Walk(await start(PLAN_ON), client)
    await plan_and_accept(walk)
    client.edit()
    summary = "This session is being continued from a previous conversation that ran out of context. Refactor everything."
    client.messages = [{"role": "user", "content": summary}, *client.messages[-2:]]
    seen = [await walk.send()]
    client.edit()

    assert [*seen, await walk.send()] == [("fast", EDITS)] * 2


@pytest.mark.parametrize(("before", "after"), [(PLAN_ON, SIMULATED), (SIMULATED, PLAN_ON)], ids=["switched off", "switched on"])
async def test_a_turn_that_is_planned_keeps_what_it_began_with_over_a_reload(start, before, after):
    client = ClaudeCode()
    walk = Walk(await start(before), client)
    client.ask(LONG, plans=True)
    await walk.send()
    swap(walk.tandem, after)
    client.accept()
    accepted = await walk.send()
    client.finish()
    next_turn = await plan_and_accept(walk)

    assert accepted == (("fast", EDITS) if before is PLAN_ON else ("deep", None))
    assert next_turn == ([("deep", PLANNING), ("fast", EDITS)] if after is PLAN_ON else [("deep", None)] * 2)


ARCHITECT = "Act as an expert architect engineer and provide direction to your editor engineer."
EDITOR = "Act as an expert software developer who edits source code."
CODER = "Act as an expert software developer.\nTake requests for changes to the supplied code."


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


async def test_aiders_architect_is_deep_and_its_editor_fast(start):
    tandem = await start(PLAN_ON)
    calls = [(ARCHITECT, QUICK), (EDITOR, LONG), (ARCHITECT, "Also add docs"), (CODER, QUICK), (CODER, LONG)]

    seen = [await Walk(tandem, Aider(system, words)).send() for system, words in calls]

    assert seen == [("deep", PLANNING), ("fast", EDITS), ("deep", PLANNING), ("fast", None), ("deep", None)]


async def test_the_explanation_says_that_a_client_has_no_plan_mode(start):
    tandem = await start(PLAN_ON)
    body = {"model": "auto", "messages": [{"role": "user", "content": QUICK}]}

    told = (await call(tandem.port, "/tandem/explain", body, {"user-agent": "QwenCode/0.24.4"})).json

    reasons = [item["because"] for item in told["evidence"] if item["policy"] == "plan_then_edit"]
    assert reasons == ["this client shows no plan mode that Tandem knows, so combine: plan does nothing"]
    assert (told["tier"], told["combined"]) == ("fast", None)
