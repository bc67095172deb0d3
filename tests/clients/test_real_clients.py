"""Real clients against the simulated tiers, each in its own dialect."""

import pytest

from tests.conftest import SIMULATED
from tests.tools.clients import CODEX_KEY, claude, claude_environment, codex, make_scratch, run_client

pytestmark = [pytest.mark.clients, pytest.mark.timeout(300)]


@pytest.fixture
async def tandem(start):
    return await start(SIMULATED.replace('"gpt-*": auto', '"gpt-*": auto, "claude-*": auto'))


async def test_codex_makes_a_tool_call_and_ends_its_turn(tandem, tmp_path):
    said = await run_client(codex(tandem.url), make_scratch(tmp_path), CODEX_KEY)

    assert "simulated fast tier: no model was asked" in said
    entries = await tandem.entries(2)
    assert [(entry["turn_kind"], entry["tier"], entry["outcome"]) for entry in entries] == [
        ("ask", "fast", "SERVED"),
        ("tool_loop", "fast", "SERVED"),
    ]
    assert len({entry["session"] for entry in entries}) == 1


async def test_claude_code_makes_a_tool_call_and_ends_its_turn(tandem, tmp_path):
    said = await run_client(claude(), make_scratch(tmp_path), claude_environment(tandem.url))

    assert "simulated fast tier: no model was asked" in said
    entries = await tandem.entries(2)
    assert {entry["outcome"] for entry in entries} == {"SERVED"}
    assert {entry["dialect"] for entry in entries} == {"messages"}
