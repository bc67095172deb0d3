"""Sessions call by call: a client's own texts never begin a turn, and a turn keeps its tier."""

import itertools
import json
from dataclasses import dataclass, field

import pytest

from tests.tools.http import call

QUICK = "Fix the typo in the word retrun in calc.py"
LONG = (
    "Refactor the entire billing module: migrate all files to the new API, rewrite the test suite and investigate the deadlock"
)
LOUD = "Rewrite the whole codebase, implement every feature and refactor all modules thoroughly."
"""A client's own text that, read as an ask, would move a quick turn."""

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
"""Untyped messages of Claude Code."""
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
    """Additions of the client come as blocks of one message, as on the wire."""

    session: str
    messages: list = field(default_factory=list)
    calls: int = 0
    path = "/v1/messages"

    def type(self, *texts: str) -> None:
        self.add(*texts)

    def add(self, *texts: str) -> None:
        """Consecutive messages of one side are merged."""
        blocks = [{"type": "text", "text": text} for text in texts]
        if self.messages and self.messages[-1]["role"] == "user":
            self.messages[-1]["content"] += blocks
        else:
            self.messages.append({"role": "user", "content": blocks})

    def work(self, name: str = "Read") -> None:
        self.calls += 1
        use = {"type": "tool_use", "id": f"toolu_{self.calls}", "name": name, "input": {"file_path": f"/src/{self.calls}.py"}}
        result = {"type": "tool_result", "tool_use_id": use["id"], "content": "ok"}
        self.messages += [{"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]

    def finish(self) -> None:
        self.messages.append({"role": "assistant", "content": [{"type": "text", "text": "Done."}]})

    def compact(self, *, keeps_last_call: bool) -> None:
        """Replace the conversation by its summary; newer versions keep the last messages."""
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
    """Names its turns."""

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


ASKS = pytest.mark.parametrize(("ask", "tier"), [(QUICK, "fast"), (LONG, "deep")], ids=["quick", "long"])
_numbers = itertools.count()


class Sent:
    def __init__(self, reply, explained: dict) -> None:
        assert reply.status == 200, reply.body
        self.tier, self.because = reply.headers["x-tandem-tier"], reply.headers["x-tandem-because"]
        self.kind, self.words = explained["turn_kind"], explained["person_text"]
        assert explained["tier"] == self.tier


async def send(tandem, client, *more: str) -> Sent:
    body = client.body(*more)
    explained = await call(tandem.port, "/tandem/explain", body, client.headers)
    return Sent(await call(tandem.port, client.path, body, client.headers), explained.json)


def claude_code() -> ClaudeCode:
    return ClaudeCode(f"session-{next(_numbers)}")


@ASKS
@pytest.mark.parametrize("after_answer", [True, False], ids=["after an answer", "after a result"])
async def test_a_message_that_nobody_typed_goes_on_with_the_turn(simulated, ask, tier, after_answer):
    seen = {}
    for name, notice in NOTICES.items():
        client = claude_code()
        client.type("<system-reminder>\nToday is Sunday.\n</system-reminder>", ask)
        first = await send(simulated, client)
        client.work()
        await send(simulated, client)
        if after_answer:
            client.finish()
        client.add(notice)
        noticed = await send(simulated, client)
        client.work()
        seen[name] = [(sent.tier, sent.kind, sent.words) for sent in (first, noticed, await send(simulated, client))]

    assert seen == {name: [(tier, "ask", ask), (tier, "tool_loop", ask), (tier, "tool_loop", ask)] for name in NOTICES}


@ASKS
@pytest.mark.parametrize("keeps_last_call", [True, False])
async def test_a_compaction_inside_a_turn_keeps_the_turn(simulated, ask, tier, keeps_last_call):
    client = claude_code()
    client.type(ask)
    await send(simulated, client)
    client.work()
    await send(simulated, client)
    compaction = await send(simulated, client, COMPACT)

    client.compact(keeps_last_call=keeps_last_call)
    after = await send(simulated, client)
    client.work()
    later = await send(simulated, client)

    assert compaction.kind == "compaction"
    assert [(sent.tier, sent.kind) for sent in (compaction, after, later)][1:] == [(tier, "tool_loop")] * 2
    assert after.words is None
    if not keeps_last_call:
        assert after.because == f"continues, after compaction, a turn on {tier}"


async def test_the_next_ask_after_a_compaction_is_read_by_its_own_words(simulated):
    client = claude_code()
    client.type(LONG)
    await send(simulated, client)
    client.work()
    await send(simulated, client, COMPACT)
    client.compact(keeps_last_call=False)
    await send(simulated, client)
    client.finish()

    client.type("<system-reminder>x</system-reminder>", QUICK)
    sent = await send(simulated, client)

    assert (sent.kind, sent.words) == ("ask", QUICK)


@ASKS
async def test_a_turn_goes_on_over_several_compactions_and_notices(simulated, ask, tier):
    client = claude_code()
    client.type(ask)
    seen = [await send(simulated, client)]
    for number, notice in enumerate(NOTICES.values()):
        client.work()
        client.add(notice)
        seen.append(await send(simulated, client))
        if number % 4 == 3:
            client.work()
            client.compact(keeps_last_call=number % 8 == 3)
            seen.append(await send(simulated, client))

    assert {sent.tier for sent in seen} == {tier}
    assert {sent.kind for sent in seen[1:]} == {"tool_loop"}


@ASKS
async def test_a_codex_turn_goes_on_after_a_compaction_and_is_no_new_ask(simulated, ask, tier):
    client = Codex(f"thread-{next(_numbers)}")
    client.add("<environment_context>\n  <cwd>/demo</cwd>\n</environment_context>")
    client.type(ask)
    first = await send(simulated, client)
    client.work()
    await send(simulated, client)
    client.add("<subagent_notification>\n{}\n</subagent_notification>")
    noticed = await send(simulated, client)
    client.compact()
    after = await send(simulated, client)
    client.finish()
    client.type("Rename divide to div")
    next_ask = await send(simulated, client)

    assert (first.kind, first.words) == ("ask", ask)
    assert [(sent.tier, sent.kind, sent.words) for sent in (noticed, after)] == [(tier, "tool_loop", ask)] * 2
    assert after.because == f"continues, after compaction, a turn on {tier}"
    assert (next_ask.kind, next_ask.words) == ("ask", "Rename divide to div")


async def test_a_command_is_read_by_what_was_typed_and_its_turn_keeps_its_tier(simulated):
    client = claude_code()
    typed = "<command-message>tidy</command-message>\n<command-name>/tidy</command-name>\n<command-args>{}</command-args>"
    client.type(typed.format(QUICK), f"Base directory for this skill: /skills/tidy\n\n{LONG}")
    asked = await send(simulated, client)
    client.work()
    loop = await send(simulated, client)

    assert [(sent.tier, sent.words) for sent in (asked, loop)] == [("fast", f"/tidy {QUICK}")] * 2
    assert (asked.kind, loop.kind) == ("ask", "tool_loop")


@ASKS
async def test_what_a_client_asks_for_its_own_use_in_the_middle_of_a_turn_leaves_the_turn_where_it_is(simulated, ask, tier):
    client, page = claude_code(), claude_code()
    page.session = client.session
    page.type(f"Web page content:\n---\n{LOUD}\n---\n\n{QUICK if tier == 'deep' else LONG}")
    client.type(ask)
    await send(simulated, client)
    client.work()

    aside = await send(simulated, page)
    suggestion = await send(simulated, client, f"[SUGGESTION MODE: Suggest what the user might type next.]\n{LOUD}")
    after = await send(simulated, client)

    assert (aside.kind, aside.words) == (suggestion.kind, suggestion.words) == ("side", None)
    assert (after.tier, after.kind, after.words) == (tier, "tool_loop", ask)


async def test_an_ask_that_was_compacted_before_it_was_sent_does_not_go_on_with_the_turn_before(simulated):
    client = claude_code()
    client.type(QUICK)
    before = await send(simulated, client)
    client.finish()
    client.type(LONG)
    compaction = await send(simulated, client, COMPACT)
    client.compact(keeps_last_call=False)
    after = await send(simulated, client)
    client.work()
    later = await send(simulated, client)

    assert (before.tier, compaction.kind) == ("fast", "compaction")
    assert (after.tier, later.tier) == ("deep", "deep")
