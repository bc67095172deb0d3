"""`tandem explain --after` agrees with a router that got the conversation call by call."""

import asyncio
import json
import re

import pytest

from router.cli import main
from tests.tools.cases import covering
from tests.tools.http import call
from tests.tools.running import two_targets

PLAN = "how would you restructure the config system? plan only, no code"
MIGRATE = "migrate the whole codebase to rust, with tests"
TYPO = "fix the typo in README.md"
CASES = {
    "a first ask": ((), TYPO),
    "a plan is approved": ((PLAN,), "yes"),
    "a plan after an edit is approved": ((TYPO, PLAN), "looks good, do it"),
    "a quick turn goes on": ((TYPO,), "go on"),
    "a long turn goes on": ((MIGRATE,), "go on"),
    "the same for the others, after a quick edit": ((TYPO,), "same for the others"),
    "thanks after a long turn": ((TYPO, MIGRATE), "thanks"),
    "a quick ask after a long turn": ((MIGRATE,), "rename the variable usr to user in models.py"),
    "a correction of a quick edit": ((TYPO,), "still broken, same error"),
    "a correction of a long turn": ((MIGRATE,), "still broken, same error"),
    "the same ask again": ((TYPO,), TYPO),
    "the real task after three edits": ((TYPO, "make the logo smaller", "bump the version"), "build me a todo app with login"),
    "a question is answered": (("what does this decorator do?",), "ok, remove it then"),
}


AGENTS = {"claude-code": "claude-cli/2.1.325", "codex": "codex_exec/0.166"}


class Agent:
    """Sends every call with the whole history."""

    def __init__(self, tandem, name: str, agent: str) -> None:
        self.tandem, self.headers = tandem, {"x-tandem-session": name, "user-agent": agent}
        self.messages: list[dict] = []
        self.called = 0

    async def send(self):
        tools = [{"type": "function", "function": {"name": "shell", "parameters": {"type": "object"}}}]
        body = {"model": "auto", "messages": self.messages, "tools": tools}
        return await call(self.tandem.port, "/v1/chat/completions", body, headers=self.headers)

    async def ask(self, words: str):
        self.messages.append({"role": "user", "content": words})
        return await self.send()

    async def work(self, calls: int, edits: int):
        """Looks, then edits, each answered; then the last word."""
        for number in range(calls):
            self.called += 1
            name, path = ("edit_file" if number >= calls - edits else "read_file"), f"lib/{self.called}.rs"
            made = {
                "id": f"t{self.called}",
                "type": "function",
                "function": {"name": name, "arguments": json.dumps({"p": path})},
            }
            self.messages.append({"role": "assistant", "content": None, "tool_calls": [made]})
            self.messages.append({"role": "tool", "tool_call_id": f"t{self.called}", "content": "fine"})
            await self.send()
        self.messages.append({"role": "assistant", "content": "That is done."})


def without_live_figure(because: str) -> str:
    """Where deep begins depends on speeds, which the router measures and the command assumes."""
    return re.sub(r"under [\d.]+ %", "under … %", because)


@pytest.fixture
def explain(pair, capsys, tmp_path):
    """The command, with the router's config."""
    config = tmp_path / "config.yaml"

    async def ask(words: str, *arguments: str) -> dict:
        config.write_text(two_targets("http://127.0.0.1:1", "http://127.0.0.1:1"))
        given = ["explain", words, *arguments, "--config", str(config), "--json"]
        assert await asyncio.to_thread(main, given) == 0
        return json.loads(capsys.readouterr().out)

    return ask


@pytest.mark.parametrize(("case", "client"), covering(CASES, AGENTS, strength=1))
async def test_the_command_and_the_router_agree(pair, explain, case, client):
    (before, words), agent = CASES[case], AGENTS[client]
    after = [argument for text in before for argument in ("--after", text)]
    told = await explain(words, "--as", client, *after)

    session = Agent(pair, f"{case}-{client}", agent)
    for text, assumed in zip(before, told.get("assumed_before", []), strict=True):
        await session.ask(text)
        await session.work(assumed["calls"], assumed["edits"])
    reply = await session.ask(words)

    assert reply.headers["x-tandem-tier"] == told["tier"]
    assert without_live_figure(reply.headers["x-tandem-because"]) == without_live_figure(told["because"])
    assert float(reply.headers["x-tandem-score"]) == pytest.approx(told["score"], abs=0.001)


@pytest.mark.parametrize("reads", [0, 1, 3, 6])
async def test_the_approval_of_a_plan_goes_where_the_command_says_for_as_many_reads(pair, explain, reads):
    told = await explain("yes", "--after", PLAN, "--calls", str(reads))

    session = Agent(pair, f"plan-{reads}", "an-agent/1")
    await session.ask(PLAN)
    await session.work(reads, 0)
    reply = await session.ask("yes")

    assert reply.headers["x-tandem-tier"] == told["tier"]
    assert [(turn["calls"], turn["edits"]) for turn in told["assumed_before"]] == [(reads, 0)]


@pytest.mark.parametrize("calls", [0, 3, 40])
async def test_as_many_calls_as_were_chosen_are_made(pair, explain, calls):
    told = await explain("go on", "--after", MIGRATE, "--calls", str(calls))

    session = Agent(pair, f"chosen-{calls}", "an-agent/1")
    await session.ask(MIGRATE)
    (assumed,) = told["assumed_before"]
    await session.work(assumed["calls"], assumed["edits"])
    reply = await session.ask("go on")

    assert assumed["calls"] == calls
    assert reply.headers["x-tandem-tier"] == told["tier"]
    assert without_live_figure(reply.headers["x-tandem-because"]) == without_live_figure(told["because"])


