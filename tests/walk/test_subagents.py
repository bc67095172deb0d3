"""A person's turn keeps its tier while subagents go to the configured one."""

import pytest

from tests.conftest import SIMULATED
from tests.tools.http import call

QUICK, LONG = "fix the typo in README.md", "migrate the whole codebase to async, with tests, and update every caller"
CODEX = {"user-agent": "codex_cli_rs/0.50", "session-id": "main", "thread-id": "main"}
CLAUDE = {"user-agent": "claude-cli/2.1", "x-claude-code-session-id": "main"}
MARKS = {
    "codex": ("/v1/responses", CODEX, {"thread-id": "child", "x-openai-subagent": "collab_spawn"}),
    "claude-code": ("/v1/messages", CLAUDE, {"x-claude-code-agent-id": "agent-1"}),
}


def body_of(path, text):
    words = [{"role": "user", "content": text}]
    return (
        {"model": "auto", "input": words} if path == "/v1/responses" else {"model": "auto", "max_tokens": 99, "messages": words}
    )


async def tier_of(tandem, path, text, headers):
    reply = await call(tandem.port, path, body_of(path, text), headers)
    assert reply.status == 200
    return reply.headers["x-tandem-tier"], reply.headers["x-tandem-because"]


@pytest.mark.parametrize("client", MARKS)
async def test_a_quick_subagent_goes_to_deep_while_the_persons_quick_turn_stays_on_fast(start, client):
    path, own, mark = MARKS[client]
    tandem = await start(SIMULATED + "subagents: deep\n")

    persons, _ = await tier_of(tandem, path, QUICK, own)
    subagents, because = await tier_of(tandem, path, QUICK, {**own, **mark})
    forced, _ = await tier_of(tandem, path, QUICK, {**own, **mark, "x-tandem-tier": "fast"})

    assert (persons, subagents, forced) == ("fast", "deep", "fast")
    assert because.startswith("a subagent, and subagents lean to deep")


async def test_a_long_subagent_goes_to_fast_while_the_persons_long_turn_stays_on_deep(start):
    path, own, mark = MARKS["codex"]
    tandem = await start(SIMULATED + "subagents: fast\n")

    persons, _ = await tier_of(tandem, path, LONG, own)
    subagents, _ = await tier_of(tandem, path, LONG, {**own, **mark})

    assert (persons, subagents) == ("deep", "fast")


@pytest.mark.parametrize(("text", "tier"), [(QUICK, "fast"), (LONG, "deep")])
async def test_by_default_a_subagent_is_decided_by_what_it_was_told(start, text, tier):
    path, own, mark = MARKS["codex"]

    chosen, because = await tier_of(await start(SIMULATED), path, text, {**own, **mark})

    assert chosen == tier
    assert "subagents lean" not in because
