"""Real clients over one WebSocket: twenty turns in one process, with the tier that each turn's words ask for."""

import pytest

from router.edge.admission import Admission, Slot
from tests.conftest import SIMULATED
from tests.tools.clients import make_scratch, run_client, socket_sdk
from tests.tools.codex_app import BUILT_IN, PROVIDER, codex_app

pytestmark = [pytest.mark.clients, pytest.mark.timeout(300)]

SMALL, LARGE = "Fix the typo in calc.py", "Migrate the whole codebase to async, with tests and docs"
ASKED = [LARGE if number % 4 == 2 else SMALL for number in range(20)]
SLOW_DEEP = SIMULATED.replace("ttft_seconds: 0.02, tokens_per_second: 20000", "ttft_seconds: 0.4, tokens_per_second: 300")
SDK_SCRIPT = """
from openai import OpenAI

with OpenAI().responses.connect() as socket:
    previous = None
    for words in ("Fix the typo in calc.py", "Thanks", "Now rename the function"):
        more = {"previous_response_id": previous} if previous else {}
        socket.response.create(model="auto", input=words, store=False, **more)
        for event in socket:
            if event.type == "response.completed":
                previous = event.response.id
                print("said", event.response.output_text.replace("\\n", " "))
                break
            assert event.type != "error", event
"""


@pytest.fixture
def handshakes(monkeypatch) -> list[str]:
    """The clients that opened a socket, one for each handshake."""
    seen, admit = [], Admission.admit

    def count(self, head, takes=Slot.REQUEST):
        if takes is Slot.SOCKET:
            seen.append(head.headers.get("user-agent", ""))
        return admit(self, head, takes)

    monkeypatch.setattr(Admission, "admit", count)
    return seen


@pytest.mark.parametrize("config", [PROVIDER, BUILT_IN], ids=["a provider of its own", "the built-in one"])
async def test_codex_takes_twenty_turns_on_one_socket_and_each_has_its_tier(start, tmp_path, handshakes, config):
    tandem = await start(SLOW_DEEP)

    async with codex_app(tandem.url, make_scratch(tmp_path), config) as codex:
        turns = [await codex.turn(words) for words in ASKED]
        problems = [told for told in codex.told if told["method"] == "error"]

    assert [turn["status"] for turn in turns] == ["completed"] * 20
    assert problems == []
    assert len(handshakes) == 1  # as many as a server needs that answers from a script
    entries = await tandem.entries(41)
    asks = [entry for entry in entries if entry["turn_kind"] == "ask"]
    assert [entry["tier"] for entry in asks] == ["deep" if words == LARGE else "fast" for words in ASKED]
    assert {entry["outcome"] for entry in entries} == {"SERVED"}


async def test_the_python_sdk_talks_over_one_socket(start, tmp_path, handshakes):
    tandem = await start(SIMULATED)
    script = tmp_path / "talk.py"
    script.write_text(SDK_SCRIPT)
    environment = {"OPENAI_BASE_URL": f"{tandem.url}/v1", "OPENAI_API_KEY": "any"}

    said = await run_client([str(socket_sdk()), str(script)], make_scratch(tmp_path), environment)

    assert said.count("no model was asked") == 3, said
    assert len(handshakes) == 1
    entries = await tandem.entries(3)
    assert [entry["outcome"] for entry in entries] == ["SERVED"] * 3
    assert len({entry["session"] for entry in entries}) == 1
