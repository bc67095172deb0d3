"""Real clients against the simulated tiers, each in its own dialect."""

import pytest

from router.config.load import check_config
from router.past.cases import cases_of
from router.past.logs import find_logs, read_logs
from router.past.logs.lines import Tally
from router.past.replay import choose_again, quiet
from router.wiring.build import build_house, known_names
from tests.conftest import SIMULATED
from tests.tools.clients import CODEX_KEY, claude, claude_environment, codex, make_scratch, run_client

pytestmark = [pytest.mark.clients, pytest.mark.timeout(300)]


CONFIG = SIMULATED.replace('"gpt-*": auto', '"gpt-*": auto, "claude-*": auto')


@pytest.fixture
async def tandem(start):
    return await start(CONFIG)


async def test_codex_makes_a_tool_call_and_ends_its_turn(tandem, tmp_path):
    said = await run_client(codex(tandem.url), make_scratch(tmp_path), CODEX_KEY)

    assert "simulated fast tier: no model was asked" in said
    entries = await tandem.entries(3)
    assert [(entry["turn_kind"], entry["tier"], entry["outcome"]) for entry in entries] == [
        ("prewarm", None, "SERVED"),  # over its socket, before the first turn
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


@pytest.mark.parametrize("name", ["codex", "claude"])
async def test_the_log_that_a_client_leaves_replays_to_the_score_that_was_served(tandem, tmp_path, name):
    scratch = make_scratch(tmp_path)
    if name == "codex":
        await run_client(codex(tandem.url), scratch, CODEX_KEY)
    else:
        await run_client(claude(), scratch, claude_environment(tandem.url))
    served = next(entry for entry in await tandem.entries(3 if name == "codex" else 2) if entry["turn_kind"] == "ask")

    tally = Tally()
    (case,) = cases_of(read_logs(find_logs([scratch / "home"], tally), tally))
    built = build_house(check_config(CONFIG, "test", scratch, known_names()), with_ledger=False)
    again = await choose_again(quiet(built.house), case)
    await built.close()

    assert case.session == served["session"]
    assert again.score == pytest.approx(served["score"])
    assert tally.broken_lines == tally.unknown_files == 0