NAMES = {
    "by x-tandem-session": ({"x-tandem-session": "named"}, {"x-tandem-session": "named"}),
    "by the client, explained by its own header": (
        {"user-agent": "claude-cli/2.1.325", "x-claude-code-session-id": "6f2a"},
        {"user-agent": "claude-cli/2.1.325", "x-claude-code-session-id": "6f2a"},
    ),
    "by the client, explained by the name that is shown": (
        {"user-agent": "claude-cli/2.1.325", "x-claude-code-session-id": "6f2a"},
        {"x-tandem-session": "claude-code:6f2a"},
    ),
    "by nobody": ({}, {}),
}


def as_chat(messages: list[dict]) -> tuple[str, dict]:
    return "/v1/chat/completions", {"messages": messages}


def as_messages(messages: list[dict]) -> tuple[str, dict]:
    told = []
    for message in messages:
        if message["role"] == "tool":
            block = {"type": "tool_result", "tool_use_id": message["tool_call_id"], "content": message["content"]}
            told.append({"role": "user", "content": [block]})
        elif made := message.get("tool_calls"):
            name, arguments = made[0]["function"]["name"], json.loads(made[0]["function"]["arguments"])
            block = {"type": "tool_use", "id": made[0]["id"], "name": name, "input": arguments}
            told.append({"role": "assistant", "content": [block]})
        else:
            told.append(message)
    return "/v1/messages", {"messages": told, "max_tokens": 1_000}


def as_responses(messages: list[dict]) -> tuple[str, dict]:
    told = []
    for message in messages:
        if message["role"] == "tool":
            told.append({"type": "function_call_output", "call_id": message["tool_call_id"], "output": message["content"]})
        elif made := message.get("tool_calls"):
            told.append({"type": "function_call", "call_id": made[0]["id"], **made[0]["function"]})
        else:
            told.append(message)
    return "/v1/responses", {"input": told}


DIALECTS = {
    "chat": as_chat,
    "messages": as_messages,
    "responses": as_responses,
    "responses, whose history is stored": as_responses,
}


@pytest.mark.parametrize(("dialect", "named"), covering(DIALECTS, NAMES))
async def test_a_request_in_the_middle_of_a_turn_is_explained_as_the_router_then_decides_it(pair, dialect, named):
    served, explained = NAMES[named]
    session = Agent(pair, "", "")
    compared, sent, before = [], 0, {}

    async def explain_and_send():
        nonlocal sent, before
        is_stored = "stored" in dialect
        path, body = DIALECTS[dialect](session.messages[sent:] if is_stored else session.messages)
        body |= {"model": "auto", **before}
        told = (await call(pair.port, "/tandem/explain", body, headers=explained)).json
        reply = await call(pair.port, path, body, headers=served)
        compared.append((told["tier"], told["because"], told["as_if"], reply.headers))
        if is_stored:
            sent, before = len(session.messages), {"previous_response_id": reply.json["id"]}
        return reply

    session.send = explain_and_send
    await session.ask(TYPO)
    await session.work(24, 9)
    await session.ask("go on")
    await session.work(2, 1)
    await session.ask(MIGRATE)
    await session.work(3, 1)

    assert len(compared) == 32
    for tier, because, as_if, headers in compared:
        served_because = without_live_figure(headers["x-tandem-because"])
        assert (tier, without_live_figure(because), as_if) == (headers["x-tandem-tier"], served_because, None)


@pytest.mark.parametrize("as_body", [as_chat, as_messages, as_responses])
async def test_a_request_in_the_middle_of_an_unknown_turn_is_explained_as_if_the_turn_began_there(pair, as_body):
    session = Agent(pair, "unknown", "an-agent/1")
    session.messages = [{"role": "user", "content": TYPO}]
    for number in range(30):
        made = {"id": f"t{number}", "type": "function", "function": {"name": "edit_file", "arguments": f'{{"p": {number}}}'}}
        session.messages += [
            {"role": "assistant", "content": None, "tool_calls": [made]},
            {"role": "tool", "tool_call_id": f"t{number}", "content": "fine"},
        ]
    later = [*session.messages, {"role": "user", "content": MIGRATE}]

    told, asked = [
        (await call(pair.port, "/tandem/explain", {"model": "auto", **as_body(sent)[1]}, headers=session.headers)).json
        for sent in (session.messages, later)
    ]

    assert told["as_if"] == "the turn began here: the session is not known"
    assert "moved up" not in told["because"]
    assert asked["as_if"] == "the session began here: what served its earlier turns is not known"


@pytest.mark.parametrize("as_body", [as_chat, as_messages, as_responses])
async def test_a_request_of_a_turn_that_is_over_is_explained_as_if_the_turn_began_there(pair, as_body):
    session = Agent(pair, "over", "an-agent/1")
    await session.ask(TYPO)
    await session.work(2, 1)
    before = list(session.messages[:3])
    await session.ask(MIGRATE)

    body = {"model": "auto", **as_body(before)[1]}
    told = (await call(pair.port, "/tandem/explain", body, headers=session.headers)).json

    assert told["as_if"] == "the turn began here: its session is in another turn now"
