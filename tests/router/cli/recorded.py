"""A ledger of turns that were decided and served, for commands that look back."""

import asyncio
import json
from pathlib import Path

from router.config.load import load_config
from router.contract.exchange import Arrival
from router.contract.words import Dialect, Operation, Outcome
from router.wiring.build import build_house, known_names
from tests.conftest import SIMULATED
from tests.tools.ledgers import keep_entry

CALL = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "c", "type": "function", "function": {"name": "shell", "arguments": "{}"}}],
}
RESULT = {"role": "tool", "tool_call_id": "c", "content": "ok"}


def record_turns(
    folder: Path, *asks: str, calls: int = 0, headers: dict[str, str] | None = None, first: int = 1, keeps_text: bool = False
) -> list[str]:
    """Write a config with a ledger, and the turns of one session into it. Answers their ids; calls follow the last one."""
    (folder / "config.yaml").write_text(SIMULATED)
    bodies = [(f"req_{number}", [{"role": "user", "content": words}]) for number, words in enumerate(asks, first)]
    bodies += [(f"req_call_{number}", [*bodies[-1][1], CALL, RESULT]) for number in range(1, calls + 1)]
    asyncio.run(_record(folder, bodies, {"x-tandem-session": "s", **(headers or {})}, keeps_text=keeps_text))
    return [name for name, _ in bodies]


async def _record(folder: Path, bodies: list, headers: dict[str, str], *, keeps_text: bool) -> None:
    built = build_house(load_config(folder / "config.yaml", known_names()))
    for name, messages in bodies:
        raw = json.dumps({"model": "auto", "messages": messages}).encode()
        decided = await built.house.decide(Arrival(name, Dialect.CHAT, Operation.CREATE, headers, raw))
        keep_entry(built.house, decided, output_tokens=100, outcome=Outcome.SERVED, keeps_text=keeps_text)
    await built.close()
