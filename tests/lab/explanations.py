"""Explanations of turns drawn at random, each with what came before it, to be read against the ask.

Every turn is served as a router would: earlier turns first, call by call, so that its session is remembered. No target is called.
"""

import json
import random
from collections.abc import AsyncIterator, Iterator
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from textwrap import indent, shorten
from typing import Any, NamedTuple

from router.config.load import LoadedConfig
from router.contract.errors import TandemError
from router.contract.exchange import Arrival
from router.contract.request import JsonObject
from router.contract.words import Dialect, Operation
from router.house import House
from router.past.rehearsal import Conversation, serve
from router.wiring.build import build_house

SHARES = {"prompts": 28, "remarks": 10, "offers": 10, "wire": 12}
"""Of 60 explanations: real prompts, what people said after a turn, replies to offers, requests of real clients."""
_DIALECTS = {"/chat/completions": Dialect.CHAT, "/responses": Dialect.RESPONSES, "/messages": Dialect.MESSAGES}
_PURPOSES = ("user_turn", "tool_followup", "post_compaction", "compaction", "title", "commit_message", "subagent", "review")
_REAL = ("agent_session_specstory", "realhumaneval")
"""Sources of what people typed while they worked; the others are benchmarks."""
_MAX_CALLS = 60


class Drawn(NamedTuple):
    """A turn, the one before it, and what the assistant said last."""

    name: str
    ask: str
    before: str = ""
    calls: int | None = None
    said: str = "Done."
    has_tools: bool = True


class Explained(NamedTuple):
    drawn: Drawn
    told: JsonObject

    def __str__(self) -> str:
        drawn, told = self
        lines = [drawn.name]
        if drawn.before:
            lines.append(f"  before:    {shorten(drawn.before, 240)}")
            lines.append(f"  assistant: {shorten(drawn.said, 400)} ({drawn.calls or 0} calls)")
        lines += ["  ask:", indent(drawn.ask[:700], "    | ")]
        lines.append(f"  {told['tier']}  {float(str(told['score'])):.0%}  {told['because']}")
        return "\n".join(lines + ([f"  as if {told['as_if']}"] if told["as_if"] else []))


async def explain_drawn(loaded: LoadedConfig, shared: Path, seed: int, count: int) -> AsyncIterator[Explained]:
    """`count` turns, in the shares above. One seed always draws the same turns."""
    chance, data = random.Random(seed), shared / "routing-data"
    wire = [explained async for explained in _explain_wire(loaded, shared / "wire")]
    pools = {"prompts": [*_prompts(data)], "remarks": [*_remarks(data)], "offers": [*_offers(data)]}
    for name, share in SHARES.items():
        wanted = round(share * count / sum(SHARES.values()))
        if name == "wire":
            for explained in chance.sample(wire, wanted):
                yield explained
            continue
        for drawn in chance.sample(pools[name], wanted):
            house = build_house(loaded, with_ledger=False).house
            try:
                yield Explained(drawn, await _explain(house, drawn))
            finally:
                house.state.counter.close()


async def _explain(house: House, drawn: Drawn) -> JsonObject:
    conversation = Conversation(house, "claude-code" if drawn.has_tools else "unknown")
    if drawn.before:
        await conversation.take_turn(drawn.before, drawn.calls, drawn.said)
    return await house.explain(conversation.ask(drawn.ask))


async def _explain_wire(loaded: LoadedConfig, folder: Path) -> AsyncIterator[Explained]:
    """Requests of real clients, in the order in which each sent them."""
    entries = json.loads((folder / "index.json").read_text())
    for (client, scenario), group in groupby(entries, itemgetter("client", "scenario")):
        house = build_house(loaded, with_ledger=False).house
        for entry in group:
            dialect = next((found for end, found in _DIALECTS.items() if entry["path"].partition("?")[0].endswith(end)), None)
            if entry["method"] != "POST" or dialect is None or entry["purpose"] not in _PURPOSES:
                continue
            sent = json.loads((folder / entry["file"]).read_text())
            headers = {name.lower(): value for name, value in sent["headers"].items()}
            raw = json.dumps({**sent["body"], "model": "auto"}).encode()
            arrival = Arrival("req_lab", dialect, Operation.CREATE, headers, raw)
            try:
                told = await house.explain(arrival)
                await serve(house, arrival)
            except TandemError:
                continue  # a thread whose beginning was not sent
            name = f"{client} {scenario}: {entry['purpose']} ({entry['file']})"
            yield Explained(Drawn(name, sent.get("user_text") or "(nothing typed)"), told)
        house.state.counter.close()


def _prompts(data: Path) -> Iterator[Drawn]:
    for name in ("train.jsonl", "dev.jsonl"):
        for item in _lines(data / name):
            if item["source"] not in _REAL:
                continue
            context = item["context"]
            calls = context.get("prior_tool_calls") or [0]
            before = context.get("prev_prompt") or ""
            yield Drawn(item["id"], item["prompt"], before, min(calls[-1], _MAX_CALLS), has_tools=bool(context["has_tools"]))
    for item in _lines(data / "more" / "prompts.jsonl"):
        last = item["prior"][-1] if item["prior"] else {"text": "", "calls": 0}
        calls = min(last["calls"] or 0, _MAX_CALLS)
        yield Drawn(item["id"], item["text"], last["text"], calls, has_tools=item["setting"] == "agent")


def _remarks(data: Path) -> Iterator[Drawn]:
    for number, item in enumerate(_lines(data / "complaints.jsonl")):
        yield Drawn(f"remark {number}", item["says"], item["asked"], min(item["calls"], _MAX_CALLS))


def _offers(data: Path) -> Iterator[Drawn]:
    for item in _lines(data / "offers.jsonl"):
        yield Drawn(item["id"], item["reply"], item["before"], None, item["assistant"])


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    return map(json.loads, path.read_text().splitlines())
