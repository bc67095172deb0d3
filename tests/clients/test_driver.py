"""The agents' SDKs and Copilot's command line, as a program or a person starts them."""

import pytest

from tests.clients import driver
from tests.conftest import SIMULATED
from tests.tools.running import read_entries
from tests.tools.waiting import until

pytestmark = [pytest.mark.clients, pytest.mark.timeout(300)]
LAST_WORDS = "tier: no model was asked"
ANSWERS = {"codex-sdk": 2, "claude-agent-sdk": 1, "copilot-chat": 1, "copilot-messages": 1}
"""By client: how many answers its run prints. Copilot over Responses is in `test_connect`."""


@pytest.mark.parametrize("name", ANSWERS)
async def test_it_runs_a_tool_and_prints_the_last_words(start, tmp_path, name):
    tandem = await start(SIMULATED)

    said = await driver.run(name, f"{tandem.url}/v1", tmp_path, seconds=200)

    assert " ".join(said.split()).count(LAST_WORDS) >= ANSWERS[name], said[-800:]
    await until(lambda: "tool_loop" in kinds(tandem))  # the ledger is written a moment after the answer
    assert kinds(tandem).count("ask") >= ANSWERS[name]


def kinds(tandem) -> list[str]:
    return [row["turn_kind"] for row in read_entries(tandem.loaded.ledger_path)]
